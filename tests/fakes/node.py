"""A cache node in memory that can be told to misbehave."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from hearthkv.core.checksum import block_checksum
from hearthkv.v1 import block_pb2, cache_node_pb2
from hearthkv.v1.cache_node_pb2_grpc import CacheNodeServicer
from tests.fakes.misbehaviour import Fail, Stall, act

Step = cache_node_pb2.ReadResponse | Stall | Fail


@dataclass
class Held:
    """A block that the node holds."""

    payload: bytes
    checksum: int


class FakeNode(CacheNodeServicer):
    """
    Holds blocks, and serves them as the contract says unless told otherwise.

    `read_bends` turns the messages of an honest read into what is sent; `troubles` names calls
    that stall or fail; `write_statuses` replaces the honest answer of the next writes.
    """

    def __init__(self, chunk_bytes: int = 1024) -> None:
        self.blocks: dict[tuple[bytes, bytes], Held] = {}
        self.calls: Counter[str] = Counter()
        self.write_batches: list[list[bytes]] = []
        self.write_messages = 0
        self.takes_chunks = False
        self.troubles: dict[str, Stall | Fail] = {}
        self.read_bends: Callable[[list[cache_node_pb2.ReadResponse]], list[Step]] = list
        self.write_statuses: list[list[int]] = []
        self.matched: list[block_pb2.TierBlocks] | None = None
        self.last_read: cache_node_pb2.ReadRequest | None = None
        self.ended_turns: list[cache_node_pb2.EndTurnRequest] = []
        self.dropped: list[cache_node_pb2.DropRequest] = []
        self.pulls: list[cache_node_pb2.PullRequest] = []
        self.pull_answers: list[cache_node_pb2.PullResponse | Stall | Fail | Callable] = []
        self.lineage = cache_node_pb2.LineageResponse()
        self.arriving_blocks = 0
        self._chunk_bytes = chunk_bytes

    def hold(self, namespace_id: bytes, key: bytes, payload: bytes) -> None:
        self.blocks[namespace_id, key] = Held(payload, block_checksum(namespace_id, key, payload))

    async def Match(self, request, context):  # noqa: N802
        await self._enter("Match", context)
        count = len(list(self._run(request.namespace_id, request.keys)))
        by_tier = [block_pb2.TierBlocks(tier=block_pb2.TIER_DRAM, blocks=count)] if count else []
        if self.matched is not None:
            by_tier = self.matched
        return cache_node_pb2.MatchResponse(
            matched_blocks=count, matched_by_tier=by_tier, arriving_blocks=self.arriving_blocks
        )

    async def Read(self, request, context):  # noqa: N802
        await self._enter("Read", context)
        self.last_read = request
        for step in self.read_bends(self._honest_read(request)):
            if isinstance(step, Stall | Fail):
                await act(step, context)
            yield step

    async def Write(self, request_iterator, context):  # noqa: N802
        namespace_id, received = b"", []
        async for request in request_iterator:
            self.write_messages += 1
            if request.HasField("start"):
                namespace_id = request.start.namespace.namespace_id
                continue
            for chunk in request.chunks.chunks or [request.chunk]:
                if chunk.HasField("header"):
                    received.append((chunk.header, bytearray(chunk.data)))
                else:
                    received[-1][1].extend(chunk.data)
        # A call that ends while its caller still writes may end there with another status.
        await self._enter("Write", context)
        self.write_batches.append([header.key for header, _ in received])
        if self.write_statuses:
            return cache_node_pb2.WriteResponse(statuses=self.write_statuses.pop(0))
        statuses = [self._store(namespace_id, header, bytes(data)) for header, data in received]
        return cache_node_pb2.WriteResponse(statuses=statuses, takes_chunks=self.takes_chunks)

    async def Prefetch(self, request, context):  # noqa: N802
        await self._enter("Prefetch", context)
        count = len(list(self._run(request.namespace_id, request.keys)))
        return cache_node_pb2.PrefetchResponse(queued_blocks=count)

    async def Pin(self, request, context):  # noqa: N802
        await self._enter("Pin", context)
        count = len(list(self._run(request.namespace_id, request.keys)))
        return cache_node_pb2.PinResponse(pin_id="pin-1", pinned_blocks=count)

    async def Unpin(self, request, context):  # noqa: N802
        await self._enter("Unpin", context)
        return cache_node_pb2.UnpinResponse(unpinned_blocks=len(request.pin_id))

    async def EndTurn(self, request, context):  # noqa: N802
        await self._enter("EndTurn", context)
        self.ended_turns.append(request)
        return cache_node_pb2.EndTurnResponse()

    async def Pull(self, request, context):  # noqa: N802
        await self._enter("Pull", context)
        self.pulls.append(request)
        for message in self.pull_answers:
            if isinstance(message, Stall | Fail):
                await act(message, context)
            elif isinstance(message, cache_node_pb2.PullResponse):
                yield message
            else:
                message()

    async def Lineage(self, request, context):  # noqa: N802
        await self._enter("Lineage", context)
        return self.lineage

    async def Drain(self, request, context):  # noqa: N802
        await self._enter("Drain", context)
        return cache_node_pb2.DrainResponse()

    async def Drop(self, request, context):  # noqa: N802
        await self._enter("Drop", context)
        self.dropped.append(request)
        return cache_node_pb2.DropResponse(dropped_blocks=1)

    async def Describe(self, request, context):  # noqa: N802
        await self._enter("Describe", context)
        return cache_node_pb2.DescribeResponse(node_id="fake", epoch=7, version="1")

    async def _enter(self, name: str, context) -> None:
        self.calls[name] += 1
        if name in self.troubles:
            await act(self.troubles[name], context)

    def _run(self, namespace_id: bytes, keys: block_pb2.PackedKeys):
        """The leading keys that are held."""
        for at in range(0, len(keys.keys), keys.key_width):
            key = keys.keys[at : at + keys.key_width]
            if (namespace_id, key) not in self.blocks:
                return
            yield key

    def _honest_read(self, request) -> list[cache_node_pb2.ReadResponse]:
        steps, count = [], 0
        for key in self._run(request.namespace_id, request.keys):
            steps.extend(self._chunks(key, self.blocks[request.namespace_id, key]))
            count += 1
        is_all = count * request.keys.key_width == len(request.keys.keys)
        end = cache_node_pb2.READ_END_COMPLETE if is_all else cache_node_pb2.READ_END_MISS
        return [*steps, cache_node_pb2.ReadResponse(end=end)]

    def _chunks(self, key: bytes, held: Held) -> list[cache_node_pb2.ReadResponse]:
        payload, steps = held.payload, []
        for at in range(0, len(payload), self._chunk_bytes):
            chunk = block_pb2.BlockChunk(data=payload[at : at + self._chunk_bytes])
            if at == 0:
                chunk.header.key = key
                chunk.header.size_bytes = len(payload)
                chunk.header.checksum = held.checksum
                chunk.header.tier = block_pb2.TIER_DRAM
            steps.append(cache_node_pb2.ReadResponse(chunk=chunk))
        return steps

    def _store(self, namespace_id: bytes, header, payload: bytes) -> int:
        if (namespace_id, header.key) in self.blocks:
            return cache_node_pb2.WRITE_STATUS_ALREADY_HELD
        if header.parent_key and (namespace_id, header.parent_key) not in self.blocks:
            return cache_node_pb2.WRITE_STATUS_PARENT_MISSING
        if block_checksum(namespace_id, header.key, payload) != header.checksum:
            return cache_node_pb2.WRITE_STATUS_CORRUPT
        self.blocks[namespace_id, header.key] = Held(payload, header.checksum)
        return cache_node_pb2.WRITE_STATUS_STORED
