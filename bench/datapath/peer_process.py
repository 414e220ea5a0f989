"""The process of a peer: started when it is first asked, kept for the whole run. Not pure."""

from pathlib import Path

from bench.datapath.child_process import ChildProcess
from bench.datapath.child_side import Message
from bench.datapath.row import RowUnavailableError

PEERS = ("lmcache", "mooncake")
"""Each has a program `bench/peers/NAME_peer.py`."""


class PeerProcess:
    """Another cache's client, in an environment of its own."""

    def __init__(self, name: str, python: Path | None, folder: Path) -> None:
        self._name = name
        self._python = python
        self._log_path = folder / f"{name}.log"
        self._child: ChildProcess | None = None

    @property
    def pids(self) -> tuple[int, ...]:
        """Its process id, once it was asked something."""
        return () if self._child is None else (self._child.pid,)

    async def ask(self, message: Message) -> Message:
        """
        Send one message and return the answer.

        Raises:
            RowUnavailableError: If no interpreter was given, or the peer fails.
        """
        if self._python is None:
            raise RowUnavailableError(f"no --peer-python {self._name}=PATH was given")
        if self._child is None:
            command = (self._python, "-m", f"bench.peers.{self._name}_peer")
            self._child = await ChildProcess.start(*command, log_path=self._log_path)
        return await self._child.ask(message)

    async def close(self) -> None:
        """End it."""
        if self._child is not None:
            await self._child.close()
