"""
Dynamo's index by itself, and its selection in process. Not pure.

Runs in an environment that has ai-dynamo-runtime. The index is asked as its router asks it: the
tokens are hashed, and the tree is walked. The selection service does that and more; it learns of
blocks by ZMQ alone, and is asked here while it knows of none.
"""

import asyncio
import json
import random
import sys
import time
from collections.abc import Callable, Sequence

from dynamo.llm import (  # type: ignore[import-not-found]
    RadixTree,
    SelectionService,
    compute_block_hash_for_seq,
)

from bench.datapath import child_side
from bench.datapath.child_side import Message

BLOCK_SIZE = 16
WORKERS = 64
SESSIONS = 64
CALLS = 200
SHARED_TOKENS = 512


class DynamoPeer:
    """An index that has some sessions of each length that it is asked about."""

    def __init__(self) -> None:
        self._tree = RadixTree()
        self._events = 0
        self._loop = asyncio.new_event_loop()
        self._service = self._loop.run_until_complete(_service())

    def answer(self, asked: Message) -> Message:
        """Return the median and 99th percentile of both, in ns."""
        tokens = int(str(asked["prompt_tokens"]))
        prompts = [_prompt(tokens, number) for number in range(SESSIONS)]
        for number, prompt in enumerate(prompts):
            self._store(number % WORKERS, compute_block_hash_for_seq(prompt, BLOCK_SIZE))
        found = self._tree.find_matches(compute_block_hash_for_seq(prompts[0], BLOCK_SIZE))
        assert max(found.scores.values()) == tokens // BLOCK_SIZE
        requests = [{"model_name": "m", "token_ids": prompt} for prompt in prompts[:8]]

        async def select(number: int) -> None:
            await self._service.select(requests[number % len(requests)])

        return {
            "RadixTree hash + find": _timed(
                lambda number: self._tree.find_matches(
                    compute_block_hash_for_seq(prompts[number % SESSIONS], BLOCK_SIZE)
                )
            ),
            "SelectionService": _timed(
                lambda number: self._loop.run_until_complete(select(number))
            ),
        }

    def _store(self, worker: int, hashes: Sequence[int]) -> None:
        self._events += 1
        blocks = [{"block_hash": hashed, "tokens_hash": hashed} for hashed in hashes]
        stored = {"stored": {"parent_hash": None, "blocks": blocks}}
        event = {"event_id": self._events, "data": stored, "dp_rank": 0}
        self._tree.apply_event(worker, json.dumps(event).encode())


async def _service() -> SelectionService:
    service = SelectionService()
    for worker in range(WORKERS):
        await service.upsert_worker(
            {
                "worker_id": worker,
                "model_name": "m",
                "block_size": BLOCK_SIZE,
                "endpoint": "http://127.0.0.1:9",
                "kv_events_endpoint": f"tcp://127.0.0.1:{10_000 + worker}",
                "data_parallel_start_rank": 0,
                "data_parallel_size": 1,
            }
        )
    return service


def _prompt(tokens: int, number: int) -> list[int]:
    chance = random.Random(number)
    return [1] * SHARED_TOKENS + [chance.randrange(100_000) for _ in range(tokens - SHARED_TOKENS)]


def _timed(call: Callable[[int], object]) -> list[int]:
    taken_ns: list[int] = []
    for number in range(CALLS):
        started_ns = time.perf_counter_ns()
        call(number)
        taken_ns.append(time.perf_counter_ns() - started_ns)
    taken_ns.sort()
    return [taken_ns[CALLS // 2], taken_ns[CALLS * 99 // 100]]


if __name__ == "__main__":
    replies = child_side.replies()
    print("starting", file=sys.stderr)
    child_side.serve(replies, DynamoPeer().answer)
