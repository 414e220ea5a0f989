"""The calls to one cache node. Not pure."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from grpc import aio

from hearthkv.client.deadline import Deadline
from hearthkv.client.outcome import MissReason
from hearthkv.client.peer_calls import PeerCalls, next_message, understood
from hearthkv.client.prefix_assembly import PrefixAssembly
from hearthkv.client.pull_call import PullCall
from hearthkv.client.settings import ClientSettings
from hearthkv.codec import cache_node as codec
from hearthkv.codec import pulls as pulls_codec
from hearthkv.codec.block import messages_of
from hearthkv.codec.block_stream import (
    READ_METHOD,
    WRITE_METHOD,
    pack_read_request,
    pack_write_step,
    unpack_read_step,
    unpack_write_response,
)
from hearthkv.core.block_io import (
    CHUNK_BYTES_MAX,
    BlockChunk,
    DropTarget,
    KeysQuery,
    Matched,
    MatchQuery,
    NodeDescription,
    Pinned,
    PinQuery,
    ReadEnd,
    ReadQuery,
    ReadStep,
    WriteStart,
    WriteStatus,
    WriteStep,
)
from hearthkv.core.errors import BadInputError, PeerContractError, PeerTimeoutError
from hearthkv.core.pulls import Lineage, LineageQuery, PullProgress, PullQuery
from hearthkv.core.turn_end import EndedTurn
from hearthkv.v1.cache_node_pb2_grpc import CacheNodeStub

_NextStep = Callable[[], Awaitable[ReadStep | None]]
"""Gives the next step of a read; None where the stream is over."""

SERVER_GRACE_S = 1.0
"""The server's deadline lies this much behind ours, so that ours ends the read."""

_TRAILING_MESSAGES_MAX = 2  # the end, and what gRPC says when the stream is over


