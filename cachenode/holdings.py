"""What the node holds: tree, shelves, ranks, marks and events, changed together. Pure."""

from collections.abc import Iterable

from cachenode.block import Block, Copy, CopyState
from cachenode.block_tree import BlockTree, path, subtree_leaves_first
from cachenode.event_log import EventLog
from cachenode.eviction import EvictionPolicy
from cachenode.pins import Pins
from cachenode.plans import TierLimits
from cachenode.session_tails import SessionTails
from cachenode.shelf import Shelf
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.tier import Tier

SEQUENCE_MAX = 2**64 - 1


class Holdings:
    """
    The state behind the catalog, and the only three changes that a held block knows.

    A block is admitted, moves to another copy, or is removed with all that hang on it. Whoever
    plans (reads, writes, moves, recovery) goes through these, and so no two of the views differ.
    """

    def __init__(
        self,
        *,
        dram: TierLimits,
        ssd: TierLimits,
        policy: EvictionPolicy[Block],
        events: EventLog,
    ) -> None:
        self.tree = BlockTree()
        self.shelves = {Tier.DRAM: Shelf(Tier.DRAM, dram), Tier.SSD: Shelf(Tier.SSD, ssd)}
        self.policy = policy
        self.pins = Pins()
        self.tails = SessionTails()
        self.events = events
        self._next_sequence = 1

    @property
    def is_empty(self) -> bool:
        """Whether not even a copy is counted."""
        return not any(map(len, self.shelves.values()))

    def reserve(
        self,
        tier: Tier,
        *,
        namespace_id: bytes,
        key: bytes,
        parent_key: bytes,
        checksum: int,
        size_bytes: int,
    ) -> Copy | None:
        """Reserve room for a new copy, with a sequence number of its own; None if there is none."""
        ref = BlockRef(
            namespace_id, key, parent_key, tier, self._next_sequence, checksum, size_bytes
        )
        copy = self.shelves[tier].reserve(ref)
        if copy is not None:
            self._next_sequence += 1
        return copy

    def skip_sequences(self, highest: int) -> None:
        """Number further copies above `highest`, which a store was found to hold."""
        assert highest < SEQUENCE_MAX
        self._next_sequence = max(self._next_sequence, highest + 1)

    def shelf_of(self, copy: Copy) -> Shelf:
        """The shelf that counts a copy."""
        return self.shelves[copy.ref.tier]

    def hold(self, copies: Iterable[Copy]) -> None:
        """Keep copies from erasure while they are read, as `Shelf.hold` does one."""
        for copy in copies:  # 14,400 of them for a long prompt: hence no calls in here
            copy.readers += 1

    def let_go(self, copies: Iterable[Copy]) -> None:
        """End holds, as `Shelf.let_go` does one."""
        for copy in copies:
            if copy.state is CopyState.STORED and copy.readers > 0:
                copy.readers -= 1
            else:
                self.shelf_of(copy).let_go(copy)

    def condemn(self, copy: Copy) -> None:
        """Have a copy erased once nobody reads it."""
        self.shelf_of(copy).condemn(copy)

    def admit(self, spec: NamespaceSpec, copy: Copy) -> Block:
        """Hold a block whose bytes are stored. Its parent is held, and it is not."""
        block = self.tree.add(spec, copy)
        self._placed(block)
        return block

    def admit_ranked(self, blocks: Iterable[Block]) -> None:
        """Rank and announce blocks that the tree holds since just now, the coldest first."""
        for block in blocks:
            self._placed(block)

    def relocate(self, block: Block, copy: Copy) -> None:
        """Let another copy stand for a block, and have the one before erased."""
        self.shelves[block.tier].blocks -= 1
        self.condemn(block.copy)
        block.copy = copy
        self._placed(block)

    def remove(self, block: Block) -> int:
        """Hold a block and all that hang on it no more; return how many that were (I2)."""
        doomed = subtree_leaves_first(block)
        for leaf in doomed:
            self.pins.slide(leaf)
            self.tails.slide(leaf)
            self.policy.removed(leaf)
            self.shelves[leaf.tier].blocks -= 1
            self.condemn(leaf.copy)
            self.tree.remove_leaf(leaf)
            self.events.record(leaf.namespace_id, leaf.key, None)
        return len(doomed)

    def heat(self, block: Block) -> None:
        """
        Make the path to a block the hottest, its head hottest of all.

        A parent that is never colder than its children is what makes the coldest block of the
        cache a leaf, so that eviction finds one at once.
        """
        self.policy.touched(path(block))

    def keep_warm(self, block: Block) -> None:
        """Make the path to a block the hottest, as `heat` does, when its use is counted already."""
        self.policy.warmed(path(block))

    def may_leave(self, block: Block) -> bool:
        """Whether a block may be evicted: an idle, unpinned leaf that no write builds upon."""
        return (
            not block.children
            and not block.pending_children
            and not block.is_moving
            and not block.copy.readers
            and not self.pins.is_pinned(block)
        )

    def _placed(self, block: Block) -> None:
        tier = block.copy.ref.tier
        self.shelves[tier].blocks += 1
        self.policy.added(block, tier)
        self.events.record(block.namespace_id, block.key, tier)
