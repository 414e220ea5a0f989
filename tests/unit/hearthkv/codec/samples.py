"""Values of the core types as a correct peer sends them, for round trips through the codec."""

from itertools import accumulate

from hypothesis import strategies as st

from hearthkv.core.block_io import (
    BlockChunk,
    BlockHeader,
    DropBlocks,
    DropNamespace,
    DropSession,
    KeysQuery,
    Matched,
    MatchQuery,
    NamespaceUsage,
    NodeDescription,
    Pinned,
    PinQuery,
    ReadQuery,
    WriteStart,
)
from hearthkv.core.block_key import PackedKeys, SampledKeys
from hearthkv.core.namespace import BLOCK_BYTES_MAX, NamespaceSpec
from hearthkv.core.pulls import Lineage, LineageQuery, PullEnd, PullProgress, PullQuery
from hearthkv.core.routing import (
    BlockEvent,
    CacheHint,
    DrainOrder,
    EventBatch,
    EventsAck,
    NodeEndpoint,
    NodeHello,
    NodeLoad,
    NodeMatch,
    NodeState,
    NodeStatus,
    PlacementReason,
    PrefetchOrder,
    PullOrder,
    PullSource,
    ResyncOrder,
    Route,
    RouteQuery,
    SessionMoved,
    SessionStatus,
    SnapshotPart,
    Welcome,
)
from hearthkv.core.tier import Tier, TierCounts, TierUsage
from hearthkv.core.turn_end import RETURNS_IN_S_MAX, EndedTurn, TurnEnd

UINT32 = st.integers(0, 2**32 - 1)
UINT64 = st.integers(0, 2**64 - 1)
SECONDS = st.integers(0, 10**15).map(lambda nanoseconds: nanoseconds / 1e9)
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp", "Zs"]), max_size=8)

NAMESPACE_ID = st.binary(min_size=16, max_size=32)
SESSION_ID = TEXT.filter(bool)
NODE_ID = st.from_regex(r"[A-Za-z0-9._-]{1,8}", fullmatch=True)
TIER = st.sampled_from(Tier)
CHUNK_DATA = st.binary(max_size=20)


@st.composite
def packed_keys(draw, count_min=0):
    width, count = draw(st.integers(1, 32)), draw(st.integers(count_min, 4))
    return PackedKeys(draw(st.binary(min_size=width * count, max_size=width * count)), width)


@st.composite
def block_headers(draw):
    width = draw(st.integers(1, 32))
    key = st.binary(min_size=width, max_size=width)
    return BlockHeader(
        draw(key),
        draw(st.just(b"") | key),
        draw(st.integers(0, BLOCK_BYTES_MAX)),
        draw(UINT64),
        draw(st.none() | TIER),
    )


@st.composite
def sampled_keys(draw):
    keys = draw(packed_keys())
    if draw(st.booleans()):
        return SampledKeys.all_of(keys)
    gaps = draw(st.lists(st.integers(1, 999), min_size=len(keys), max_size=len(keys)))
    positions = tuple(accumulate(gaps))
    return SampledKeys(keys, positions) if positions else SampledKeys.all_of(keys)


KEYS = packed_keys()
TIP_KEY = st.binary(min_size=1, max_size=32)
COUNTS = st.builds(TierCounts, UINT32, UINT32, UINT32)
USAGE = st.builds(TierUsage, TIER, UINT64, UINT64, UINT64, UINT64, TEXT)
USAGES = st.lists(USAGE, max_size=3).map(tuple)
SPEC = st.builds(
    NamespaceSpec, NAMESPACE_ID, st.integers(1, 65_536), st.integers(1, BLOCK_BYTES_MAX)
)
CHUNK = st.builds(BlockChunk, st.none() | block_headers(), CHUNK_DATA)
CHUNKS = st.lists(CHUNK, min_size=1, max_size=4).map(tuple)

