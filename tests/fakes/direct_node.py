"""A node's direct path over a real Redis and real files, which can be told to lie."""

import dataclasses
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import grpc

from hearthkv.codec import direct_path as codec
from hearthkv.core.block_frame import BlockFrame, encode_frame
from hearthkv.core.block_io import ReadEnd, WriteStatus
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.checksum import block_checksum
from hearthkv.core.direct_path import (
    Attached,
    Attachment,
    FileAddress,
    Located,
    LocatedBlock,
    LocateQuery,
    RedisAddress,
    Reservation,
    ReservedCopy,
    ReserveQuery,
    ThroughNode,
)
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.session_id import NodeId
from hearthkv.core.tier import Tier
from hearthkv.datapath.redis_names import RedisNames, epoch_value
from hearthkv.v1 import direct_path_pb2 as pb2
from hearthkv.v1.direct_path_pb2_grpc import DirectPathServicer
from tests.fakes.misbehaviour import Fail, Stall, act
from tests.redis_process import RedisProcess

NODE_ID = NodeId("fake")
STALE = Fail(grpc.StatusCode.FAILED_PRECONDITION, is_answer=True)
PAGE = 4096


class FakeDirectNode(DirectPathServicer):
    """
    Keeps blocks where a client can reach them, and says so as the contract does.

    `bend_attachment`, `bend_located` and `bend_reservation` turn honest answers into what is sent;
    `troubles` names calls that stall or fail; `before` is called as a call begins.
    """

    def __init__(self, folder: Path, *servers: RedisProcess) -> None:
        self.servers = servers
        self.names = RedisNames(NODE_ID)
        self.ssd_dir = folder / "ssd"
        self.ssd_dir.mkdir(exist_ok=True)
        self.proof_path = folder / "host-proof" / "proof"
        self.calls: Counter[str] = Counter()
        self.troubles: dict[str, Stall | Fail] = {}
        self.before: dict[str, Callable[[], object]] = {}
        self.bend_attachment: Callable[[Attachment], Attachment] = lambda honest: honest
        self.bend_located: Callable[[Located], Located] = lambda honest: honest
        self.bend_reservation: Callable[[Reservation], Reservation] = lambda honest: honest
        self.blocks: dict[bytes, LocatedBlock] = {}
        self.aborted: list[str] = []
        self.copies_max = 1000
        self.specs: dict[bytes, NamespaceSpec] = {}
        self._reserved: dict[str, list[BlockRef]] = {}
        self._sequence = 0
        self.start(epoch=7)

    def start(self, epoch: int) -> None:
        """Begin anew, with what the stores hold."""
        self.epoch = epoch
        self.proof = epoch.to_bytes(32, "big")
        self.proof_path.parent.mkdir(mode=0o700, exist_ok=True)
        self.proof_path.unlink(missing_ok=True)
        self.proof_path.touch(mode=0o600)
        self.proof_path.write_bytes(self.proof)
        for server in self.servers:
            server.command("SET", self.names.epoch, epoch_value(epoch))

    def hold_in_redis(
        self, spec: NamespaceSpec, key: bytes, payload: bytes, *, server: int = 0
    ) -> BlockRef:
        """Put a block into a Redis server."""
        ref = self._ref(spec, key, payload, Tier.DRAM)
        self.blocks[key] = LocatedBlock(ref, RedisAddress(server))
        self.put(server, self.names.block_of(ref), self.stored(ref, payload))
        return ref

    def hold_in_file(
        self, spec: NamespaceSpec, keys: list[bytes], payloads: list[bytes], name: str = "slab"
    ) -> list[BlockRef]:
        """Put blocks into a file, as neighbours without room between them."""
        path, refs = self.ssd_dir / name, []
        path.parent.mkdir(exist_ok=True)
        with path.open("ab") as file:
            file.write(bytes(-file.tell() % PAGE))
            for key, payload in zip(keys, payloads, strict=True):
                ref = self._ref(spec, key, payload, Tier.SSD)
                self.blocks[key] = LocatedBlock(ref, FileAddress(name, file.tell()))
                file.write(payload)
                refs.append(ref)
        return refs

    def stored(self, ref: BlockRef, payload: bytes) -> bytes:
        """What Redis holds of a block."""
        spec = self.specs[ref.namespace_id]
        frame = BlockFrame(spec, ref.key, ref.parent_key, ref.checksum, ref.sequence)
        return encode_frame(frame) + payload

    def put(self, server: int, name: bytes, value: bytes) -> None:
        """Put whatever value under whatever name."""
        assert self.servers[server].command("SET", name, value) == b"+OK\r\n"

    async def Attach(self, request, context):  # noqa: N802
        await self._enter("Attach", context)
        attachment = Attachment(
            node_id=NODE_ID,
            epoch=self.epoch,
            redis_urls=tuple(server.url for server in self.servers),
            ssd_dir=str(self.ssd_dir),
            is_direct_io=False,
        )
        if not request.proof:
            return codec.encode_attach_response(Attached(str(self.proof_path), None))
        await self._check(request.proof, context)
        bent = self.bend_attachment(attachment)
        return codec.encode_attach_response(Attached(str(self.proof_path), bent))

    async def Locate(self, request, context):  # noqa: N802
        await self._enter("Locate", context)
        await self._check(request.proof, context)
        query = codec.decode_locate_request(request)
        return codec.encode_locate_response(self.bend_located(self._located(query)))

    async def Reserve(self, request, context):  # noqa: N802
        await self._enter("Reserve", context)
        await self._check(request.proof, context)
        query = codec.decode_reserve_request(request)
        return codec.encode_reserve_response(self.bend_reservation(self._reserve(query)))

    async def Commit(self, request, context):  # noqa: N802
        await self._enter("Commit", context)
        await self._check(request.proof, context)
        refs = self._reserved.pop(request.reservation_id)
        return codec.encode_commit_response([self._commit(ref) for ref in refs])

    async def Abort(self, request, context):  # noqa: N802
        await self._enter("Abort", context)
        self.aborted.append(request.reservation_id)
        return pb2.AbortResponse()

    async def _enter(self, name: str, context) -> None:
        self.calls[name] += 1
        if name in self.before:
            self.before[name]()
        if name in self.troubles:
            await act(self.troubles[name], context)

    async def _check(self, proof: bytes, context) -> None:
        if proof != self.proof:
            await act(STALE, context)

    def _located(self, query: LocateQuery) -> Located:
        found = []
        for key in query.keys:
            if key not in self.blocks:
                return Located(tuple(found), ReadEnd.MISS)
            found.append(self.blocks[key])
        return Located(tuple(found), ReadEnd.COMPLETE)

    def _reserve(self, query: ReserveQuery) -> Reservation:
        outcomes: list[ReservedCopy | WriteStatus | ThroughNode] = []
        refs, parent_key, spec = [], query.parent_key, query.start.spec
        self.specs[spec.namespace_id] = spec
        for key, checksum in zip(query.keys, query.checksums, strict=True):
            if key in self.blocks:
                outcomes.append(WriteStatus.ALREADY_HELD)
            elif len(refs) == self.copies_max:
                outcomes.append(ThroughNode())
                break
            else:
                self._sequence += 1
                refs.append(
                    BlockRef(
                        spec.namespace_id,
                        key,
                        parent_key,
                        Tier.DRAM,
                        self._sequence,
                        checksum,
                        spec.block_bytes,
                    )
                )
                outcomes.append(ReservedCopy(self._sequence, 0))
            parent_key = key
        name = f"reservation-{self._sequence}" if refs else ""
        self._reserved[name] = refs
        return Reservation(name, tuple(outcomes), 30.0)

    def _commit(self, ref: BlockRef) -> WriteStatus:
        held, reserved = self.names.block_of(ref), self.names.reserved_of(ref)
        if self.servers[0].command("RENAME", reserved, held) != b"+OK\r\n":
            return WriteStatus.UNAVAILABLE
        assert self.servers[0].command("PERSIST", held) == b":1\r\n"  # it had a time to live
        self.blocks[ref.key] = LocatedBlock(ref, RedisAddress(0))
        return WriteStatus.STORED

    def _ref(self, spec: NamespaceSpec, key: bytes, payload: bytes, tier: Tier) -> BlockRef:
        self._sequence += 1
        self.specs[spec.namespace_id] = spec
        checksum = block_checksum(spec.namespace_id, key, payload)
        return BlockRef(spec.namespace_id, key, b"", tier, self._sequence, checksum, len(payload))


def moved(block: int, **fields: object) -> Callable[[Located], Located]:
    """Lie about where a block lies: fields of its address."""

    def bend(honest: Located) -> Located:
        blocks = list(honest.blocks)
        address = dataclasses.replace(blocks[block].address, **fields)
        blocks[block] = dataclasses.replace(blocks[block], address=address)
        return dataclasses.replace(honest, blocks=tuple(blocks))

    return bend
