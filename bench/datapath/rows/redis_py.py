"""redis-py in its modes: with hiredis and without, one command at a time or a few. Not pure."""

import importlib.util
from enum import Enum
from typing import cast

import redis

# What redis-py takes when hiredis is not installed has no public name.
from redis._parsers import Encoder, _HiredisParser, _RESP2Parser
from redis.connection import HiredisRespSerializer, PythonRespSerializer

from bench.datapath import names
from bench.datapath.load import Load
from bench.datapath.raw_resp import window
from bench.datapath.row import RowUnavailableError
from bench.datapath.rows.redis_row import RedisReadRow, RedisWriteRow
from bench.datapath.servers import Server

PACK_CUTOFF_BYTES = 6000  # redis-py's own: what is longer is sent without a copy


class Codec(Enum):
    """Who packs commands and takes replies apart; redis-py chooses by what is installed."""

    PYTHON = "pure Python"
    HIREDIS = "hiredis"


def _connect(server: Server, codec: Codec) -> redis.Redis:
    is_hiredis = codec is Codec.HIREDIS
    if is_hiredis and importlib.util.find_spec("hiredis") is None:
        raise RowUnavailableError("the package hiredis is not installed")
    encoder = Encoder("utf-8", "strict", decode_responses=False)  # type: ignore[no-untyped-call]
    python_packer = PythonRespSerializer(PACK_CUTOFF_BYTES, encoder.encode)
    pool = redis.ConnectionPool(
        connection_class=redis.UnixDomainSocketConnection,  # pyright: ignore[reportArgumentType]
        path=str(server.socket_path),
        parser_class=_HiredisParser if is_hiredis else _RESP2Parser,
        command_packer=HiredisRespSerializer() if is_hiredis else python_packer,
        protocol=2,
    )
    return redis.Redis(connection_pool=pool)


class RedisPyGet(RedisReadRow):
    """GET, and a copy of each value into the destination."""

    family = names.REDIS_PY_GET
    _redis: redis.Redis | None = None

    def __init__(self, server: Server, codec: Codec) -> None:
        super().__init__(server)
        self._codec = codec
        self.name = f"{self.family}, {codec.value}"

    async def prepare(self, load: Load) -> None:
        """Connect."""
        await super().prepare(load)
        self._redis = _connect(self.server, self._codec)

    async def run(self) -> None:
        """Read one block after the other."""
        assert self._redis is not None
        for key, part in zip(self.load.keys, self.load.slices, strict=True):
            self.load.destination[part] = cast("bytes", self._redis.get(key))

    async def close(self) -> None:
        """Hang up."""
        if self._redis is not None:
            self._redis.close()


class RedisPyPipelinedGet(RedisPyGet):
    """A few GETs at a time."""

    def __init__(self, server: Server, codec: Codec) -> None:
        super().__init__(server, codec)
        self.name = f"{self.name}, pipelined"

    async def run(self) -> None:
        """Read a few blocks at a time."""
        assert self._redis is not None
        keys, parts = self.load.keys, list(self.load.slices)
        step = window(self.load.block_bytes)
        for at in range(0, len(keys), step):
            with self._redis.pipeline(transaction=False) as pipeline:
                for key in keys[at : at + step]:
                    pipeline.get(key)
                values = pipeline.execute()
            for part, value in zip(parts[at : at + step], values, strict=True):
                self.load.destination[part] = value


class RedisPySet(RedisWriteRow):
    """SET out of the source's memory."""

    family = names.REDIS_PY_SET
    _redis: redis.Redis | None = None

    def __init__(self, server: Server, codec: Codec) -> None:
        super().__init__(server)
        self._codec = codec
        self.name = f"{self.family}, {codec.value}"

    async def prepare(self, load: Load) -> None:
        """Connect."""
        await super().prepare(load)
        self._redis = _connect(self.server, self._codec)

    async def run(self) -> None:
        """Write one block after the other."""
        assert self._redis is not None
        for key, part in zip(self.load.written_keys, self.load.slices, strict=True):
            self._redis.set(key, self.load.source[part])

    async def close(self) -> None:
        """Hang up."""
        if self._redis is not None:
            self._redis.close()


class RedisPyPipelinedSet(RedisPySet):
    """A few SETs at a time."""

    def __init__(self, server: Server, codec: Codec) -> None:
        super().__init__(server, codec)
        self.name = f"{self.name}, pipelined"

    async def run(self) -> None:
        """Write a few blocks at a time."""
        assert self._redis is not None
        keys, parts = self.load.written_keys, list(self.load.slices)
        step = window(self.load.block_bytes)
        for at in range(0, len(keys), step):
            with self._redis.pipeline(transaction=False) as pipeline:
                for key, part in zip(keys[at : at + step], parts[at : at + step], strict=True):
                    pipeline.set(key, self.load.source[part])
                pipeline.execute()


GET_MODES = (RedisPyGet, RedisPyPipelinedGet)
SET_MODES = (RedisPySet, RedisPyPipelinedSet)
