"""Sessions whose prompts grow from turn to turn, and whose engine is the test. Not pure."""

import time
from array import array
from collections.abc import Iterator
from itertools import count

from hearthkv.client.kv import HearthKV
from hearthkv.client.outcome import Loaded
from hearthkv.client.settings import ClientSettings
from hearthkv.core import rendezvous
from hearthkv.core.namespace import ModelNamespace
from hearthkv.core.routing import CacheHint
from hearthkv.core.session_id import NodeId, SessionId
from hearthkv.core.turn_end import TurnEnd
from tests.system.load_records import TurnRecord
from tests.system.played_turn import payload_of

NODES = tuple(NodeId(f"node-{number}") for number in range(1, 5))
ROUTERS = ("router-1", "router-2")

RECONNECT_OPTIONS = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)
"""Of channels to servers that come and go."""

NAMESPACE = ModelNamespace(
    model="test/tiny", revision="1", dtype="float16", layers=1, kv_heads=1, head_dim=32
)

HEAD_BLOCKS = 16
"""Blocks that all prompts begin with, as those of one agent do."""

BLOCKS_MIN = 48
BLOCKS_PER_TURN = 4
BLOCKS_MAX = 320

SETTINGS = ClientSettings(route_s=1.0, match_s=1.0, stall_s=2.0)
"""For a machine that is busy with containers; all else as users have it."""

SAVE_S = 3.0

BEGIN_S = len(ROUTERS) * SETTINGS.route_s + SETTINGS.match_s
LOAD_S = 3.0
FINISH_S = SAVE_S + SETTINGS.match_s
"""The deadlines of a turn's three calls; the last one tells the node how the turn ended."""


class GrowingSession:
    """One session: what it has said, and how much of that was saved."""

    def __init__(self, line: str, number: int, seed: int) -> None:
        self.session_id = f"{line}/{number}"
        self._line = line
        self.blocks = BLOCKS_MIN
        self.had = 0
        self._seed = seed

    @property
    def is_over(self) -> bool:
        return self.blocks > BLOCKS_MAX

    def tokens(self, blocks: int) -> "array[int]":
        """The first blocks of the session's prompt; a token of its own stands behind the head."""
        own = (blocks - HEAD_BLOCKS) * NAMESPACE.block_size
        return head() + array("I", [self._seed, *range(own - 1)])

    async def play(self, kv: HearthKV) -> TurnRecord:
        """Load what is there, see that it is right byte for byte, and save the rest."""
        began_s, start_s = time.time(), time.monotonic()
        turn = await kv.begin_turn(
            self.session_id, NAMESPACE, self.tokens(self.blocks), cache_hint=CacheHint.REUSE
        )
        begun_s = time.monotonic()
        buffer = bytearray(self.blocks * NAMESPACE.block_bytes)
        loaded = await turn.load_into(buffer, deadline_s=LOAD_S)
        loaded_s = time.monotonic()
        payloads = [payload_of(key, NAMESPACE.block_bytes) for key in turn.keys]
        turn.save(loaded.blocks, payloads[loaded.blocks :])
        saved_s = time.monotonic()
        end = TurnEnd.FINAL if self.blocks + BLOCKS_PER_TURN > BLOCKS_MAX else TurnEnd.TOOL_CALL
        finished = await turn.finish(deadline_s=SAVE_S, end=end)
        record = TurnRecord(
            line=self._line,
            session=self.session_id,
            began_s=began_s,
            node=turn.node_id,
            reason=turn.reason.value if turn.reason else None,
            blocks=self.blocks,
            had=self.had,
            matched=turn.matched.total,
            loaded=loaded.blocks,
            wrong=wrong_blocks(buffer, loaded, payloads),
            saved=finished.saved_blocks,
            miss=loaded.miss.value if loaded.miss else None,
            refusal=finished.miss.value if finished.miss else None,
            begin_s=begun_s - start_s,
            load_s=loaded_s - begun_s,
            finish_s=time.monotonic() - saved_s,
        )
        self.had = loaded.blocks + finished.saved_blocks
        self.blocks += BLOCKS_PER_TURN
        return record


def head() -> "array[int]":
    """The tokens that all prompts begin with."""
    return array("I", range(1, HEAD_BLOCKS * NAMESPACE.block_size + 1))


def sessions_at_home(home: NodeId, place: int) -> Iterator[GrowingSession]:
    """Give sessions without end whose home is one node, while all are live."""
    weights = [(node_id, 1.0) for node_id in NODES]
    for number in count():
        seed = (NODES.index(home) * 1000 + place) * 100_000 + number + 1_000_000
        session = GrowingSession(f"{home}/{place}", number, seed)
        if rendezvous.owner(SessionId(session.session_id), weights) == home:
            yield session


def wrong_blocks(buffer: bytearray, loaded: Loaded, payloads: list[bytes]) -> int:
    """Count the loaded blocks that are not, byte for byte, what was saved."""
    size = NAMESPACE.block_bytes
    return sum(
        buffer[place * size : (place + 1) * size] != payloads[place]
        for place in range(loaded.blocks)
    )
