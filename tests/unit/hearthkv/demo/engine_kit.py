"""A reference engine around a tiny random model that speaks, and what its tests need of it."""

import asyncio
import logging
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np

from hearthkv.client.kv import HearthKV
from hearthkv.client.settings import ClientSettings
from hearthkv.core.clock import Clock, ManualClock
from hearthkv.core.routing import CacheHint
from hearthkv.core.session_id import SessionId
from hearthkv.demo.decoder import Decoder
from hearthkv.demo.engine import Engine, Finished, Token
from hearthkv.demo.engine_events import METRICS
from hearthkv.demo.hbm_pool import HbmPool
from hearthkv.demo.kv_cache import KVCache
from hearthkv.demo.model import Model
from hearthkv.demo.prefix import PrefixSource
from hearthkv.metrics import PrometheusMeters
from hearthkv.telemetry import Telemetry
from tests.gguf_writer import Value, f32, write_gguf
from tests.tiny_model import HIDDEN, METADATA, TinyModel

PATIENT = ClientSettings(
    route_s=30, match_s=30, read_s=30, stall_s=30, save_s=30, finish_s=30, call_s=30
)
"""For tests that are not about time: a busy machine must not make a miss of a hit."""

BLOCK_SIZE, BLOCK_BYTES = 16, 4096
CHUNK_TOKENS = 192
"""Tokens that a decoder with one thread computes between two looks at whether to stop."""

SPECIAL, END = ["<|im_start|>", "<|im_end|>"], 1
TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def write_speaking_model(path: Path) -> Path:
    """Write a tiny model with a tokenizer in which every byte is a token."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = range(0x100, 0x200 - len(printable))
    tokens = [*SPECIAL, *map(chr, printable), *map(chr, others), "he"]
    embedding = np.random.default_rng(8).standard_normal((len(tokens), HIDDEN), np.float32)
    arrays = {**TinyModel.random(seed=7).tensors, "token_embd.weight": embedding}
    metadata: dict[str, Value] = {
        **METADATA,
        "llama.vocab_size": len(tokens),
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] * len(SPECIAL) + [1] * (len(tokens) - len(SPECIAL)),
        "tokenizer.ggml.merges": ["h e"],
        "tokenizer.ggml.eos_token_id": END,
        "tokenizer.chat_template": TEMPLATE,
    }
    return write_gguf(path, metadata, {name: f32(array) for name, array in arrays.items()})


@cache
def speaking_model() -> Model:
    with tempfile.TemporaryDirectory() as folder:
        path = write_speaking_model(Path(folder) / "tiny.gguf")
        return Model.load(path, block_size=BLOCK_SIZE, threads=1)


class HeldDecoder(Decoder):
    """
    Stands still after the first chunk of a prompt, and before a certain step of the answer.

    It goes on once it is told to stop, or `release` is set.
    """

    def __init__(self, model: Model, hold_at_step: int | None = None) -> None:
        super().__init__(model.decoder._weights, threads=1)
        self.is_held = threading.Event()
        self.release = threading.Event()
        self._hold_at_step = hold_at_step
        self._steps = 0

    def forward(self, tokens, cache, should_stop=None):
        start = cache.length

        def ask() -> bool:
            if self._hold_at_step is None and cache.length > start:
                self.is_held.set()
                while not should_stop() and not self.release.wait(0.01):
                    pass
            return should_stop()

        return super().forward(tokens, cache, ask)

    def step(self, token: int, cache: KVCache):
        self._steps += 1
        if self._steps == self._hold_at_step:
            self.is_held.set()
            self.release.wait()
        return super().step(token, cache)


@dataclass
class Answer:
    """All that an engine yields for one prompt."""

    tokens: list[int] = field(default_factory=list)
    finished: Finished | None = None

    @property
    def cached(self):
        return self.finished.prefix.tokens

    @property
    def miss(self) -> str:
        return self.finished.prefix.miss


class EngineKit:
    """An engine with its parts in view."""

    def __init__(
        self,
        kv: HearthKV | None,
        node: str | None = None,
        *,
        model: Model | None = None,
        clock: Clock | None = None,
        pool_blocks: int = 1000,
        batch_blocks: int = 8,
        requests_max: int = 8,
    ) -> None:
        self.model = model or speaking_model()
        self.meters = PrometheusMeters(METRICS)
        self.clock = clock or ManualClock()
        telemetry = Telemetry(logging.getLogger("hearthkv.engine"), self.meters)
        self.pool = HbmPool(pool_blocks * BLOCK_BYTES, BLOCK_BYTES, 1.0)
        self.source = PrefixSource(
            kv,
            node_address=node,
            namespace=self.model.namespace,
            pool=self.pool,
            clock=self.clock,
            telemetry=telemetry,
            batch_bytes=batch_blocks * BLOCK_BYTES,
        )
        self.engine = Engine(
            self.model,
            self.source,
            clock=self.clock,
            telemetry=telemetry,
            requests_max=requests_max,
        )

    def steps(
        self,
        prompt: Sequence[int],
        *,
        session: str = "s",
        hint: CacheHint = CacheHint.REUSE,
        tokens_max: int = 4,
    ):
        return self.engine.generate(
            prompt, session_id=SessionId(session), hint=hint, tokens_max=tokens_max
        )

    async def ask(self, prompt: Sequence[int], **how) -> Answer:
        answer = Answer()
        async for step in self.steps(prompt, **how):
            if isinstance(step, Token):
                answer.tokens.append(step.token)
            else:
                answer.finished = step
        return answer

    async def saved(self) -> None:
        """Wait until what was computed lies on the node."""
        await self.source.close()


def held_model(hold_at_step: int | None = None) -> Model:
    """The model, with a decoder that stands still."""
    return replace(speaking_model(), decoder=HeldDecoder(speaking_model(), hold_at_step))


def prompt_of(length: int, seed: int = 1) -> list[int]:
    """Random bytes as tokens."""
    return np.random.default_rng(seed).integers(2, 258, length).tolist()


async def held(decoder: Decoder) -> None:
    """Wait until a decoder stands still."""
    assert isinstance(decoder, HeldDecoder)
    await asyncio.to_thread(decoder.is_held.wait)
