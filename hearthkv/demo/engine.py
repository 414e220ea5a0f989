"""
The reference engine: from the tokens of a prompt to the tokens of its answer.

It does what a real engine does around HearthKV: take what its own pool holds, load the rest of
the prefix from the cache node, compute what is left, and save the new blocks afterwards.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hearthkv.core.clock import Clock
from hearthkv.core.errors import BadRequestError, EngineBusyError
from hearthkv.core.routing import CacheHint
from hearthkv.core.session_id import SessionId
from hearthkv.demo.engine_events import HitRatio, RequestEnded, TurnServed
from hearthkv.demo.kv_cache import KVCache
from hearthkv.demo.model import Model
from hearthkv.demo.prefix import CachedPrefix, PrefixSource
from hearthkv.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class Token:
    """The next token of the answer."""

    token: int


@dataclass(frozen=True, slots=True)
class Timings:
    """Where the time to the first token went, in seconds; they sum to `ttft_s`."""

    wait_s: float
    """For the requests before this one."""

    match_s: float
    """Hashing, and asking the node (or the router) how much it holds."""

    load_s: float
    """Reading blocks from the node, and laying them into the cache."""

    compute_s: float
    """Computing the rest of the prompt."""

    @property
    def ttft_s(self) -> float:
        """Time from the request's arrival to its first token."""
        return self.wait_s + self.match_s + self.load_s + self.compute_s


@dataclass(frozen=True, slots=True)
class Finished:
    """The answer is over. Nothing follows."""

    finish_reason: str
    """`stop` or `length`."""

    completion_tokens: int
    prefix: CachedPrefix
    timings: Timings


