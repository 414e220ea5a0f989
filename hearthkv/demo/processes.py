"""
Server processes of a local cluster: start, wait until they serve, stop, and never leave one.

All processes of a cluster are in one process group, led by a watchdog that reads a pipe whose
other end is held here. When this process ends, however it ends, the kernel closes that end, and
the watchdog ends the group: SIGTERM, then SIGKILL after a grace. Linux' PR_SET_PDEATHSIG was not
chosen: it follows the thread that forked rather than the process, needs code between fork and
exec, and exists on Linux only. A group of their own also keeps a Ctrl-C in the terminal from
reaching the servers before this process can stop them in order.
"""

import asyncio
import os
import signal
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from hearthkv.core.errors import StartupError
from hearthkv.demo.cluster_plan import ProcessSpec

LOG_TAIL_LINES = 12

EXIT_STARTUP_TROUBLE = 2
"""Exit code of a server that has said in one line why it can't start."""

# $1: seconds of grace; $2: a folder of the cluster's to remove. `kill 0` means the group, and
# the shell itself outlives its own SIGTERM.
_WATCHDOG = """
trap '' TERM INT HUP
read -r _
kill -TERM 0
sleep "$1"
rm -rf "$2"
kill -KILL 0
"""


class WatchedGroup:
    """
    A process group that ends when this process does; an async context manager.

    Args:
        grace_s: Seconds between SIGTERM and SIGKILL.
        folder: Removed by the watchdog, if this process dies and can't do so any more.
    """

    def __init__(self, grace_s: float, folder: Path) -> None:
        self._arguments = (f"{grace_s:g}", str(folder))
        self._watchdog: asyncio.subprocess.Process | None = None

    @property
    def group_id(self) -> int:
        """Id to start the members with. It stays taken while the watchdog lives."""
        assert self._watchdog is not None, "the group is open"
        return self._watchdog.pid

    async def __aenter__(self) -> Self:
        self._watchdog = await asyncio.create_subprocess_exec(
            *("/bin/sh", "-c", _WATCHDOG, "hearthkv-watchdog", *self._arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            process_group=0,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        """Kill what is left of the group, which is the watchdog alone after a clean stop."""
        assert self._watchdog is not None
        with suppress(ProcessLookupError):
            os.killpg(self.group_id, signal.SIGKILL)
        await self._watchdog.wait()


class ServerProcess:
    """One running server. Its output goes to a log file."""

    def __init__(
        self, spec: ProcessSpec, process: asyncio.subprocess.Process, log_path: Path
    ) -> None:
        self.spec = spec
        self._process = process
        self._log_path = log_path
        self._is_ready = asyncio.Event()
        self._output = asyncio.create_task(self._copy_output())

    @classmethod
    async def start(cls, spec: ProcessSpec, group: WatchedGroup, log_path: Path) -> "ServerProcess":
        """
        Start a server. Its log is appended to, so that a restart doesn't hide what was before.

        Raises:
            StartupError: If the program can't be started at all.
        """
        with log_path.open("ab") as log:
            try:
                process = await asyncio.create_subprocess_exec(
                    *spec.command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=log,
                    process_group=group.group_id,
                )
            except OSError as error:
                raise StartupError(
                    f"{spec.name} can't be started: {spec.command[0]}: {error.strerror}"
                ) from error
        return cls(spec, process, log_path)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.returncode

    async def wait(self) -> int:
        """Wait until the server ends, and return its exit code."""
        return await self._process.wait()

    async def wait_ready(self, timeout_s: float) -> None:
        """
        Wait until the server serves.

        Raises:
            StartupError: If it ends before, or takes too long; with the end of its log.
        """
        ready = asyncio.create_task(self._is_ready.wait())
        try:
            await asyncio.wait(
                {ready, self._output}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            ready.cancel()
        if self._is_ready.is_set():
            return
        if not self._output.done():
            raise StartupError(
                f"{self.spec.name} does not serve after {timeout_s:g} s{self._log_end()}"
            )
        code = await self._process.wait()
        if code == EXIT_STARTUP_TROUBLE and (last := self._log_tail(1)):
            raise StartupError(f"{self.spec.name} can't start: {last[0]}")
        raise StartupError(f"{self.spec.name} ended with code {code}{self._log_end()}")

    async def stop(self, grace_s: float) -> None:
        """End the server: SIGTERM, then SIGKILL if it still runs after the grace."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.terminate()
            try:
                await asyncio.wait_for(self._process.wait(), grace_s)
            except TimeoutError:
                await self.kill()
        await self._output

    async def kill(self) -> None:
        """End the server at once, by SIGKILL."""
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await self._output

    async def _copy_output(self) -> None:
        assert self._process.stdout is not None
        with self._log_path.open("ab", buffering=0) as log:
            async for line in self._process.stdout:
                log.write(line)
                if self.spec.ready_mark.encode() in line:
                    self._is_ready.set()

    def _log_end(self) -> str:
        tail = "\n".join(f"  {line}" for line in self._log_tail(LOG_TAIL_LINES))
        return f"; the end of {self._log_path}:\n{tail}" if tail else "; its log is empty"

    def _log_tail(self, lines: int) -> Sequence[str]:
        with self._log_path.open(encoding="utf-8", errors="replace") as log:
            return [line.rstrip() for line in deque((row for row in log if row.strip()), lines)]
