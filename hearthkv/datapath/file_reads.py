"""
What of a file goes where in memory, and which reads of it become one system call. Pure.

Blocks that were written together lie in neighbouring slots of a slab file, so most of a prompt
is a few long runs, and a run is one `preadv` straight into the caller's memory, wherever there
its blocks go.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from hearthkv.core.direct_path import FileAddress

RUN_BYTES_MAX: Final = 8 * 1024**2
"""Bytes of one run. Past the page cache a client was up to twice as fast with it as with 2 MiB, for
no more CPU; longer runs would only keep a prompt's first blocks waiting."""

WARM_BYTES_MAX: Final = 1024**2
"""Bytes that are still in the processor's caches when the last of them was read: what is checked
then costs a fifth less than what has to be fetched again."""

RUN_PARTS_MAX: Final = 512
"""Blocks of one run: half of what Linux takes in a call."""


@dataclass(frozen=True, slots=True)
class FileRead:
    """Bytes of a file that somebody wants, and where to."""

    address: FileAddress
    into: memoryview
    """Writable bytes, as many as are wanted; at least one."""


@dataclass(frozen=True, slots=True)
class FileRun:
    """Reads that are neighbours in their file, in its order."""

    start: FileAddress
    parts: tuple[memoryview, ...]
    indexes: tuple[int, ...]
    """Which read each part was, in the order in which they were given to `runs_of`."""

    size_bytes: int
    """Bytes of all parts together."""


def runs_of(
    reads: Sequence[FileRead],
    *,
    run_bytes_max: int = RUN_BYTES_MAX,
    run_parts_max: int = RUN_PARTS_MAX,
) -> list[FileRun]:
    """
    Return the fewest runs that serve all reads, in the order of the file.

    A read of more than `run_bytes_max` is a run of its own.
    """
    if len(reads) == 1:  # as often as not, and worth no sorting
        return [_run(reads, [0], len(reads[0].into))]
    runs: list[FileRun] = []
    group: list[int] = []
    size_bytes = 0
    next_place: tuple[str, int] | None = None
    for name, offset, index in sorted(
        (read.address.name, read.address.offset, index) for index, read in enumerate(reads)
    ):
        length = len(reads[index].into)
        if group and not (
            (name, offset) == next_place
            and size_bytes + length <= run_bytes_max
            and len(group) < run_parts_max
        ):
            runs.append(_run(reads, group, size_bytes))
            group, size_bytes = [], 0
        group.append(index)
        size_bytes += length
        next_place = (name, offset + length)
    if group:
        runs.append(_run(reads, group, size_bytes))
    return runs


def beyond(parts: Sequence[memoryview], filled: int) -> list[memoryview]:
    """Return what is left of some parts when their first `filled` bytes are in place."""
    left: list[memoryview] = []
    for part in parts:
        if filled < len(part):
            left.append(part[filled:] if filled else part)
        filled = max(0, filled - len(part))
    return left


def warm_slices(
    parts: Sequence[memoryview], bytes_max: int = WARM_BYTES_MAX
) -> Iterator[tuple[slice, int]]:
    """Cut parts into slices of at most so many bytes, or of one larger part; give their bytes."""
    first, size_bytes = 0, 0
    for at, part in enumerate(parts):
        if size_bytes and size_bytes + len(part) > bytes_max:
            yield slice(first, at), size_bytes
            first, size_bytes = at, 0
        size_bytes += len(part)
    yield slice(first, None), size_bytes


class Filling:
    """
    How far a run is filled, from its start on.

    Args:
        run: The run.
        settle: Is told the place of each part in the run as soon as the part is whole.
    """

    def __init__(self, run: FileRun, settle: Callable[[int], None]) -> None:
        self.filled = 0
        self._parts = run.parts
        self._settle = settle
        self._whole = 0
        """Parts that are whole."""
        self._whole_bytes = 0

    def add(self, count: int) -> None:
        """Take note of further bytes."""
        self.filled += count
        while self._whole < len(self._parts):
            end = self._whole_bytes + len(self._parts[self._whole])
            if end > self.filled:
                break
            self._settle(self._whole)
            self._whole += 1
            self._whole_bytes = end


def _run(reads: Sequence[FileRead], group: Sequence[int], size_bytes: int) -> FileRun:
    parts = tuple([reads[index].into for index in group])
    return FileRun(reads[group[0]].address, parts, tuple(group), size_bytes)
