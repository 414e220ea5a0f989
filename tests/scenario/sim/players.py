"""
The clients: agents that play sessions which grow, through the real client, and check what comes.

Sessions share system prompts, branch off from each other, and ask for titles and sub-agents under
their own ids. Each has its deadlines, and no trouble of the cache may make it miss one (I5).
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import TypeVar

from hearthkv.client.kv import HearthKV
from hearthkv.client.outcome import Loaded, MissReason
from hearthkv.client.settings import ClientSettings
from hearthkv.client.turn import Turn
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.turn_end import TurnEnd
from tests.scenario.sim.machines import Process
from tests.scenario.sim.oracle import SPECS, Lineages, payload_of
from tests.scenario.sim.trace import Trace

Answer = TypeVar("Answer")

SETTINGS = ClientSettings(
    route_s=0.25,
    match_s=0.25,
    read_s=2,
    stall_s=0.5,
    save_s=2,
    finish_s=2,
    call_s=1,
    cooldown_s=0.3,
    cooldown_s_max=2,
    watch_s=10,
    watch_retry_s=0.5,
    direct_path=False,
)
SLACK_S = 0.01
"""What the client may take beyond its deadlines: it takes no time by itself."""

NORMAL_MISSES = {
    None,
    MissReason.NOT_HELD,
    MissReason.BYPASS,
    MissReason.LOST,  # its bytes were damaged while there was trouble
    MissReason.CORRUPT,
    MissReason.TIMEOUT,  # the shortest of deadlines
}
SYSTEM_PROMPTS = [
    [1000 * name + at for at in range(length)] for name, length in enumerate((26, 41, 18))
]
PROMPT_TOKENS_MAX = 220


@dataclass
class Session:
    """What one session has said and heard so far."""

    session_id: str
    spec: NamespaceSpec
    tokens: list[int]
    miss: MissReason | None = None
    """Why its last load brought no more."""

    loaded_blocks: int = 0


@dataclass
class Tally:
    """What became of the turns of all players."""

    turns: int = 0
    prompt_blocks: int = 0
    loaded_blocks: int = 0
    saved_blocks: int = 0
    misses: Counter[MissReason] = field(default_factory=Counter)


class Player:
    """
    One program that uses the cache.

    Args:
        process: What it runs in.
        kv: Its client.
        routers: How many routers that has.
        tally: Where it counts what came of it.
    """

    def __init__(
        self,
        process: Process,
        kv: HearthKV,
        routers: int,
        *,
        lineages: Lineages,
        trace: Trace,
        chance: random.Random,
        tally: Tally,
    ) -> None:
        self.process = process
        self.name = process.machine.name
        self.sessions: list[Session] = []
        self.kv = kv
        self._seat_s = routers * SETTINGS.route_s + SETTINGS.match_s + SLACK_S
        self._lineages = lineages
        self._trace = trace
        self._chance = chance
        self._tally = tally

    def new_session(self, number: int) -> Session:
        """A session that begins with a system prompt, or where another one is."""
        chance = self._chance
        spec = SPECS[0] if chance.random() < 0.8 else SPECS[1]
        tokens = list(chance.choice(SYSTEM_PROMPTS))
        others = [each for each in self.sessions if each.spec is spec]
        if others and chance.random() < 0.3:
            tokens = list(chance.choice(others).tokens)
        session = Session(f"{self.name}-{number}", spec, tokens)
        self.sessions.append(session)
        return session

    async def play(self, session: Session, until_s: float) -> None:
        """Play turn after turn until the hour."""
        chance = self._chance
        while asyncio.get_running_loop().time() < until_s:
            await asyncio.sleep(chance.expovariate(1 / 0.8))
            if len(session.tokens) > PROMPT_TOKENS_MAX:
                session.tokens = list(chance.choice(SYSTEM_PROMPTS))
            kind = chance.random()
            if kind < 0.08:
                await self.turn(session, [9000, *session.tokens[:9]], 3)  # a title
            elif kind < 0.16:
                await self.turn(session, [*SYSTEM_PROMPTS[2], *self._words(12)], 8)  # a sub-agent
            else:
                session.tokens += self._words(chance.randrange(2, 24))
                session.tokens = await self.turn(session, session.tokens, chance.randrange(1, 30))

    async def play_well(self, session: Session) -> None:
        """Play a turn in a cluster that is well: it finds its node, and what that holds."""
        await self.turn(session, session.tokens, 4)
        self._trace.check(
            session.miss in NORMAL_MISSES,
            "I5",
            f"{session.session_id} misses by {session.miss} though all is well",
        )

    async def play_on(self, session: Session) -> None:
        """Play a turn that wants all there is of the session's last one, with time enough."""
        await self.turn(session, session.tokens, 4, hint="reuse", deadline_s=2.0)

    async def turn(
        self,
        session: Session,
        prompt: list[int],
        answer: int,
        *,
        hint: str | None = None,
        deadline_s: float | None = None,
    ) -> list[int]:
        """Play one turn; return its tokens, with those of the answer."""
        chance = self._chance
        hint = hint or chance.choices(("reuse", "none", "bypass"), (0.85, 0.12, 0.03))[0]
        turn = await self._in_time(
            self._seat_s,
            self.kv.begin_turn(session.session_id, session.spec, prompt, cache_hint=hint),
            "begin_turn",
        )
        deadline_s = deadline_s or chance.choice((0.05, 0.5, 2.0))
        loaded = await self._load(session, turn, deadline_s)
        await asyncio.sleep(0.02 + 0.002 * (len(turn.keys) - loaded))
        tokens = [*prompt, *self._words(answer)]
        turn.extend(tokens[len(prompt) :])
        keys = list(turn.keys)
        self._lineages.learn(session.session_id, session.spec, keys)
        turn.save(loaded, [payload_of(session.spec, key) for key in keys[loaded:]])
        if chance.random() < 0.05:
            return tokens  # nobody waits for its saves
        end = chance.choice(list(TurnEnd))
        finished = await self._in_time(
            SETTINGS.finish_s + SETTINGS.match_s + SLACK_S,
            turn.finish(end=end, returns_in_s=1.0 if end is TurnEnd.TOOL_CALL else None),
            "finish",
        )
        self._tally.saved_blocks += finished.saved_blocks
        return tokens

    async def _load(self, session: Session, turn: Turn, deadline_s: float) -> int:
        """Load what there is; every byte that counts must be right (I1)."""
        blocks = len(turn.keys)
        size = session.spec.block_bytes
        buffer = bytearray(blocks * size)
        loaded = await self._in_time(
            deadline_s + SLACK_S, turn.load_into(buffer, deadline_s=deadline_s), "load_into"
        )
        for at, key in enumerate(list(turn.keys)[: loaded.blocks]):
            self._trace.check(
                buffer[at * size : (at + 1) * size] == payload_of(session.spec, key),
                "I1",
                f"{session.session_id} got wrong bytes for block {at}, {key.hex()}",
            )
        self._count(session, blocks, loaded)
        self._trace.note(f"{session.session_id} loads {loaded.blocks}/{blocks} of {turn.node_id}")
        return loaded.blocks

    def _count(self, session: Session, blocks: int, loaded: Loaded) -> None:
        session.miss, session.loaded_blocks = loaded.miss, loaded.blocks
        self._tally.turns += 1
        self._tally.prompt_blocks += blocks
        self._tally.loaded_blocks += loaded.blocks
        if loaded.miss is not None:
            self._tally.misses[loaded.miss] += 1

    async def _in_time(self, limit_s: float, doing: Awaitable[Answer], what: str) -> Answer:
        """Await a call to the client, which neither raises nor takes longer than it may (I5)."""
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        try:
            answer = await doing
        except Exception as error:
            raise self._trace.fail("I5", f"{what} of {self.name} raised {error!r}") from error
        took_s = loop.time() - started_s
        self._trace.check(
            took_s <= limit_s, "I5", f"{what} of {self.name} took {took_s:.3f} s of {limit_s:.3f} s"
        )
        return answer

    def _words(self, count: int) -> list[int]:
        return [self._chance.randrange(10_000, 60_000) for _ in range(count)]
