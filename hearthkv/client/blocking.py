"""
The client for code without an event loop: the same names, on a loop in a thread of its own.

Not pure. Any thread may call; a call blocks until it is answered, within the same deadlines.
"""

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import CancelledError, Future
from types import TracebackType
from typing import Self, TypeVar

from hearthkv.client.buffers import ByteBuffer
from hearthkv.client.kv import HearthKV, Namespace, connect
from hearthkv.client.load_run import OnProgress
from hearthkv.client.outcome import Finished, Loaded, MissReason
from hearthkv.client.settings import ClientSettings
from hearthkv.client.stats import ClientStats
from hearthkv.client.turn import Turn
from hearthkv.core.block_io import DropTarget, NodeDescription, Pinned
from hearthkv.core.block_key import PackedKeys, Tokens
from hearthkv.core.errors import BadInputError
from hearthkv.core.routing import (
    CacheHint,
    NodeMatch,
    NodeStatus,
    PlacementReason,
    Route,
    SessionStatus,
)
from hearthkv.core.session_id import NodeId, SessionId
from hearthkv.core.tier import TierCounts
from hearthkv.core.turn_end import TurnEnd
from hearthkv.telemetry import Telemetry

Answer = TypeVar("Answer")

_CLOSED = "client is closed, must be open"


def connect_blocking(
    routers: str | Sequence[str] = (),
    *,
    settings: ClientSettings | None = None,
    telemetry: Telemetry | None = None,
) -> "BlockingHearthKV":
    """Return a client as `connect` does; use it in a `with` statement, or close it."""
    return BlockingHearthKV(connect(routers, settings=settings, telemetry=telemetry))


class LoopThread:
    """
    An event loop in a thread that does not keep the process alive.

    Any thread may call it, and any may close it while others wait for their answers. A process
    that was forked has the object and not the thread: there it is closed, and its loop, which
    shares its selector with the parent's, is left as it is.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._is_closing = False
        self._lock = threading.Lock()  # held while work is handed over, so that none comes too late
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="hearthkv-client", daemon=True
        )
        self._thread.start()

    def run(self, work: Coroutine[object, object, Answer]) -> Answer:
        """
        Run a coroutine on the loop and return its answer; interrupted, it is cancelled.

        Raises:
            BadInputError: If the loop is closed, or is while the coroutine runs.
        """
        future = self._hand_over(work)
        try:
            return future.result()
        except CancelledError:
            raise BadInputError(_CLOSED) from None
        finally:
            future.cancel()  # does nothing to one that is done

    def close(self) -> None:
        """Cancel what still runs, stop the loop and wait for the thread. May be called again."""
        if not self._thread.is_alive():
            return
        with self._lock:
            was_closing, self._is_closing = self._is_closing, True
            if not was_closing:
                asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        self._thread.join()
        with self._lock:
            self._loop.close()

    def _hand_over(self, work: Coroutine[object, object, Answer]) -> "Future[Answer]":
        if self._thread.is_alive():
            with self._lock:
                if not self._is_closing:
                    return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        raise BadInputError(_CLOSED)

    async def _end(self) -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        # Not at once: the answer of a task that ended in this very step is still to be delivered.
        self._loop.call_soon(self._loop.stop)


class BlockingTurn:
    """One turn of a session, as `Turn` has it."""

    def __init__(self, turn: Turn, thread: LoopThread) -> None:
        self._turn = turn
        self._thread = thread

    @property
    def session_id(self) -> SessionId:
        """See `Turn.session_id`."""
        return self._turn.session_id

    @property
    def node_id(self) -> NodeId | None:
        """See `Turn.node_id`."""
        return self._turn.node_id

    @property
    def node_address(self) -> str | None:
        """See `Turn.node_address`."""
        return self._turn.node_address

    @property
    def engine_url(self) -> str:
        """See `Turn.engine_url`."""
        return self._turn.engine_url

    @property
    def reason(self) -> PlacementReason | None:
        """See `Turn.reason`."""
        return self._turn.reason

    @property
    def matched(self) -> TierCounts:
        """See `Turn.matched`."""
        return self._turn.matched

    @property
    def matched_tokens(self) -> int:
        """See `Turn.matched_tokens`."""
        return self._turn.matched_tokens

    @property
    def arriving_blocks(self) -> int:
        """See `Turn.arriving_blocks`."""
        return self._turn.arriving_blocks

    @property
    def miss_reason(self) -> MissReason | None:
        """See `Turn.miss_reason`."""
        return self._turn.miss_reason

    @property
    def block_size(self) -> int:
        """See `Turn.block_size`."""
        return self._turn.block_size

    @property
    def block_bytes(self) -> int:
        """See `Turn.block_bytes`."""
        return self._turn.block_bytes

    @property
    def keys(self) -> PackedKeys:
        """See `Turn.keys`."""
        return self._turn.keys

    def load_into(
        self,
        buffer: ByteBuffer,
        first_block: int = 0,
        *,
        blocks: int | None = None,
        deadline_s: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Loaded:
        """See `Turn.load_into`; `on_progress` is called in the client's own thread."""
        return self._thread.run(
            self._turn.load_into(
                buffer,
                first_block,
                blocks=blocks,
                deadline_s=deadline_s,
                on_progress=on_progress,
            )
        )

    def note_prefill(self, tokens: int, seconds: float) -> None:
        """See `Turn.note_prefill`."""

        async def noted() -> None:
            self._turn.note_prefill(tokens, seconds)

        self._thread.run(noted())

    def extend(self, tokens: Tokens) -> int:
        """See `Turn.extend`."""

        async def extended() -> int:
            return self._turn.extend(tokens)

        return self._thread.run(extended())

    def save(self, first_block: int, payloads: Sequence[ByteBuffer]) -> int:
        """See `Turn.save`."""

        async def saved() -> int:
            return self._turn.save(first_block, payloads)

        return self._thread.run(saved())

    def finish(
        self,
        deadline_s: float | None = None,
        *,
        end: TurnEnd | str = TurnEnd.UNKNOWN,
        returns_in_s: float | None = None,
    ) -> Finished:
        """See `Turn.finish`."""
        return self._thread.run(self._turn.finish(deadline_s, end=end, returns_in_s=returns_in_s))