class NodeClient:
    """
    One cache node. Every call ends within its deadline.

    Every method raises the PeerErrors of `PeerCalls.call`, and no other.
    """

    def __init__(
        self, address: str, channel: aio.Channel, calls: PeerCalls, settings: ClientSettings
    ) -> None:
        self.address = address
        self.calls = calls
        self._stub = CacheNodeStub(channel)
        # These two carry payloads, and so bytes instead of messages.
        self._read: aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(READ_METHOD)
        self._write: aio.StreamUnaryMultiCallable[bytes, bytes] = channel.stream_unary(WRITE_METHOD)
        self._settings = settings
        self._takes_chunks = False
        """Whether the node said that it takes several small blocks in one message."""

    async def match(self, query: MatchQuery) -> Matched:
        """Ask how many leading blocks are held."""
        request = codec.encode_match_request(query)
        with self.calls.call(self.address):
            answer = await self._stub.Match(request, timeout=self._settings.match_s)
            matched = codec.decode_match_response(understood(answer))
            if matched.arriving_blocks > len(query.keys):
                raise PeerContractError(
                    f"node matches {matched.arriving_blocks} blocks, must be <= {len(query.keys)}"
                )
            return matched

    async def read(self, query: ReadQuery, assembly: PrefixAssembly, deadline: Deadline) -> None:
        """
        Read blocks into an assembly until it is over.

        Where an error is raised, the blocks that the assembly counts so far are right. A
        deadline that ends a read which made progress is no error: the node is not to blame.
        """
        request = pack_read_request(replace(query, takes_chunks=True))
        with self.calls.call(self.address):
            left_s = deadline.left_s(self.calls.clock.now())
            call = self._read(request, timeout=left_s + SERVER_GRACE_S)

            async def next_step() -> ReadStep | None:
                message = await next_message(call)
                return None if message is None else unpack_read_step(message)

            try:
                await self._fill(assembly, next_step, deadline)
                if assembly.is_complete:
                    await self._see_out(next_step, deadline)
            finally:
                call.cancel()

    async def _fill(
        self, assembly: PrefixAssembly, next_step: _NextStep, deadline: Deadline
    ) -> None:
        while not assembly.is_over:
            wait_s = deadline.wait_s(self.calls.clock.now(), self._settings.stall_s)
            try:
                async with asyncio.timeout(wait_s):
                    step = await next_step()
            except TimeoutError:
                if wait_s < self._settings.stall_s and assembly.has_progress:
                    assembly.give_up(MissReason.TIMEOUT)
                    return
                raise PeerTimeoutError(f"{self.address} sent nothing for {wait_s:.3g} s") from None
            if step is None:
                raise PeerContractError("read ends without a reason, must give one")
            for part in (step,) if isinstance(step, ReadEnd) else step:
                if not assembly.is_over:
                    assembly.take(part)

    async def _see_out(self, next_step: _NextStep, deadline: Deadline) -> None:
        """Let a complete read end by itself; what comes now changes nothing any more."""
        try:
            for _ in range(_TRAILING_MESSAGES_MAX):
                wait_s = deadline.wait_s(self.calls.clock.now(), self._settings.stall_s)
                async with asyncio.timeout(wait_s):
                    if await next_step() is None:
                        return
        except (aio.AioRpcError, BadInputError, PeerContractError, TimeoutError):
            return

    async def write(self, start: WriteStart, chunks: Iterable[BlockChunk]) -> list[WriteStatus]:
        """Write blocks, parents before children; return what became of each."""
        # Where the node ends the call before it has read all, gRPC may tell INTERNAL instead of
        # the node's status: a refusal either way.
        bytes_max = CHUNK_BYTES_MAX if self._takes_chunks else 0
        self._takes_chunks = False  # until it says so again: another may answer there by now
        steps: Iterable[WriteStep] = itertools.chain([start], messages_of(chunks, bytes_max))
        with self.calls.call(self.address):
            answer = unpack_write_response(
                understood(
                    await self._write(map(pack_write_step, steps), timeout=self._settings.save_s)
                )
            )
            self._takes_chunks = answer.takes_chunks
            return answer.statuses

    def pull(self, query: PullQuery, limit_s: float) -> PullCall:
        """
        Have the node fetch a prefix from another one; the call is under way at once.

        Args:
            query: What to fetch.
            limit_s: Seconds after which the call ends, however far it has come.
        """
        self.calls.check(self.address)
        call = self._stub.Pull(pulls_codec.encode_pull_request(query), timeout=limit_s)

        async def next_progress() -> PullProgress | None:
            message = await next_message(call)
            return None if message is None else pulls_codec.decode_pull_response(message)

        return PullCall(self.address, next_progress, call.cancel, self.calls)

    async def lineage(self, query: LineageQuery) -> Lineage:
        """Ask for the keys of the prefix that ends in a block; none where it is not held."""
        request = pulls_codec.encode_lineage_request(query)
        with self.calls.call(self.address):
            answer = await self._stub.Lineage(request, timeout=self._settings.call_s)
            lineage = pulls_codec.decode_lineage_response(understood(answer))
            _check_lineage(query, lineage)
            return lineage

    async def prefetch(self, query: KeysQuery) -> int:
        """Have a prefix lifted to DRAM; return how many blocks are queued for it."""
        request = codec.encode_prefetch_request(query)
        with self.calls.call(self.address):
            answer = await self._stub.Prefetch(request, timeout=self._settings.call_s)
            return codec.decode_prefetch_response(understood(answer))

    async def end_turn(self, turn: EndedTurn) -> int:
        """Tell how a turn ended; return how many blocks are lifted for the next one."""
        request = codec.encode_end_turn_request(turn)
        with self.calls.call(self.address):
            answer = await self._stub.EndTurn(request, timeout=self._settings.match_s)
            return codec.decode_end_turn_response(understood(answer))

    async def pin(self, query: PinQuery) -> Pinned:
        """Keep a prefix from eviction for a while."""
        request = codec.encode_pin_request(query)
        with self.calls.call(self.address):
            answer = await self._stub.Pin(request, timeout=self._settings.call_s)
            return codec.decode_pin_response(understood(answer))

    async def unpin(self, pin_id: str) -> int:
        """End a pin; return how many blocks were released."""
        request = codec.encode_unpin_request(pin_id)
        with self.calls.call(self.address):
            answer = await self._stub.Unpin(request, timeout=self._settings.call_s)
            return codec.decode_unpin_response(understood(answer))

    async def drop(self, target: DropTarget) -> int:
        """Have blocks forgotten; return how many were."""
        request = codec.encode_drop_request(target)
        with self.calls.call(self.address):
            answer = await self._stub.Drop(request, timeout=self._settings.call_s)
            return codec.decode_drop_response(understood(answer))

    async def describe(self) -> NodeDescription:
        """Ask the node for its description."""
        request = codec.encode_describe_request()
        with self.calls.call(self.address):
            answer = await self._stub.Describe(request, timeout=self._settings.call_s)
            return codec.decode_describe_response(understood(answer))


def _check_lineage(query: LineageQuery, lineage: Lineage) -> None:
    keys, spec = lineage.keys, lineage.spec
    if not keys:
        return
    if keys[len(keys) - 1] != query.tip_key:
        raise PeerContractError("lineage ends in another block than was asked for")
    if spec is None or spec.namespace_id != query.namespace_id:
        raise PeerContractError("lineage is of another namespace than was asked for, or of none")
