"""What nodes say to routers, made up: honest nodes and liars, without a socket."""

from hypothesis import strategies as st

from hearthkv.core.block_key import PackedKeys, SampledKeys
from hearthkv.core.routing import (
    BlockEvent,
    CacheHint,
    EventBatch,
    NodeEndpoint,
    NodeHello,
    NodeLoad,
    NodeMessage,
    RouteQuery,
    SessionMoved,
    SnapshotPart,
)
from hearthkv.core.session_id import NodeId, SessionId
from hearthkv.core.tier import Tier, TierUsage
from router.cluster import Cluster
from router.outcome import StreamId

NS = b"n" * 16
NO_KEYS = PackedKeys(b"")
PROMPT = PackedKeys(b"".join(index.to_bytes(16) for index in range(64)))


def hello(node_id: str, epoch: int = 1) -> NodeHello:
    return NodeHello(NodeEndpoint(NodeId(node_id), f"{node_id}:7500", epoch=epoch))


def inventory(blocks: int, tier: Tier = Tier.DRAM) -> SnapshotPart:
    """All that a node holds: the first blocks of the prompt."""
    if not blocks:
        return SnapshotPart(b"", None, NO_KEYS, is_first=True, is_last=True)
    return SnapshotPart(NS, tier, PROMPT.slice(0, blocks), is_first=True, is_last=True)


def join(router: Cluster, stream: int, node_id: str, blocks: int) -> None:
    """Let an honest node join."""
    router.hear(StreamId(stream), hello(node_id), 0.0)
    router.hear(StreamId(stream), inventory(blocks), 0.0)


def turn(session_id: str, keys: PackedKeys = PROMPT, hint: CacheHint = CacheHint.REUSE):
    return RouteQuery(SessionId(session_id), NS, SampledKeys.all_of(keys), hint, 16 * len(keys), 16)


def lies(liar: str) -> st.SearchStrategy[NodeMessage]:
    """Whatever a node may say under its own name that the contract lets through."""
    namespaces = st.sampled_from([NS, b"m" * 16, b"x" * 32]) | st.binary(min_size=16, max_size=16)
    keys = st.builds(
        lambda start, count, width: PackedKeys(
            PROMPT.packed[start * 16 : (start + count) * width]
            if width == 16
            else bytes(width * count),
            width,
        ),
        st.integers(0, 64),
        st.integers(0, 40),
        st.sampled_from([1, 16, 32]),
    ).filter(lambda packed: len(packed.packed) % packed.width == 0)
    tiers = st.sampled_from(Tier)
    numbers = st.integers(0, 4) | st.integers(0, 2**63)
    event = st.builds(BlockEvent, namespaces, keys, st.none() | tiers)
    usage = st.builds(TierUsage, tiers, numbers, numbers, numbers, numbers)
    return st.one_of(
        st.builds(SnapshotPart, namespaces, tiers, keys, st.booleans(), st.booleans()),
        st.builds(EventBatch, numbers, st.lists(event, max_size=4).map(tuple)),
        st.builds(
            NodeLoad,
            numbers,
            st.lists(usage, max_size=2).map(tuple),
            numbers,
            numbers,
            st.booleans(),
        ),
        st.builds(
            SessionMoved,
            st.sampled_from([SessionId("s"), SessionId("t")]),
            st.sampled_from([NodeId("honest"), NodeId(liar), NodeId("nobody")]),
        ),
        st.builds(hello, st.just(liar), st.integers(0, 3)),
    )


def prefix_of(router: Cluster, node_id: str) -> int:
    """Leading blocks of the prompt that a router finds at a node."""
    return router.index.look_up(NS, SampledKeys.all_of(PROMPT)).prefixes().get(NodeId(node_id), 0)
