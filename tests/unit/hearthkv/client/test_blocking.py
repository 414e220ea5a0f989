"""Tests of hearthkv/client/blocking.py."""

import asyncio
import contextlib
import inspect
import os
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager

import pytest

from hearthkv.client.blocking import (
    BlockingHearthKV,
    BlockingTurn,
    LoopThread,
    connect_blocking,
)
from hearthkv.client.kv import HearthKV
from hearthkv.client.outcome import Finished, Loaded, MissReason
from hearthkv.client.turn import Turn
from hearthkv.core.block_io import DropNamespace
from hearthkv.core.errors import BadInputError, LayoutMismatchError
from hearthkv.core.routing import PlacementReason
from hearthkv.core.tier import TierCounts
from tests.fakes.node import FakeNode
from tests.fakes.router import FakeRouter, endpoint
from tests.fakes.servers import serving
from tests.unit.hearthkv.client.client_kit import (
    BLOCK_BYTES,
    BLOCKS,
    KEYS,
    PATIENT,
    PAYLOADS,
    SPEC,
    TOKENS,
)


@contextmanager
def cluster(node: FakeNode) -> Iterator[tuple[str, str]]:
    """A router and a node in a thread of their own; gives both addresses."""
    thread, stack = LoopThread(), AsyncExitStack()

    async def start() -> tuple[str, str]:
        at = await stack.enter_async_context(serving(node))
        router = FakeRouter(endpoint("a", at, engine_url="http://a"))
        return await stack.enter_async_context(serving(router)), at

    try:
        yield thread.run(start())
    finally:
        thread.run(stack.aclose())
        thread.close()


@pytest.mark.parametrize(
    ("blocking", "asynchronous"), [(BlockingHearthKV, HearthKV), (BlockingTurn, Turn)]
)
def test_the_names_and_the_arguments_are_the_same(blocking: type, asynchronous: type):
    def surface(of: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(member).parameters) if callable(member) else []
            for name, member in inspect.getmembers(of)
            if not name.startswith("_")
        }

    missing = {"stats": []} if asynchronous is HearthKV else {}
    assert surface(blocking) == surface(asynchronous) | missing


def test_progress_is_told_and_the_engines_speed_is_noted():
    with cluster(FakeNode()) as (router, _), connect_blocking(router, settings=PATIENT) as kv:
        turn = kv.begin_turn("s", SPEC, TOKENS)
        turn.save(0, PAYLOADS)
        turn.finish()
        told: list[int] = []
        turn.load_into(bytearray(BLOCKS * BLOCK_BYTES), blocks=BLOCKS, on_progress=told.append)
        turn.note_prefill(1000, 0.5)
    assert told[-1] == BLOCKS
    assert kv._kv._loader._rates.prefill_rate(SPEC.namespace_id) == 2000


def test_a_turn_is_played_without_an_event_loop():
    with cluster(FakeNode()) as (router, _), connect_blocking(router, settings=PATIENT) as kv:
        turn = kv.begin_turn("s", SPEC, TOKENS)
        assert (turn.session_id, turn.node_id, turn.engine_url) == ("s", "a", "http://a")
        assert (turn.reason, turn.matched) == (PlacementReason.SESSION, TierCounts())
        assert (turn.matched_tokens, turn.miss_reason) == (0, MissReason.NOT_HELD)
        assert (turn.block_size, turn.block_bytes, turn.keys) == (4, BLOCK_BYTES, KEYS)
        assert turn.node_address is not None
        assert turn.save(0, PAYLOADS) == BLOCKS
        assert turn.extend([22, 23]) == 6
        assert turn.finish() == Finished(saved_blocks=BLOCKS)

        buffer = bytearray(BLOCKS * BLOCK_BYTES)
        loaded = kv.begin_turn("s", SPEC, TOKENS).load_into(buffer)
        assert loaded == Loaded(5, 20, TierCounts(dram=5))
        assert buffer == b"".join(PAYLOADS)
        assert kv.stats.requests == 2


def test_the_calls_for_people_are_there_too():
    with cluster(FakeNode()) as (router, node), connect_blocking(router, settings=PATIENT) as kv:
        route = kv.route("s", SPEC, TOKENS)
        assert route is not None
        assert route.node.address == node
        assert [match.node_id for match in kv.lookup(SPEC, TOKENS)] == ["a"]
        assert [status.endpoint.node_id for status in kv.list_nodes()] == ["a"]
        assert [status.session_id for status in kv.list_sessions()] == ["s"]
        assert kv.end_session("s") == "a"
        assert kv.drain_node("a", cancel=True) == 2
        assert kv.describe(node).node_id == "fake"
        assert kv.prefetch(node, SPEC, TOKENS) == 0
        assert kv.pin(node, SPEC, TOKENS, ttl_s=1).blocks == 0
        assert kv.unpin(node, "pin-1") == 5
        assert kv.drop(node, DropNamespace(SPEC.namespace_id)) == 1


def test_the_callers_mistakes_come_through():
    with cluster(FakeNode()) as (router, _), connect_blocking(router, settings=PATIENT) as kv:
        turn = kv.begin_turn("s", SPEC, TOKENS)
        with pytest.raises(LayoutMismatchError):
            turn.load_into(b"read-only")


def test_a_closed_client_says_so_and_leaves_no_thread():
    kv = connect_blocking(settings=PATIENT)
    kv.close()
    kv.close()
    with pytest.raises(BadInputError, match="client is closed"):
        kv.begin_turn("s", SPEC, TOKENS)
    assert "hearthkv-client" not in {thread.name for thread in threading.enumerate()}


def test_a_call_that_another_thread_closes_under_ends():
    thread = LoopThread()
    begun, told = threading.Event(), []

    async def endless() -> None:
        begun.set()
        await asyncio.Event().wait()

    def call() -> None:
        with pytest.raises(BadInputError, match="client is closed") as error:
            thread.run(endless())
        told.append(error)

    calling = threading.Thread(target=call)
    calling.start()
    begun.wait()
    thread.close()
    calling.join()
    assert len(told) == 1


def test_threads_that_call_and_close_at_once_all_come_back():
    for _ in range(50):
        thread = LoopThread()

        async def answer() -> int:
            await asyncio.sleep(0)
            return 1

        def call(thread: LoopThread = thread) -> None:
            with contextlib.suppress(BadInputError):
                while thread.run(answer()) == 1:
                    pass

        threads = [threading.Thread(target=call) for _ in range(3)]
        threads += [threading.Thread(target=thread.close) for _ in range(2)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_finds_the_client_closed_and_leaves_the_parent_alone():
    thread = LoopThread()

    async def answer() -> int:
        return 1

    child = os.fork()
    if child == 0:
        said = 1
        try:
            thread.run(answer())
        except BadInputError:
            thread.close()
            said = 0
        finally:
            os._exit(said)
    assert os.waitpid(child, 0)[1] == 0
    assert thread.run(answer()) == 1
    thread.close()


def test_an_interrupted_call_is_cancelled(monkeypatch: pytest.MonkeyPatch):
    thread = LoopThread()
    begun, ended = threading.Event(), threading.Event()

    async def endless() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            ended.set()

    real = asyncio.run_coroutine_threadsafe

    def interrupted(work, loop):
        future = real(work, loop)
        begun.wait()
        future.result = lambda: (_ for _ in ()).throw(KeyboardInterrupt)
        return future

    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", interrupted)
    with pytest.raises(KeyboardInterrupt):
        thread.run(endless())
    assert ended.wait(20)
    thread.close()
