"""What rows that go to a Redis server have in common. Not pure."""

from collections.abc import Sequence

from bench.datapath.load import Load
from bench.datapath.raw_resp import RawResp
from bench.datapath.row import Group, ReadRow, Row
from bench.datapath.servers import Server


class RedisReadRow(ReadRow):
    """Reads the blocks that the bench has stored under `load.keys`."""

    group = Group.DRAM_READ

    def __init__(self, server: Server) -> None:
        self.server = server

    @property
    def pids(self) -> Sequence[int]:
        """The server."""
        return (self.server.pid,)


class RedisWriteRow(Row):
    """Writes the blocks under `load.written_keys`."""

    group = Group.DRAM_WRITE
    load: Load

    def __init__(self, server: Server) -> None:
        self.server = server

    @property
    def pids(self) -> Sequence[int]:
        """The server."""
        return (self.server.pid,)

    async def prepare(self, load: Load) -> None:
        """Forget what rows before have written."""
        self.load = load
        resp = RawResp(self.server.socket_path)
        resp.delete(load.written_keys)
        resp.close()

    async def is_done(self) -> bool:
        """Whether the server has the source's bytes."""
        resp = RawResp(self.server.socket_path)
        resp.get(self.load.written_keys, self.load)
        resp.close()
        return self.load.has_arrived()
