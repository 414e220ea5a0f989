"""Rows of other caches: their client runs in an environment of its own. Not pure."""

from collections.abc import Sequence
from contextlib import suppress

from bench.datapath.child_side import Message
from bench.datapath.load import Load
from bench.datapath.peer_process import PeerProcess
from bench.datapath.row import Group, Row, RowUnavailableError
from bench.datapath.servers import Server

ONE_THREAD = 1


class PeerRow(Row):
    """
    Asks a program in `bench/peers` to move the blocks between its own memory and its store.

    The program is told the load once and says which processes belong to its store; then it moves
    all blocks each time that it is asked.
    """

    load: Load

    def __init__(
        self,
        family: str,
        group: Group,
        *,
        process: PeerProcess,
        server: Server,
        threads: int = ONE_THREAD,
    ) -> None:
        self.name = family if threads == ONE_THREAD else f"{family}, {threads} threads"
        self.family = family
        self.group = group
        self._process = process
        self._server = server
        self._threads = threads
        self._store_pids: list[int] = []

    @property
    def pids(self) -> Sequence[int]:
        """The peer's client, and its store."""
        return (*self._process.pids, *self._store_pids)

    async def prepare(self, load: Load) -> None:
        """Tell the peer about the load, and let it get ready."""
        answer = await self._ask(
            "prepare",
            kind=self._kind,
            block_bytes=load.block_bytes,
            block_count=load.block_count,
            path=str(load.path),
            redis_port=self._server.port,
            threads=self._threads,
        )
        pids = answer["pids"]
        assert isinstance(pids, list)
        # A peer without a store of its own stores in the bench's server.
        self._store_pids = pids or [self._server.pid]

    async def run(self) -> None:
        """Let it move all blocks."""
        await self._ask(self._kind)

    async def is_done(self) -> bool:
        """Whether the peer has found the source's bytes where they should be."""
        return (await self._ask("compare"))["is_done"] == 1

    async def close(self) -> None:
        """Let go of the store, if the peer still lives."""
        if self._store_pids:
            with suppress(RowUnavailableError):
                await self._ask("close")

    @property
    def _kind(self) -> str:
        return "write" if self.group is Group.DRAM_WRITE else "read"

    async def _ask(self, what: str, **more: int | str) -> Message:
        return await self._process.ask({"row": self.name, "do": what, **more})
