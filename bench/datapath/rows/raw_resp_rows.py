"""Redis at its floor, see `raw_resp`. Not pure."""

from bench.datapath import names
from bench.datapath.load import Load
from bench.datapath.raw_resp import RawResp
from bench.datapath.rows.redis_row import RedisReadRow, RedisWriteRow


class RawGet(RedisReadRow):
    """GET, received straight into the destination."""

    name = names.RAW_GET
    _resp: RawResp | None = None

    async def prepare(self, load: Load) -> None:
        """Connect."""
        await super().prepare(load)
        self._resp = RawResp(self.server.socket_path)

    async def run(self) -> None:
        """Read all blocks."""
        assert self._resp is not None
        self._resp.get(self.load.keys, self.load)

    async def close(self) -> None:
        """Hang up."""
        if self._resp is not None:
            self._resp.close()


class RawSet(RedisWriteRow):
    """SET, sent straight out of the source."""

    name = names.RAW_SET
    _resp: RawResp | None = None

    async def prepare(self, load: Load) -> None:
        """Connect."""
        await super().prepare(load)
        self._resp = RawResp(self.server.socket_path)

    async def run(self) -> None:
        """Write all blocks."""
        assert self._resp is not None
        self._resp.set(self.load.written_keys, self.load)

    async def close(self) -> None:
        """Hang up."""
        if self._resp is not None:
            self._resp.close()
