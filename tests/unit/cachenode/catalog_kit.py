"""A small catalog, and a shelf of stores that do as they are told, for tests."""

from cachenode.block import Block
from cachenode.catalog import Catalog
from cachenode.event_log import EventLog
from cachenode.eviction import policy_named
from cachenode.holdings import Holdings
from cachenode.plans import TierLimits, WriteTicket
from hearthkv.core.block_io import WriteStatus
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.session_id import SessionId
from hearthkv.core.tier import Tier

FRAME_BYTES = 10
BLOCK_BYTES = 90
STORED_BYTES = FRAME_BYTES + BLOCK_BYTES

NAMESPACE_ID = b"n" * 16
SPEC = NamespaceSpec(NAMESPACE_ID, block_size=16, block_bytes=BLOCK_BYTES)


def key(number: int) -> bytes:
    return number.to_bytes(16, "big")


def keys(*numbers: int) -> PackedKeys:
    return PackedKeys.join([key(number) for number in numbers])


def limits(blocks: int) -> TierLimits:
    """Room for just so many blocks."""
    return TierLimits(blocks * STORED_BYTES, frame_bytes=FRAME_BYTES)


def new_catalog(*, dram: int = 10, ssd: int = 10, threshold: float = 1.0) -> Catalog:
    """A catalog with room for `dram` and `ssd` blocks."""
    return Catalog(
        dram=limits(dram),
        ssd=limits(ssd),
        offload_threshold=threshold,
        policy=policy_named("lru_with_media_priority"),
    )


def new_holdings(*, dram: int = 10, ssd: int = 10) -> Holdings:
    policy = policy_named("lru_with_media_priority")
    return Holdings(dram=limits(dram), ssd=limits(ssd), policy=policy, events=EventLog())


def ref(number: int, parent: int = 0, *, tier: Tier = Tier.DRAM, sequence: int = 0) -> BlockRef:
    """A copy of block `number`, which hangs on block `parent`; 0 is none."""
    parent_key = key(parent) if parent else b""
    return BlockRef(
        NAMESPACE_ID, key(number), parent_key, tier, sequence or number, number, BLOCK_BYTES
    )


def hold(holdings: Holdings, number: int, parent: int = 0, tier: Tier = Tier.DRAM) -> Block:
    """Have the holdings hold a block."""
    wanted = ref(number, parent, tier=tier)
    copy = holdings.reserve(
        tier,
        namespace_id=NAMESPACE_ID,
        key=wanted.key,
        parent_key=wanted.parent_key,
        checksum=wanted.checksum,
        size_bytes=BLOCK_BYTES,
    )
    assert copy is not None
    holdings.shelf_of(copy).settle(copy)
    return holdings.admit(SPEC, copy)


def plan(
    catalog: Catalog, number: int, parent: int = 0, session: str | None = None
) -> WriteTicket | WriteStatus:
    return catalog.plan_write(
        SPEC,
        key=key(number),
        parent_key=key(parent) if parent else b"",
        size_bytes=BLOCK_BYTES,
        checksum=number,
        session_id=None if session is None else SessionId(session),
    )


def ticket(
    catalog: Catalog, number: int, parent: int = 0, session: str | None = None
) -> WriteTicket:
    planned = plan(catalog, number, parent, session)
    assert isinstance(planned, WriteTicket)
    return planned


def write(catalog: Catalog, *numbers: int, session: str | None = None, after: int = 0) -> None:
    """Store a chain of blocks, the first of which hangs on `after`."""
    parent = after
    for number in numbers:
        planned = plan(catalog, number, parent, session)
        if isinstance(planned, WriteTicket):
            assert catalog.commit_write(planned) is WriteStatus.STORED
        else:
            assert planned is WriteStatus.ALREADY_HELD
        parent = number
    if numbers:
        catalog.touch(NAMESPACE_ID, key(parent))


def settle(catalog: Catalog) -> int:
    """Carry out all moves and erasures that are due; return the evicted blocks."""
    evicted = 0
    while True:
        demotions = catalog.plan_demotions()
        evicted += demotions.evicted_blocks
        moves = (*demotions.moves, *catalog.plan_promotions())
        for move in moves:
            assert catalog.commit_move(move)
        if not erase(catalog) and not moves and not demotions:
            return evicted


def erase(catalog: Catalog) -> tuple[BlockRef, ...]:
    """Carry out all erasures that are due, and return them."""
    refs = catalog.plan_erasures()
    catalog.commit_erase(refs)
    return refs


def tiers(catalog: Catalog, *numbers: int) -> str:
    """Where blocks are: a letter each, `d` for DRAM, `s` for SSD, `-` for nowhere."""
    letters = {None: "-", Tier.DRAM: "d", Tier.SSD: "s"}
    found = (catalog._tree.find(NAMESPACE_ID, key(number)) for number in numbers)
    return "".join(letters[None if block is None else block.tier] for block in found)


def used_blocks(catalog: Catalog) -> tuple[int, int]:
    """Stored copies in DRAM and on the SSD, by their bytes."""
    dram, ssd = catalog.usage()
    return dram.used_bytes // STORED_BYTES, ssd.used_bytes // STORED_BYTES


def reserved_blocks(catalog: Catalog) -> tuple[int, int]:
    """Copies under way to DRAM and to the SSD, by their bytes."""
    dram, ssd = catalog.usage()
    return dram.reserved_bytes // STORED_BYTES, ssd.reserved_bytes // STORED_BYTES