class Engine:
    """
    Runs one request at a time; the others wait, up to `requests_max` of them in all.

    Decoding is greedy, so the same prompt has the same answer with and without the cache. What
    the cache may change are the last bits of logits behind an answer's own tokens: their KV
    comes from `Decoder.step` where it is cached and from `Decoder.forward` where it is not.
    """

    def __init__(
        self,
        model: Model,
        source: PrefixSource,
        *,
        clock: Clock,
        telemetry: Telemetry,
        requests_max: int,
    ) -> None:
        self.model = model
        self._source = source
        self._clock = clock
        self._telemetry = telemetry
        self._requests_max = requests_max
        self._requests = 0
        self._running = asyncio.Lock()
        self._hit_ratio = HitRatio()
        self._show_hit_ratio()

    async def generate(
        self,
        prompt: Sequence[int],
        *,
        session_id: SessionId,
        hint: CacheHint,
        tokens_max: int,
    ) -> AsyncGenerator[Token | Finished, None]:
        """
        Yield the tokens of the answer as they come, then a `Finished`.

        Closing the iterator stops the computation at its next step.

        Raises:
            BadRequestError: If the prompt does not fit the model's context.
            EngineBusyError: If too many requests wait already.
        """
        context = self.model.decoder.shape.context_tokens
        if not 1 <= len(prompt) < context:
            raise BadRequestError(
                f"prompt is {len(prompt)} tokens, must be 1 to {context - 1} for this model"
            )
        if self._requests >= self._requests_max:
            self._telemetry.emit(RequestEnded("refused"))
            raise EngineBusyError(
                f"{self._requests} requests run or wait, at most {self._requests_max} may"
            )
        self._requests += 1
        outcome, count = "", 0
        arrived_s = self._clock.now()
        try:
            async with self._running:
                steps = self._run(prompt, session_id, hint, tokens_max, arrived_s)
                async with contextlib.aclosing(steps):
                    async for step in steps:
                        if isinstance(step, Finished):
                            outcome = step.finish_reason
                        else:
                            count += 1
                        yield step
        except (asyncio.CancelledError, GeneratorExit):
            outcome = outcome or "cancelled"
            raise
        finally:
            self._requests -= 1
            self._telemetry.emit(RequestEnded(outcome or "failed", count))

    async def close(self) -> None:
        """Wait for the request that runs. Whoever asked for it has cancelled it before."""
        async with self._running:
            return

    async def _run(
        self,
        prompt: Sequence[int],
        session_id: SessionId,
        hint: CacheHint,
        tokens_max: int,
        arrived_s: float,
    ) -> AsyncGenerator[Token | Finished, None]:
        started_s = self._clock.now()
        tokens_max = min(tokens_max, self.model.decoder.shape.context_tokens - len(prompt))
        cache = self.model.decoder.new_cache(len(prompt) + tokens_max)
        prefix = await self._source.load(session_id, prompt, hint, cache)
        loaded_s = self._clock.now()
        answer: list[int] = []
        stop = threading.Event()
        try:
            rest = prompt[cache.length :]
            token = await self._prefill(rest, cache, stop)
            timings = Timings(
                wait_s=started_s - arrived_s,
                match_s=prefix.match_s,
                load_s=loaded_s - started_s - prefix.match_s,
                compute_s=self._clock.now() - loaded_s,
            )
            if prefix.turn is not None:
                # So that the client knows when loading would take longer than this.
                prefix.turn.note_prefill(len(rest), timings.compute_s)
            self._count(session_id, len(prompt), prefix, timings)
            while token != self.model.tokenizer.end_id and len(answer) < tokens_max:
                answer.append(token)
                yield Token(token)
                if len(answer) < tokens_max:
                    token = await self._step(token, cache, stop)
            reason = "stop" if len(answer) < tokens_max else "length"
            yield Finished(reason, len(answer), prefix, timings)
        finally:
            stop.set()
            # What was computed is worth keeping, even where nobody waits for the answer.
            await self._source.keep(prefix, [*prompt, *answer][: cache.length], cache)

    async def _prefill(self, rest: Sequence[int], cache: KVCache, stop: threading.Event) -> int:
        """Append the rest of the prompt to the cache and return the most likely next token."""

        def run() -> int:
            logits = self.model.decoder.forward(rest, cache, stop.is_set)
            return self.model.tokenizer.end_id if logits is None else int(np.argmax(logits))

        return await _in_thread(run, stop)

    async def _step(self, token: int, cache: KVCache, stop: threading.Event) -> int:
        """Append one token of the answer and return the most likely next one."""
        return await _in_thread(lambda: int(np.argmax(self.model.decoder.step(token, cache))), stop)

    def _count(
        self, session_id: SessionId, prompt_tokens: int, prefix: CachedPrefix, timings: Timings
    ) -> None:
        self._hit_ratio.add(prompt_tokens, prefix.tokens)
        total_ratio = self._show_hit_ratio()
        self._telemetry.emit(
            TurnServed(
                session=session_id,
                prompt_tokens=prompt_tokens,
                cached_hbm=prefix.tokens.hbm,
                cached_dram=prefix.tokens.dram,
                cached_ssd=prefix.tokens.ssd,
                ttft_s=timings.ttft_s,
                cache_hit_ratio=prefix.tokens.total / prompt_tokens,
                total_cache_hit_ratio=total_ratio,
                miss=prefix.miss,
            )
        )

    def _show_hit_ratio(self) -> float:
        """Set the gauges, and return the ratio in total."""
        ratios = self._hit_ratio.by_tier()
        for tier, ratio in ratios.items():
            self._telemetry.meters.set("engine_cache_hit_ratio", ratio, tier=tier)
        return ratios["total"]


async def _in_thread(run: Callable[[], int], stop: threading.Event) -> int:
    """Run a computation in a thread; where the caller is cancelled, stop it and wait for it."""
    work = asyncio.get_running_loop().run_in_executor(None, run)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        stop.set()
        # The thread still writes to the cache: it must be done before anyone reads it,
        # however often the caller is cancelled meanwhile.
        while not work.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([work])
        raise