KEYS_QUERY = st.builds(KeysQuery, NAMESPACE_ID, KEYS)
MATCH_QUERY = st.builds(MatchQuery, NAMESPACE_ID, KEYS, st.none() | SESSION_ID)
MATCHED = st.builds(
    lambda counts, more: Matched(counts, min(counts.total + more, 2**32 - 1)),
    COUNTS.filter(lambda counts: counts.total < 2**32),
    UINT32,
)
READ_QUERY = st.builds(ReadQuery, NAMESPACE_ID, KEYS, UINT32, st.none() | SESSION_ID, st.booleans())
WRITE_START = st.builds(WriteStart, SPEC, st.none() | SESSION_ID)
PIN_QUERY = st.builds(PinQuery, NAMESPACE_ID, KEYS, SECONDS.filter(lambda s: 0 < s <= 3600))
PINNED = st.builds(Pinned, TEXT, UINT32)
ENDED_TURN = st.builds(
    EndedTurn,
    SESSION_ID,
    st.sampled_from(TurnEnd),
    st.none() | SECONDS.filter(lambda seconds: seconds <= RETURNS_IN_S_MAX),
)
DROP_TARGET = (
    st.builds(DropBlocks, NAMESPACE_ID, KEYS)
    | st.builds(DropSession, SESSION_ID)
    | st.builds(DropNamespace, NAMESPACE_ID)
)
DESCRIPTION = st.builds(
    NodeDescription,
    node_id=NODE_ID,
    epoch=UINT64,
    tiers=USAGES,
    namespaces=st.lists(st.builds(NamespaceUsage, SPEC, UINT64), max_size=2).map(tuple),
    pins=UINT32,
    version=TEXT,
    is_draining=st.booleans(),
)

WEIGHT = st.floats(0, exclude_min=True, allow_infinity=False)
ENDPOINT = st.builds(
    NodeEndpoint, NODE_ID, TEXT.filter(bool), TEXT, UINT64, WEIGHT, st.sampled_from(NodeState)
)
LIVE_ENDPOINT = st.builds(NodeEndpoint, NODE_ID, TEXT.filter(bool), TEXT, UINT64, WEIGHT)
ROUTE_QUERY = st.builds(
    RouteQuery,
    SESSION_ID,
    NAMESPACE_ID,
    sampled_keys(),
    st.sampled_from(CacheHint),
    UINT64,
    st.integers(1, 65_536),
    UINT32,
)
ROUTE = st.builds(
    Route,
    ENDPOINT,
    COUNTS,
    NODE_ID,
    st.sampled_from(PlacementReason),
    st.lists(st.builds(PullSource, ENDPOINT, UINT32), max_size=2).map(tuple),
)
NODE_MATCH = st.builds(NodeMatch, NODE_ID, COUNTS)
NODE_STATUS = st.builds(
    NodeStatus,
    ENDPOINT,
    st.builds(NodeLoad, st.just(0), USAGES, UINT32),
    UINT64,
    UINT32,
    SECONDS,
    UINT64,
)
SESSION_STATUS = st.builds(SessionStatus, SESSION_ID, NODE_ID, UINT64, UINT64, UINT32, SECONDS)


@st.composite
def pull_queries(draw):
    keys, spec = draw(packed_keys()), draw(st.none() | SPEC)
    return PullQuery(
        namespace_id=draw(NAMESPACE_ID) if spec is None else spec.namespace_id,
        keys=keys or PackedKeys(b""),
        tip_key=keys[len(keys) - 1] if keys else draw(TIP_KEY),
        source_address=draw(st.sampled_from(["", "10.0.0.1:7500", "[::1]:1", "node-b:65535"])),
        session_id=draw(st.none() | SESSION_ID),
        spec=spec,
    )


PULL_PROGRESS = st.builds(PullProgress, UINT32, UINT32, st.none() | st.sampled_from(PullEnd))
LINEAGE_QUERY = st.builds(LineageQuery, NAMESPACE_ID, TIP_KEY)
LINEAGE = st.builds(Lineage, SPEC, packed_keys(count_min=1)) | st.just(
    Lineage(None, PackedKeys(b""))
)
DRAIN_ORDER = st.builds(DrainOrder, st.booleans())

NODE_MESSAGE = (
    st.builds(NodeHello, LIVE_ENDPOINT, TEXT)
    | st.builds(
        SnapshotPart, NAMESPACE_ID, TIER, packed_keys(count_min=1), st.booleans(), st.booleans()
    )
    | st.builds(
        SnapshotPart,
        st.just(b""),
        st.none(),
        st.just(PackedKeys(b"")),
        st.booleans(),
        st.booleans(),
    )
    | st.builds(
        EventBatch,
        UINT64,
        st.lists(st.builds(BlockEvent, NAMESPACE_ID, KEYS, st.none() | TIER), max_size=3).map(
            tuple
        ),
    )
    | st.builds(NodeLoad, UINT64, USAGES, UINT32, UINT64, st.booleans())
    | st.builds(SessionMoved, SESSION_ID, NODE_ID)
)
ROUTER_MESSAGE = (
    st.builds(Welcome, SECONDS.filter(bool))
    | st.builds(EventsAck, UINT64)
    | st.builds(ResyncOrder, UINT64, UINT64)
    | st.builds(PrefetchOrder, NAMESPACE_ID, TIP_KEY)
    | st.builds(PullOrder, NAMESPACE_ID, TIP_KEY, UINT32, TEXT.filter(bool), st.none() | SESSION_ID)
    | st.builds(DrainOrder, st.booleans())
)
