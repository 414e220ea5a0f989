"""The stores of one node on this host, open for one event loop. Not pure."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hearthkv.client.direct_calls import DirectCalls
from hearthkv.client.read_threads import ReadThreads
from hearthkv.core.direct_path import Attachment
from hearthkv.core.errors import (
    DirectPathError,
    HearthKVError,
    RespError,
    SettingsError,
    StoreUnavailableError,
)
from hearthkv.datapath.file_reader import FileReader
from hearthkv.datapath.redis_names import RedisNames, epoch_value
from hearthkv.datapath.redis_place import RedisPlace, parse_place
from hearthkv.datapath.resp_pool import RespPool
from hearthkv.datapath.resp_wire import Request


class DirectStores:
    """
    The way to a node's stores for as long as that start of the node lasts.

    Args:
        node: Its calls.
        proof: Opens the node's calls; a secret.
        attachment: What the node told.
        threads: Where files are read.

    Raises:
        DirectPathError: If the node names a server or its folder in a way that can't be used.
    """

    def __init__(
        self, node: DirectCalls, proof: bytes, attachment: Attachment, threads: ReadThreads
    ) -> None:
        self.node = node
        self.proof = proof
        self.threads = threads
        self.is_closed = False
        self._users = 0
        self.epoch = attachment.epoch
        self.names = RedisNames(attachment.node_id)
        try:
            self.places: list[RedisPlace] = [parse_place(url) for url in attachment.redis_urls]
        except SettingsError as error:
            raise DirectPathError(str(error)) from error
        self.has_files = bool(attachment.ssd_dir)
        if self.has_files and not Path(attachment.ssd_dir).is_absolute():
            raise DirectPathError(f"ssd_dir is {attachment.ssd_dir!r}, must be absolute or empty")
        self.pools = [RespPool(place) for place in self.places]
        self.files = FileReader(Path(attachment.ssd_dir), is_direct=attachment.is_direct_io)

    async def check_epoch(self) -> None:
        """
        See that each Redis server is the node's, and was filled by this start of it.

        Raises:
            DirectPathError: If one is not, or does not answer.
        """
        for place, pool in zip(self.places, self.pools, strict=True):
            await self._check_server(place, pool)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Frame every use; what was retired meanwhile is closed when the last one ends."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            if self.is_closed and not self._users:
                self.close()

    def retire(self) -> None:
        """Close once nobody uses it any more: what is under way may end in peace."""
        self.is_closed = True
        if not self._users:
            self.close()

    def close(self) -> None:
        """Close connections and files; what is under way fails. May be called again."""
        self.is_closed = True
        for pool in self.pools:
            pool.close()
        self.files.close()

    async def _check_server(self, place: RedisPlace, pool: RespPool) -> None:
        request = Request((b"GET", self.names.epoch))
        try:
            await pool.run([request], lambda _, __: None)
        except (OSError, RespError, StoreUnavailableError) as error:
            raise DirectPathError(f"{place} can't be reached from here: {error}") from error
        if isinstance(request.reply, HearthKVError):
            raise DirectPathError(f"{place} does not tell its epoch: {request.reply}")
        if request.reply != epoch_value(self.epoch):
            raise DirectPathError(
                f"{place} has epoch {request.reply!r}, must have {epoch_value(self.epoch)!r}"
            )
