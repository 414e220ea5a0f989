"""The parent's side of a conversation with a child process (see `child_side.py`). Not pure."""

import asyncio
import json
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from bench.datapath.child_side import Message
from bench.datapath.row import RowUnavailableError

ROOT = Path(__file__).resolve().parents[2]
ANSWER_S = 120.0
END_S = 10.0
TOLD_CHARS = 300


class ChildProcess:
    """A process that answers a line with a line, and ends when its stdin does."""

    def __init__(self, process: Process, log_path: Path) -> None:
        self._process = process
        self._log_path = log_path

    @classmethod
    async def start(
        cls, *command: str | Path, log_path: Path, env: Mapping[str, str] | None = None
    ) -> Self:
        """Start it in the repository's root; stderr goes to the log."""
        with log_path.open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=PIPE, stdout=PIPE, stderr=log, cwd=ROOT, env=env
            )
        return cls(process, log_path)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    async def ask(self, message: Message) -> Message:
        """
        Send one line and return the answer.

        Raises:
            RowUnavailableError: If the child ended, or does not answer in time.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        return await self.listen()

    async def listen(self) -> Message:
        """
        Return the next line that the child says.

        Raises:
            RowUnavailableError: If the child ended, or says nothing in time.
        """
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(ANSWER_S):
                line = await self._process.stdout.readline()
        except TimeoutError as error:
            raise RowUnavailableError(f"no answer in {ANSWER_S:.0f} s") from error
        if not line:
            raise RowUnavailableError(f"ended: {self._last_words()}")
        answer: Message = json.loads(line)
        return answer

    async def close(self) -> None:
        """End it: by the end of its stdin, or else at once."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(END_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    def _last_words(self) -> str:
        lines = self._log_path.read_text(errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return said[-1][-TOLD_CHARS:] if said else "without a word"
