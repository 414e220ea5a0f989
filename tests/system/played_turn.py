"""Turns of a session whose engine is the test: what a block holds follows from its key."""

from dataclasses import dataclass

from hearthkv.client.blocking import BlockingHearthKV
from hearthkv.client.outcome import Finished, Loaded, MissReason
from hearthkv.client.settings import ClientSettings
from hearthkv.core.errors import PeerError
from hearthkv.core.namespace import ModelNamespace
from hearthkv.core.routing import CacheHint, NodeState, PlacementReason

NAMESPACE = ModelNamespace(
    model="test/small", revision="1", dtype="float32", layers=2, kv_heads=2, head_dim=32
)
BLOCK_BYTES = NAMESPACE.block_bytes

PATIENT = ClientSettings(
    route_s=5.0, match_s=5.0, stall_s=10.0, save_s=30.0, finish_s=30.0, cooldown_s_max=1.0
)
"""For a machine that is busy with containers. Who fails is asked again soon."""


@dataclass(frozen=True)
class Played:
    """What a turn came to."""

    node_id: str | None
    address: str | None
    reason: PlacementReason | None
    matched_blocks: int
    miss: MissReason | None
    loaded: Loaded
    finished: Finished


def prompt(name: int, blocks: int) -> list[int]:
    """Tokens of so many blocks; prompts of two names share none, a longer one extends a shorter."""
    return [name, *range(1, blocks * NAMESPACE.block_size)]


def play_turn(
    kv: BlockingHearthKV, session_id: str, tokens: list[int], *, node: str | None = None
) -> Played:
    """Load what is there, see that it is right byte for byte, and save the rest."""
    turn = kv.begin_turn(session_id, NAMESPACE, tokens, cache_hint=CacheHint.REUSE, node=node)
    payloads = [payload_of(key) for key in turn.keys]
    buffer = bytearray(len(payloads) * BLOCK_BYTES)
    loaded = turn.load_into(buffer)
    loaded_bytes = loaded.blocks * BLOCK_BYTES
    assert buffer[:loaded_bytes] == b"".join(payloads[: loaded.blocks])
    turn.save(loaded.blocks, payloads[loaded.blocks :])
    return Played(
        node_id=turn.node_id,
        address=turn.node_address,
        reason=turn.reason,
        matched_blocks=turn.matched.total,
        miss=turn.miss_reason,
        loaded=loaded,
        finished=turn.finish(),
    )


def payload_of(key: bytes, size_bytes: int = BLOCK_BYTES) -> bytes:
    """The bytes of the block under a key, unlike those of any other."""
    return (key * (size_bytes // len(key) + 1))[:size_bytes]


def nodes_in_state(kv: BlockingHearthKV, state: NodeState) -> set[str]:
    """Nodes that the router has in this state; none while it does not answer."""
    try:
        return {
            str(status.endpoint.node_id)
            for status in kv.list_nodes()
            if status.endpoint.state is state
        }
    except PeerError:
        return set()
