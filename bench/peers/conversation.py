"""What a peer answers to the bench: a mover for each row, and its calls. Not pure."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.datapath import child_side
from bench.datapath.child_side import Message


@dataclass(frozen=True, slots=True)
class Task:
    """What one row of the bench wants moved."""

    kind: str  # "read" or "write"
    block_bytes: int
    block_count: int
    path: Path  # begins with the blocks, one after the other
    redis_port: int
    threads: int

    @classmethod
    def of(cls, message: Message) -> "Task":
        """Take it from the bench's first message for a row."""
        return cls(
            kind=str(message["kind"]),
            block_bytes=_number(message, "block_bytes"),
            block_count=_number(message, "block_count"),
            path=Path(str(message["path"])),
            redis_port=_number(message, "redis_port"),
            threads=_number(message, "threads"),
        )

    @property
    def total_bytes(self) -> int:
        """Bytes of all blocks."""
        return self.block_bytes * self.block_count

    def source(self) -> bytes:
        """Read the blocks."""
        with self.path.open("rb") as file:
            return file.read(self.total_bytes)


class Mover(ABC):
    """Moves all blocks of a task between a buffer here and the peer's store."""

    store_pids: Sequence[int] = ()  # none: the peer stores in the Redis of the bench

    @abstractmethod
    def read(self) -> None:
        """Fill the buffer from the store."""

    @abstractmethod
    def write(self) -> None:
        """Store what is in the buffer."""

    @abstractmethod
    def compare(self) -> bool:
        """Whether the source's bytes are where a read or a write should have brought them."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the store."""


def converse(make: Callable[[Task], Mover]) -> None:
    """Answer the bench until it hangs up."""
    movers: dict[str, Mover] = {}

    def answer(message: Message) -> Message:
        row, what = str(message["row"]), message["do"]
        if what == "prepare":
            movers[row] = make(Task.of(message))
            return {"pids": list(movers[row].store_pids)}
        if what == "close":
            movers.pop(row).close()
            return {}
        if what == "compare":
            return {"is_done": int(movers[row].compare())}
        movers[row].write() if what == "write" else movers[row].read()
        return {}

    try:
        child_side.serve(child_side.replies(), answer)
    finally:
        for mover in movers.values():
            mover.close()


def _number(message: Message, name: str) -> int:
    value = message[name]
    assert isinstance(value, int), f"{name} is {value!r}, must be a number"
    return value
