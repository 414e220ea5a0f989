"""HearthKV: its transport by itself, and whole clients before whole nodes. Not pure."""

from collections.abc import Sequence

from bench.datapath import names
from bench.datapath.load import Load
from bench.datapath.node_process import SPARE, NodeProcess
from bench.datapath.row import Group, ReadRow, Row
from bench.datapath.rows.redis_row import RedisReadRow, RedisWriteRow
from bench.datapath.servers import Server
from hearthkv.client.turn import Turn
from hearthkv.datapath.redis_place import RedisPlace
from hearthkv.datapath.resp_pool import RespPool
from hearthkv.datapath.resp_wire import Request, get_request, set_request


class TransportRead(RedisReadRow):
    """GET into the destination, as a direct read does it; no frame, no checksum, no node."""

    name = names.OURS_DRAM_READ
    _pool: RespPool | None = None

    async def prepare(self, load: Load) -> None:
        """Make the pool; it connects when it is used."""
        await super().prepare(load)
        self._pool = RespPool(RedisPlace(path=str(self.server.socket_path)))

    async def run(self) -> None:
        """Read all blocks."""
        destination = self.load.destination
        await _carry_out(
            self._pool,
            [
                get_request(key.encode(), head_bytes=0, payload=destination[part])
                for key, part in zip(self.load.keys, self.load.slices, strict=True)
            ],
        )

    async def close(self) -> None:
        """Hang up."""
        if self._pool is not None:
            self._pool.close()


class TransportWrite(RedisWriteRow):
    """SET out of the source, as a direct write does it; no frame, no checksum, no node."""

    name = names.OURS_DRAM_WRITE
    _pool: RespPool | None = None

    async def prepare(self, load: Load) -> None:
        """Make the pool; it connects when it is used."""
        await super().prepare(load)
        self._pool = RespPool(RedisPlace(path=str(self.server.socket_path)))

    async def run(self) -> None:
        """Write all blocks."""
        source = self.load.source
        await _carry_out(
            self._pool,
            [
                set_request(key.encode(), (source[part],))
                for key, part in zip(self.load.written_keys, self.load.slices, strict=True)
            ],
        )

    async def close(self) -> None:
        """Hang up."""
        if self._pool is not None:
            self._pool.close()


class _NodeRow(Row):
    """A row of one client and one node."""

    load: Load
    node_id: str
    dram_share: float = 1.0
    """Of the blocks."""

    is_direct_path: bool = True
    is_direct_io: bool = False

    def __init__(self, server: Server) -> None:
        self._server = server
        self._node: NodeProcess | None = None

    @property
    def pids(self) -> Sequence[int]:
        """The server and the node."""
        return (self._server.pid,) if self._node is None else (self._server.pid, self._node.pid)

    @property
    def node(self) -> NodeProcess:
        """The node that runs."""
        assert self._node is not None
        return self._node

    async def prepare(self, load: Load) -> None:
        """Start a node that has room for the blocks, in DRAM for as many as the row says."""
        self.load = load
        dram_blocks = self.dram_share * load.block_count
        ssd_blocks = load.block_count - dram_blocks
        # DRAM is filled first, so only a row that wants no block below has it larger than that.
        self._node = await NodeProcess.start(
            self._server,
            load,
            self.node_id,
            dram_blocks=dram_blocks * (1 if ssd_blocks else SPARE),
            ssd_blocks=ssd_blocks * SPARE,
            is_direct_path=self.is_direct_path,
            is_direct_io=self.is_direct_io,
        )

    async def close(self) -> None:
        """End client and node."""
        if self._node is not None:
            await self._node.close()


class DirectRead(_NodeRow, ReadRow):
    """A turn's load by the direct path: locate, read, verify."""

    name = names.OURS_DRAM_READ_CHECKED
    group = Group.DRAM_READ
    node_id = "direct"
    _turn: Turn | None = None

    async def prepare(self, load: Load) -> None:
        """Start the node, and save what will be loaded."""
        await super().prepare(load)
        self._turn = await self.node.save()

    async def run(self) -> None:
        """Load all blocks."""
        assert self._turn is not None
        await self.node.load(self._turn)


class SsdRead(DirectRead):
    """The same out of slab files, which lie in the page cache."""

    name = names.OURS_SSD_CACHED
    group = Group.SSD_CACHED
    node_id = "ssd"
    dram_share = 0.0


class SsdDirectRead(SsdRead):
    """The same past the page cache."""

    name = names.OURS_SSD_DIRECT
    group = Group.SSD_DIRECT
    node_id = "ssd-o-direct"
    is_direct_io = True


class MixedRead(DirectRead):
    """Half of the blocks out of Redis, half out of slab files, at once."""

    name = names.OURS_MIXED
    group = Group.MIXED_READ
    node_id = "mixed"
    dram_share = 0.5


class GrpcRead(DirectRead):
    """A turn's load through the node."""

    name = names.OURS_GRPC_READ
    group = Group.GRPC_READ
    node_id = "grpc"
    is_direct_path = False


class DirectSave(_NodeRow):
    """A turn's save by the direct path: copy, checksum, reserve, write, commit."""

    name = names.OURS_SAVE
    group = Group.DRAM_WRITE
    node_id = "direct-save"

    async def run(self) -> None:
        """Have forgotten what was saved before, and save all blocks."""
        await self.node.forget()
        self._turn = await self.node.save()

    async def is_done(self) -> bool:
        """Whether what was saved is loaded again."""
        await self.node.load(self._turn)
        return self.load.has_arrived()


class GrpcSave(DirectSave):
    """A turn's save through the node."""

    name = names.OURS_GRPC_WRITE
    group = Group.GRPC_WRITE
    node_id = "grpc-save"
    is_direct_path = False


NODE_ROWS = (
    DirectRead,
    DirectSave,
    SsdRead,
    SsdDirectRead,
    MixedRead,
    GrpcRead,
    GrpcSave,
)


async def _carry_out(pool: RespPool | None, requests: Sequence[Request]) -> None:
    assert pool is not None
    failed: list[object] = []

    def settle(index: int, request: Request) -> None:
        if isinstance(request.reply, Exception) or request.reply is None:
            failed.append((index, request.reply))

    await pool.run(requests, settle)
    assert not failed, failed[0]
