"""A naive model of a node, which drives a catalog and checks it after every step."""

from collections.abc import Callable, Sequence
from typing import Any

from cachenode.catalog import Catalog
from cachenode.eviction import policy_named
from cachenode.plans import Move, ReadPlan, RecoveredBlock, TierLimits, WriteTicket
from hearthkv.core.block_io import DropBlocks, DropNamespace, DropSession, PinQuery, WriteStatus
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.session_id import SessionId
from hearthkv.core.tier import Tier

Pick = Callable[[Sequence[Any]], Any]
"""Chooses one of several: by a draw of hypothesis, or by a seeded generator."""

TIERS = (Tier.DRAM, Tier.SSD)
FRAME_BYTES = 16
SPECS = (NamespaceSpec(b"a" * 16, 16, 100), NamespaceSpec(b"b" * 16, 16, 150))
SPEC_OF = {spec.namespace_id: spec for spec in SPECS}
SESSIONS = (None, SessionId("x"), SessionId("y"))

# A tree: each block's parent has half its number, so 1-2-4, 1-2-5, 1-3-6, 1-3-7 share prefixes.
NUMBERS = range(1, 8)
LEAVES = range(4, 8)


def key_of(number: int) -> bytes:
    return number.to_bytes(16, "big")


def parent_of(number: int) -> bytes:
    return key_of(number // 2) if number > 1 else b""


def chain_to(number: int) -> list[int]:
    return [*chain_to(number // 2), number] if number else []


def keys_to(number: int) -> PackedKeys:
    return PackedKeys.join([key_of(one) for one in chain_to(number)])


class CatalogModel:
    """
    A catalog, two stores, and what is under way between them.

    `mirror` is what a router believes, from events alone; `counted` are the copies that may be in
    a store, so that their bytes must be counted.
    """

    def __init__(self, pick: Pick) -> None:
        self.limits = {
            Tier.DRAM: TierLimits(pick([500, 800, 300, 0]), FRAME_BYTES),
            Tier.SSD: TierLimits(pick([1500, 900, 400, 0]), FRAME_BYTES, align_bytes=32),
        }
        self.threshold = pick([0.5, 0.85, 1.0])
        self.stores: dict[Tier, set[BlockRef]] = {tier: set() for tier in TIERS}
        self.now = 0.0
        self.pin_ids: list[str] = []
        self._boot()

    def _boot(self) -> None:
        """Start an empty catalog, as a process does that was killed."""
        self.catalog = Catalog(
            dram=self.limits[Tier.DRAM],
            ssd=self.limits[Tier.SSD],
            offload_threshold=self.threshold,
            policy=policy_named("lru_with_media_priority"),
        )
        self.tickets: list[WriteTicket] = []
        self.moves: list[Move] = []
        self.reads: list[ReadPlan] = []
        self.erasing: list[BlockRef] = []
        self.landed: set[BlockRef] = set()  # bytes that were stored before their commit
        self.counted: dict[Tier, set[BlockRef]] = {tier: set() for tier in TIERS}
        self.mirror: dict[tuple[bytes, bytes], Tier] = {}
        self.subscription = self.catalog.events.subscribe()
        self.subscription.restart()

    # Steps

    def plan_writes(self, pick: Pick) -> None:
        """Have a whole chain under way at once, as a stream does that waits for no commit."""
        spec, session = pick(SPECS), pick(SESSIONS)
        for number in chain_to(pick(LEAVES)):
            ticket = self._plan_write(spec, number, session)
            if ticket is not None:
                self.tickets.append(ticket)

    def write_chain(self, pick: Pick) -> None:
        spec, session, leaf = pick(SPECS), pick(SESSIONS), pick(LEAVES)
        for number in chain_to(leaf):
            ticket = self._plan_write(spec, number, session)
            if ticket is not None:
                self._commit_write(ticket)
        self.catalog.touch(spec.namespace_id, key_of(leaf))

    def let_bytes_land(self, pick: Pick) -> None:
        """Store what was planned; much may happen before the catalog is told."""
        if self.tickets or self.moves:
            self._land(pick([*self.tickets, *self.moves]).target)

    def commit_write(self, pick: Pick) -> None:
        if self.tickets:
            self._commit_write(self._take(pick, self.tickets))

    def give_write_up(self, pick: Pick) -> None:
        if self.tickets:
            ticket = self._take(pick, self.tickets)
            if ticket.target in self.landed or pick([True, False]):
                self.catalog.abort_write(ticket)
            else:
                self.counted[ticket.target.tier].remove(ticket.target)
                self.catalog.cancel_write(ticket)

    def plan_read(self, pick: Pick) -> None:
        spec, leaf, skipped = pick(SPECS), pick(LEAVES), pick([0, 1, 2])
        wanted = keys_to(leaf).slice(skipped, 9)
        plan = self.catalog.plan_read(spec.namespace_id, wanted, pick(SESSIONS))
        assert [ref.key for ref in plan.refs] == list(wanted)[: len(plan.refs)]
        if not skipped:
            assert self.catalog.match(spec.namespace_id, wanted).total == len(plan.refs)
        self.reads.append(plan)

    def finish_read(self, pick: Pick) -> None:
        if self.reads:
            self.catalog.finish_read(self._take(pick, self.reads))

    def lose_what_is_read(self, pick: Pick) -> None:
        refs = [ref for plan in self.reads for ref in plan.refs]
        if refs:
            self.must_be_lost(self.catalog.lose(pick(refs)))

    def plan_demotions(self, pick: Pick) -> None:
        is_calm = all(
            usage.used_bytes + usage.reserved_bytes <= usage.limit_bytes * self.threshold
            and not self.catalog._shelves[usage.tier].wanted_bytes
            for usage in self.catalog.usage()
        )
        moves_max = pick([1, 2, 4])
        demotions = self.catalog.plan_demotions(moves_max)
        assert len(demotions.moves) <= moves_max
        assert not (is_calm and demotions)
        self._begin(demotions.moves)
        self.must_be_lost(demotions.evicted_blocks)

    def prefetch(self, pick: Pick) -> None:
        leaf = pick(LEAVES)
        coming = self.catalog.request_prefetch(pick(SPECS).namespace_id, keys_to(leaf))
        assert coming <= len(chain_to(leaf))
        self._begin(self.catalog.plan_promotions(2))

    def commit_move(self, pick: Pick) -> None:
        if self.moves:
            move = self._take(pick, self.moves)
            self._land(move.target)
            if self.catalog.commit_move(move):
                assert self._ref(move.target.namespace_id, move.target.key) == move.target

    def abort_move(self, pick: Pick) -> None:
        if self.moves:
            self.catalog.abort_move(self._take(pick, self.moves))

    def plan_erasures(self, pick: Pick) -> None:
        blocks_max = pick([1, 3, 9])
        refs = self.catalog.plan_erasures(blocks_max)
        in_use = {ref for plan in self.reads for ref in plan.refs}
        in_use |= {move.source for move in self.moves}
        assert len(refs) <= blocks_max
        assert not set(refs) & (in_use | set(self.erasing))
        self.erasing.extend(refs)

    def commit_erase(self, pick: Pick) -> None:
        if self.erasing:
            self._erase(self._take(pick, self.erasing))

    def abort_erase(self, pick: Pick) -> None:
        if self.erasing:
            self.catalog.abort_erase([self._take(pick, self.erasing)])

    def carry_out_all_that_is_due(self, pick: Pick) -> None:
        """Work as a healthy node does, until nothing is planned; then no byte is left over."""
        is_done = False
        while not is_done:
            self.plan_erasures(lambda choices: choices[-1])
            demotions = self.catalog.plan_demotions()
            self.must_be_lost(demotions.evicted_blocks)
            self._begin(demotions.moves)
            is_done = not (self.erasing or self.moves or demotions)
            while self.erasing:
                self.commit_erase(pick)
            while self.moves:
                self.commit_move(pick)
        for usage in self.catalog.usage():
            if not (self.reads or self.tickets or usage.trouble):
                held = {self._ref(*name) for name in self.mirror}
                assert self.counted[usage.tier] == {ref for ref in held if ref.tier is usage.tier}

    def drop_blocks(self, pick: Pick) -> None:
        namespace_id, key = pick(SPECS).namespace_id, key_of(pick(NUMBERS))
        self.must_be_lost(self.catalog.drop(DropBlocks(namespace_id, PackedKeys(key))))
        assert (namespace_id, key) not in self.mirror

    def drop_session(self, pick: Pick) -> None:
        self.must_be_lost(self.catalog.drop(DropSession(pick(SESSIONS) or SessionId("unknown"))))

    def drop_namespace(self, pick: Pick) -> None:
        spec = pick(SPECS)
        self.must_be_lost(self.catalog.drop(DropNamespace(spec.namespace_id)))
        assert not any(namespace_id == spec.namespace_id for namespace_id, _ in self.mirror)

    def pin(self, pick: Pick) -> None:
        pin_id = f"pin-{len(self.pin_ids)}"
        query = PinQuery(pick(SPECS).namespace_id, keys_to(pick(NUMBERS)), pick([1.0, 5.0]))
        pinned = self.catalog.pin(query, pin_id=pin_id, now=self.now)
        assert (pinned.blocks > 0) == bool(pinned.pin_id)
        self.pin_ids.append(pin_id)

    def unpin(self, pick: Pick) -> None:
        if self.pin_ids:
            self.catalog.unpin(pick(self.pin_ids))

    def let_time_pass(self, pick: Pick) -> None:
        self.now += pick([0.5, 3.0])
        self.catalog.expire_pins(self.now)

    def set_trouble(self, pick: Pick) -> None:
        self.catalog.set_trouble(pick(TIERS), pick(["away", "", "", ""]))

    def empty_a_store(self, pick: Pick) -> None:
        tier = pick(TIERS)
        self.stores[tier].clear()
        self.counted[tier] &= {planned.target for planned in (*self.tickets, *self.moves)}
        self.must_be_lost(self.catalog.forget_tier(tier))
        assert tier not in self.mirror.values()

    def kill_and_restore(self, pick: Pick) -> None:
        """I4: what was acknowledged is found again, with the accounting right to the byte."""
        acknowledged = set(self.mirror)
        self._boot()
        left = sorted(
            (ref for tier in TIERS for ref in self.stores[tier]), key=lambda r: r.sequence
        )
        found = [RecoveredBlock(SPEC_OF[ref.namespace_id], ref) for ref in left]
        restored = self.catalog.restore(found[:: pick([1, -1])])
        self.counted = {tier: set(self.stores[tier]) for tier in TIERS}
        self.replay()
        assert acknowledged <= set(self.mirror)
        assert restored.blocks == len(self.mirror)
        assert restored.blocks + restored.orphans + restored.duplicates == len(found)

    # What must be true after every step

    def check(self) -> None:
        self.must_be_lost(0)
        self._check_prefixes()
        self._check_bytes()
        self._check_stores()

    def _check_prefixes(self) -> None:
        """I2: every held block has its parent. And the router's view is the node's."""
        for namespace_id, key in self.mirror:
            parent_key = parent_of(int.from_bytes(key, "big"))
            assert not parent_key or (namespace_id, parent_key) in self.mirror
        parts = list(self.catalog.snapshot())
        inventory = {(part.namespace_id, key): part.tier for part in parts for key in part.keys}
        assert inventory == self.mirror

    def _check_bytes(self) -> None:
        """I3: no tier is over its limit, and the accounting is right to the byte."""
        for usage in self.catalog.usage():
            stored_bytes = self.limits[usage.tier].stored_bytes
            counted_bytes = sum(stored_bytes(ref.size_bytes) for ref in self.counted[usage.tier])
            assert usage.used_bytes + usage.reserved_bytes == counted_bytes <= usage.limit_bytes
            assert min(usage.used_bytes, usage.reserved_bytes) >= 0
            assert usage.blocks == sum(tier is usage.tier for tier in self.mirror.values())
            assert self.stores[usage.tier] <= self.counted[usage.tier]

    def _check_stores(self) -> None:
        """Every held block is in its store, however late an older copy of it was erased."""
        for name in self.mirror:
            assert self._ref(*name) in self.stores[self._ref(*name).tier]
        for ref in (ref for plan in self.reads for ref in plan.refs):
            # Its store may have been emptied; nothing else takes it from a reader.
            assert ref in self.stores[ref.tier] or ref not in self.counted[ref.tier]

    def must_be_lost(self, count: int) -> None:
        """What was done since the last look has cost just so many held blocks."""
        before = set(self.mirror)
        self.replay()
        assert len(before - set(self.mirror)) == count

    def replay(self) -> None:
        """Take in the events, as a router does."""
        while batch := self.subscription.take():
            for event in batch.events:
                for key in event.keys:
                    if event.tier is None:
                        del self.mirror[event.namespace_id, key]
                    else:
                        self.mirror[event.namespace_id, key] = event.tier

    def _plan_write(
        self, spec: NamespaceSpec, number: int, session: SessionId | None
    ) -> WriteTicket | None:
        is_held = (spec.namespace_id, key_of(number)) in self.mirror
        planned = self.catalog.plan_write(
            spec,
            key=key_of(number),
            parent_key=parent_of(number),
            size_bytes=spec.block_bytes,
            checksum=number,
            session_id=session,
        )
        assert is_held == (planned is WriteStatus.ALREADY_HELD)
        if isinstance(planned, WriteStatus):
            return None
        self.counted[planned.target.tier].add(planned.target)
        return planned

    def _commit_write(self, ticket: WriteTicket) -> None:
        self._land(ticket.target)
        held_before = len(self.mirror)
        status = self.catalog.commit_write(ticket)
        self.must_be_lost(0)
        assert status.is_held == ((ticket.target.namespace_id, ticket.target.key) in self.mirror)
        assert len(self.mirror) == held_before + (status is WriteStatus.STORED)

    def _begin(self, moves: tuple[Move, ...]) -> None:
        for move in moves:
            self.moves.append(move)
            self.counted[move.target.tier].add(move.target)

    def _land(self, target: BlockRef) -> None:
        if target not in self.landed:
            self.landed.add(target)
            self.stores[target.tier].add(target)

    def _erase(self, ref: BlockRef) -> None:
        self.stores[ref.tier].discard(ref)
        self.counted[ref.tier].discard(ref)
        self.catalog.commit_erase([ref])

    def _ref(self, namespace_id: bytes, key: bytes) -> BlockRef:
        block = self.catalog._tree.find(namespace_id, key)
        assert block is not None
        return block.copy.ref

    def _take(self, pick: Pick, under_way: list[Any]) -> Any:
        chosen = pick(range(len(under_way)))
        return under_way.pop(chosen)


COMMON = (
    CatalogModel.plan_writes,
    CatalogModel.write_chain,
    CatalogModel.let_bytes_land,
    CatalogModel.commit_write,
    CatalogModel.plan_read,
    CatalogModel.finish_read,
    CatalogModel.plan_demotions,
    CatalogModel.prefetch,
    CatalogModel.commit_move,
    CatalogModel.plan_erasures,
    CatalogModel.commit_erase,
)
RARE = (
    CatalogModel.give_write_up,
    CatalogModel.abort_move,
    CatalogModel.abort_erase,
    CatalogModel.carry_out_all_that_is_due,
    CatalogModel.lose_what_is_read,
    CatalogModel.drop_blocks,
    CatalogModel.drop_session,
    CatalogModel.pin,
    CatalogModel.unpin,
    CatalogModel.let_time_pass,
    CatalogModel.set_trouble,
)
DISASTERS = (
    CatalogModel.drop_namespace,
    CatalogModel.empty_a_store,
    CatalogModel.kill_and_restore,
)