class BlockingHearthKV:
    """A client of one cluster, as `HearthKV` is one. Made by `connect_blocking`."""

    def __init__(self, kv: HearthKV) -> None:
        self._kv = kv
        self._thread = LoopThread()

    def __enter__(self) -> Self:
        self._thread.run(self._kv.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """See `HearthKV.close`."""
        try:
            self._thread.run(self._kv.close())
        except BadInputError:
            return  # it was closed before
        finally:
            self._thread.close()

    @property
    def stats(self) -> ClientStats:
        """See `HearthKV.stats`."""
        return self._kv.stats

    def begin_turn(
        self,
        session_id: str,
        namespace: Namespace,
        tokens: Tokens,
        *,
        cache_hint: CacheHint | str = CacheHint.NONE,
        node: str | None = None,
    ) -> BlockingTurn:
        """See `HearthKV.begin_turn`."""
        turn = self._thread.run(
            self._kv.begin_turn(session_id, namespace, tokens, cache_hint=cache_hint, node=node)
        )
        return BlockingTurn(turn, self._thread)

    def route(
        self,
        session_id: str,
        namespace: Namespace,
        tokens: Tokens,
        *,
        cache_hint: CacheHint | str = CacheHint.NONE,
    ) -> Route | None:
        """See `HearthKV.route`."""
        return self._thread.run(
            self._kv.route(session_id, namespace, tokens, cache_hint=cache_hint)
        )

    def lookup(self, namespace: Namespace, tokens: Tokens) -> list[NodeMatch]:
        """See `HearthKV.lookup`."""
        return self._thread.run(self._kv.lookup(namespace, tokens))

    def list_nodes(self) -> list[NodeStatus]:
        """See `HearthKV.list_nodes`."""
        return self._thread.run(self._kv.list_nodes())

    def list_sessions(self, limit: int = 0) -> list[SessionStatus]:
        """See `HearthKV.list_sessions`."""
        return self._thread.run(self._kv.list_sessions(limit))

    def end_session(self, session_id: str) -> NodeId | None:
        """See `HearthKV.end_session`."""
        return self._thread.run(self._kv.end_session(session_id))

    def drain_node(self, node_id: str, *, cancel: bool = False) -> int:
        """See `HearthKV.drain_node`."""
        return self._thread.run(self._kv.drain_node(node_id, cancel=cancel))

    def describe(self, node: str) -> NodeDescription:
        """See `HearthKV.describe`."""
        return self._thread.run(self._kv.describe(node))

    def prefetch(self, node: str, namespace: Namespace, tokens: Tokens) -> int:
        """See `HearthKV.prefetch`."""
        return self._thread.run(self._kv.prefetch(node, namespace, tokens))

    def pin(self, node: str, namespace: Namespace, tokens: Tokens, *, ttl_s: float) -> Pinned:
        """See `HearthKV.pin`."""
        return self._thread.run(self._kv.pin(node, namespace, tokens, ttl_s=ttl_s))

    def unpin(self, node: str, pin_id: str) -> int:
        """See `HearthKV.unpin`."""
        return self._thread.run(self._kv.unpin(node, pin_id))

    def drop(self, node: str, target: DropTarget) -> int:
        """See `HearthKV.drop`."""
        return self._thread.run(self._kv.drop(node, target))
