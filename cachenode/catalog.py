"""
The catalog: which blocks the node holds, and what is planned with them. Pure.

The node works in three beats. *Plan*: a call here that keeps what it touches from erasure, and
reserves the bytes that it will need. *Perform*: the node awaits its stores, and holds no lock.
*Commit* or *abort*: a call here that tells what really happened. Between two calls everything
agrees: prefixes are closed (I2), and no tier is over its limit, work under way included (I3).

Whatever must go from a store waits in one queue, which `plan_erasures` empties. Its bytes are
counted until the store has confirmed that they are gone.
"""

from collections.abc import Iterable, Iterator

from cachenode import drops, lineages
from cachenode.block import Block
from cachenode.event_log import EventLog, snapshot_parts
from cachenode.eviction import EvictionPolicy
from cachenode.holdings import Holdings
from cachenode.lineages import Estate, Tip
from cachenode.plans import (
    Demotions,
    Move,
    ReadPlan,
    RecoveredBlock,
    Restored,
    TierLimits,
    WriteTicket,
)
from cachenode.prefetch import Prefetch
from cachenode.reads import Reads
from cachenode.restore import restore
from cachenode.tiering import Tiering
from cachenode.turns import Turns
from cachenode.writes import Writes
from hearthkv.core.block_io import DropTarget, NamespaceUsage, Pinned, PinQuery, WriteStatus
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.routing import SnapshotPart
from hearthkv.core.session_id import SessionId
from hearthkv.core.tier import Tier, TierCounts, TierUsage
from hearthkv.core.turn_end import EndedTurn

ERASURES_MAX = 256
MOVES_MAX = 64


