"""A router that was started anew knows what the nodes hold when their inventories are in."""

from hearthkv.codec.membership import (
    SNAPSHOT_KEYS_MAX,
    decode_node_message,
    encode_node_message,
)
from hearthkv.core.block_key import PackedKeys, SampledKeys
from hearthkv.core.routing import SnapshotPart
from hearthkv.core.session_id import NodeId
from hearthkv.core.tier import Tier
from hearthkv.v1 import membership_pb2
from router.cluster import Cluster
from router.outcome import StreamId
from router.pieces import pieces_of
from router.settings import RouterSettings
from tests.scenario.node_reports import NS, hello

BLOCKS = 3 * SNAPSHOT_KEYS_MAX // 2
KEYS = PackedKeys(b"".join(index.to_bytes(16) for index in range(BLOCKS)))
BYTES_PER_BLOCK = 16.01
"""What a block costs on the wire: its key, and next to nothing."""


def parts() -> list[SnapshotPart]:
    """A node's inventory as it sends it: the first part whole, and half of another."""
    middle = SNAPSHOT_KEYS_MAX
    return [
        SnapshotPart(NS, Tier.DRAM, KEYS.slice(0, middle), is_first=True, is_last=False),
        SnapshotPart(NS, Tier.SSD, KEYS.slice(middle, BLOCKS), is_first=False, is_last=True),
    ]


def test_the_index_is_rebuilt_from_the_snapshots_at_sixteen_bytes_a_block():
    router, sent_bytes = Cluster(RouterSettings()), 0
    for stream, node in enumerate("ab"):
        router.hear(StreamId(stream), hello(node), 0.0)
        for part in parts():
            sent = encode_node_message(part).SerializeToString()
            sent_bytes += len(sent)
            message = decode_node_message(membership_pb2.JoinRequest.FromString(sent))
            for piece in pieces_of(message):
                router.hear(StreamId(stream), piece, 0.0)
    assert router.index.keys == 2 * BLOCKS
    assert router.index.look_up(NS, SampledKeys.all_of(KEYS)).prefixes() == {
        NodeId("a"): BLOCKS,
        NodeId("b"): BLOCKS,
    }
    assert sent_bytes / (2 * BLOCKS) < BYTES_PER_BLOCK
    assert router.feeds.lag_s(0.0) == 0.0