class Catalog:
    """
    What a node holds. Not thread-safe: one event loop calls it.

    Args:
        dram, ssd: Limits of the two tiers; a limit of 0 switches one off.
        offload_threshold: Fill of a tier, in (0, 1], above which it is emptied.
        policy: Ranks the blocks of each tier; it starts empty.
        events: Is told every change.
    """

    def __init__(
        self,
        *,
        dram: TierLimits,
        ssd: TierLimits,
        offload_threshold: float,
        policy: EvictionPolicy[Block],
        events: EventLog | None = None,
    ) -> None:
        self.events = EventLog() if events is None else events
        self._holdings = Holdings(dram=dram, ssd=ssd, policy=policy, events=self.events)
        self._shelves = self._holdings.shelves
        self._tree = self._holdings.tree
        self._pins = self._holdings.pins
        self._reads = Reads(self._holdings)
        self._writes = Writes(self._holdings)
        self._tiering = Tiering(self._holdings, offload_threshold)
        self._prefetch = Prefetch(self._holdings, self._tiering)
        self._turns = Turns(self._holdings, self._prefetch)

    # Reading

    def match(self, namespace_id: bytes, keys: PackedKeys) -> TierCounts:
        """Count the leading blocks that a read would give now, by tier."""
        return self._reads.match(namespace_id, keys)

    def plan_read(
        self, namespace_id: bytes, keys: PackedKeys, session_id: SessionId | None = None
    ) -> ReadPlan:
        """
        Plan a read of the longest run of held blocks, and keep its copies from erasure.

        Args:
            namespace_id: An unknown one holds nothing.
            keys: From the first block that is wanted on; those before it may be left out.
            session_id: On whose behalf; it is back from whatever it waited for.
        """
        if session_id is not None:
            self._turns.begin(session_id)
        return self._reads.plan(namespace_id, keys, session_id)

    def finish_read(self, plan: ReadPlan) -> None:
        """End a read, exactly once, however it went: its blocks are now the hottest."""
        self._reads.finish(plan)

    # Writing

    def check_namespace(self, spec: NamespaceSpec) -> None:
        """
        Compare a namespace with what is known of it.

        Raises:
            BlockSizeError: If it is known with another size; the text names both.
        """
        self._tree.check(spec)

    def plan_write(
        self,
        spec: NamespaceSpec,
        *,
        key: bytes,
        parent_key: bytes,
        size_bytes: int,
        checksum: int,
        session_id: SessionId | None = None,
    ) -> WriteTicket | WriteStatus:
        """
        Reserve room for a block, or say why it is not written.

        A parent whose write is planned and not yet ended will do; `commit_write` decides, so a
        stream commits in order. Of two writes of one block the first commit wins.

        Returns:
            A ticket to commit, abort or cancel; else ALREADY_HELD, PARENT_MISSING, NO_ROOM, or
            UNAVAILABLE where no tier takes blocks now.

        Raises:
            BlockSizeError: If the payload or the namespace has another size than is known.
        """
        return self._writes.plan(
            spec,
            key=key,
            parent_key=parent_key,
            size_bytes=size_bytes,
            checksum=checksum,
            session_id=session_id,
        )

    def commit_write(self, ticket: WriteTicket) -> WriteStatus:
        """
        Hold the block, whose bytes are stored now.

        Returns:
            STORED; else the copy is erased: ALREADY_HELD where another write was faster,
            PARENT_MISSING where the parent went or was never stored, UNAVAILABLE where the
            store was emptied meanwhile.
        """
        return self._writes.commit(ticket)

    def abort_write(self, ticket: WriteTicket) -> None:
        """Give a write up; its bytes may be in the store, and are counted until erased."""
        self._writes.abort(ticket)

    def cancel_write(self, ticket: WriteTicket) -> None:
        """Give a write up of which nothing was sent to the store, and free its room at once."""
        self._writes.cancel(ticket)

    def touch(self, namespace_id: bytes, key: bytes) -> None:
        """
        Make the path to a block the hottest, head first. Called when a stream of writes ends.

        A key that is not held is no matter.
        """
        block = self._tree.find(namespace_id, key)
        if block is not None:
            self._holdings.keep_warm(block)

    # Moving

    def plan_demotions(self, moves_max: int = MOVES_MAX) -> Demotions:
        """
        Plan a bounded batch of moves to the SSD, and evict where it has no room.

        Empty while both tiers are below their thresholds, and while DRAM waits for the SSD to
        erase. The node repeats it, with the erasures, until neither plans anything.
        """
        return self._tiering.plan_demotions(moves_max)

    def request_prefetch(self, namespace_id: bytes, keys: PackedKeys) -> int:
        """Queue the SSD blocks of a held prefix for DRAM; return how many are on their way now."""
        return self._prefetch.request(namespace_id, keys)

    def lineage(self, namespace_id: bytes, tip_key: bytes) -> PackedKeys:
        """Return the keys of the prefix that ends in a block; none where it is not held."""
        return lineages.keys_to(self._holdings, Tip(namespace_id, tip_key))

    def held_blocks(self, namespace_id: bytes, keys: PackedKeys) -> int:
        """Count the leading blocks of a prompt that are held, whether or not they can be read."""
        return self._tree.prefix_length(namespace_id, keys)

    def is_held(self, tip: Tip) -> bool:
        """Whether a block is held, and so all before it (I2)."""
        return self._tree.find(tip.namespace_id, tip.key) is not None

    def estates(self) -> Iterator[Estate]:
        """Give all that is held, by session, as of this moment; the hottest first."""
        return lineages.estates(self._holdings)

    def note_owner(self, session_id: SessionId, tip: Tip) -> None:
        """Learn that a session's prompt reaches to a block; one that is not held is no matter."""
        lineages.note_owner(self._holdings, session_id, tip)

    def end_turn(self, turn: EndedTurn, now: float) -> None:
        """Learn how a session's turn ended, and when it is expected back."""
        self._turns.end(turn, now)

    def lift_due(self, now: float) -> int:
        """Queue the SSD blocks of sessions that are expected back; return how many are coming."""
        return self._turns.lift_due(now)

    def plan_promotions(self, moves_max: int = MOVES_MAX) -> tuple[Move, ...]:
        """Plan the next moves to DRAM, as many as there is room for now."""
        return self._prefetch.plan(moves_max)

    def commit_move(self, move: Move) -> bool:
        """Let the target stand for the block; False, and it is erased, if the block went."""
        return self._tiering.commit_move(move)

    def abort_move(self, move: Move) -> None:
        """Leave the block where it is; the target is erased, for its bytes may be there."""
        self._tiering.abort_move(move)

    # Erasing

    def plan_erasures(self, blocks_max: int = ERASURES_MAX) -> tuple[BlockRef, ...]:
        """Hand out copies that must go; none of a tier in trouble, none that is being read."""
        refs: list[BlockRef] = []
        for shelf in self._shelves.values():
            refs.extend(shelf.plan_erasures(blocks_max - len(refs)))
        return tuple(refs)

    def commit_erase(self, refs: Iterable[BlockRef]) -> None:
        """Free the bytes of copies that are not in their store any more."""
        for ref in refs:
            self._shelves[ref.tier].commit_erase(ref)

    def abort_erase(self, refs: Iterable[BlockRef]) -> None:
        """Queue again what could not be erased."""
        for ref in refs:
            self._shelves[ref.tier].abort_erase(ref)

    # Forgetting

    def drop(self, target: DropTarget) -> int:
        """
        Forget what a caller names, and return how many blocks that were.

        Pins do not keep what is named by key or namespace. A session loses what neither another
        session, nor a pin, nor a block beyond its own prompts needs.
        """
        return drops.drop(self._holdings, target)

    def lose(self, ref: BlockRef) -> int:
        """
        Forget a block whose bytes proved lost or damaged, and all that hang on it (I2).

        Returns:
            Blocks forgotten; 0 where another copy stands for the block by now, or none.
        """
        return drops.lose(self._holdings, ref)

    def forget_tier(self, tier: Tier) -> int:
        """Forget the blocks of a store that was emptied, and all that hang on them (I4)."""
        return drops.forget_tier(self._holdings, tier)

    # Pinning

    def pin(self, query: PinQuery, *, pin_id: str, now: float) -> Pinned:
        """
        Keep the longest held prefix from eviction for a while.

        Args:
            query: The prefix, and for how long.
            pin_id: A fresh name that others can't guess.
            now: The time, in seconds.

        Returns:
            The pin, without a name if nothing is held or there are too many pins.
        """
        run = self._tree.prefix(query.namespace_id, query.keys)
        if not run or self._pins.is_full:
            return Pinned("", 0)
        self._pins.add(pin_id, run[-1], now + query.ttl_s)
        return Pinned(pin_id, run[-1].depth + 1)

    def unpin(self, pin_id: str) -> int:
        """End a pin and return how many blocks it kept; 0 if it is over already."""
        return self._pins.remove(pin_id)

    def expire_pins(self, now: float) -> int:
        """End the pins whose time is over, and return how many."""
        return self._pins.expire(now)

    @property
    def pin_count(self) -> int:
        """Pins in force."""
        return len(self._pins)

    # Knowing

    @property
    def written_bytes(self) -> int:
        """Payload bytes of all blocks that writes have stored since the start."""
        return self._writes.written_bytes

    def set_trouble(self, tier: Tier, text: str) -> None:
        """Mark a tier as taking no blocks, with the reason; an empty one ends the trouble."""
        self._shelves[tier].trouble = text

    def trouble(self, tier: Tier) -> str:
        """Why a tier takes no blocks now; empty while it is well."""
        return self._shelves[tier].trouble

    def set_full(self, tier: Tier, text: str) -> None:
        """
        Mark a tier as full below its limit, with what its store said; an empty text ends that.

        It takes no blocks until then, but what it has is read and erased.
        """
        self._shelves[tier].fullness = text

    def usage(self) -> tuple[TierUsage, ...]:
        """Bytes and blocks of DRAM and SSD."""
        return tuple(shelf.usage() for shelf in self._shelves.values())

    def namespaces(self) -> tuple[NamespaceUsage, ...]:
        """The namespaces that have blocks or writes."""
        return self._tree.usages()

    def spec_of(self, namespace_id: bytes) -> NamespaceSpec | None:
        """The sizes of a namespace; None if it is unknown."""
        return self._tree.spec_of(namespace_id)

    def restore(self, recovered: Iterable[RecoveredBlock]) -> Restored:
        """Hold what the stores were found to hold, as far as its ancestors are held (I4)."""
        return restore(self._holdings, recovered)

    def snapshot(self) -> Iterator[SnapshotPart]:
        """Return the inventory as of this call, in parts for a router."""
        inventory: dict[tuple[bytes, Tier], list[bytes]] = {}
        for namespace_id in self._tree.namespace_ids():
            for block in self._tree.blocks(namespace_id):
                inventory.setdefault((namespace_id, block.tier), []).append(block.key)
        return snapshot_parts(inventory)
