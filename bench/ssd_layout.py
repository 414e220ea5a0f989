"""
Slab files against one file a block: `python -m bench.ssd_layout`.

Both layouts do all that a store must: frames or entries, checksums, names. One thread each, so
that the layout is measured and not the machine's cores, and in turns, so that both meet the same
noise. Beside them, what nothing can beat: one plain file, read and hashed. Prints a table, writes
`ssd_layout.json` and `ssd_layout.png`.
"""

import argparse
import gc
import hashlib
import json
import mmap
import os
import platform
import random
import resource
import shutil
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Protocol

from matplotlib.figure import Figure
from rich import box
from rich.console import Console
from rich.table import Table

from bench.file_per_block import FilePerBlock
from cachenode.disk import Disk
from cachenode.slab_files import SlabFiles
from cachenode.store import CopyRead, CopyWrite
from hearthkv.core.block_frame import BlockFrame
from hearthkv.core.checksum import block_checksum
from hearthkv.core.clock import SystemClock
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.tier import Tier
from hearthkv.datapath.file_reader import FileReader
from hearthkv.datapath.file_reads import FileRead, runs_of

MIB = 1024**2
SIZES = (64 * 1024, 4 * MIB)
LAYOUTS = ("file a block", "slab files", "plain file")
COLOURS = ("#b0b0b0", "#14476b", "#e0a030")
BATCH_BYTES = 8 * MIB  # what a demotion moves, and a prompt reads, at once
SCAN_BLOCKS = 100_000  # what recovery is told for


class Layout(Protocol):
    """What is compared."""

    def write(self, writes: Sequence[CopyWrite]) -> None:
        """Write a batch of blocks."""

    def read(self, reads: Sequence[CopyRead]) -> None:
        """Read a batch of blocks, and check them."""

    def scan(self) -> Sequence[BlockFrame]:
        """Find all blocks, as a node does that starts."""
        ...

    def erase(self, frames: Sequence[BlockFrame]) -> None:
        """Remove blocks."""

    def close(self) -> None:
        """Close all files."""


class Slabs:
    """The product's slab files, as the threads of its store use them."""

    def __init__(self, folder: Path, *, is_direct: bool) -> None:
        reader = FileReader(folder, is_direct=is_direct)
        self._files = SlabFiles(Disk(folder), reader, limit_bytes=1 << 40)

    def write(self, writes: Sequence[CopyWrite]) -> None:
        """Write a batch of blocks, next to each other."""
        assert not any(self._files.write(writes, threading.Event()))

    def read(self, reads: Sequence[CopyRead]) -> None:
        """Read a batch of blocks by runs, and check each."""
        addresses = self._files.locate([read.ref for read in reads])
        found = zip(addresses, reads, strict=True)
        for run in runs_of([FileRead(address, read.into) for address, read in found if address]):
            assert self._files.reader.read(run) == run.size_bytes
            for index in run.indexes:
                ref = reads[index].ref
                found_sum = block_checksum(ref.namespace_id, ref.key, reads[index].into)
                assert found_sum == ref.checksum

    def scan(self) -> Sequence[BlockFrame]:
        """Read all tables."""
        found = [frame for name in self._files.begin_scan() for frame in self._files.scan(name)[0]]
        self._files.end_scan()
        return found

    def erase(self, frames: Sequence[BlockFrame]) -> None:
        """Zero the entries of blocks; slabs without a block go."""
        self._files.erase([frame.ref(Tier.SSD) for frame in frames])

    def close(self) -> None:
        """Close all files."""
        self._files.close()


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement: seconds by the clock and of CPU, for all blocks of a size."""

    elapsed_s: float
    cpu_s: float


class Bench:
    """Blocks of one size, and what each layout took for them."""

    def __init__(self, home: Path, size_bytes: int, total_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.count = total_bytes // size_bytes
        self.samples: dict[tuple[str, str], list[Sample]] = defaultdict(list)
        self._home = home
        self._clock = SystemClock()
        self._spec = NamespaceSpec(b"n" * 16, 16, size_bytes)
        payload = random.Random(size_bytes).randbytes(size_bytes)
        self._frames = []
        for number in range(self.count):
            key = hashlib.blake2b(number.to_bytes(8, "big"), digest_size=16).digest()
            checksum = block_checksum(self._spec.namespace_id, key, payload)
            self._frames.append(BlockFrame(self._spec, key, b"", checksum, number + 1))
        self._writes = [CopyWrite(frame, payload) for frame in self._frames]
        self._batch = max(1, BATCH_BYTES // size_bytes)
        memory = memoryview(mmap.mmap(-1, self._batch * size_bytes))
        memory[:] = bytes(len(memory))  # the pages are there before the first read
        self._into = [memory[at * size_bytes : (at + 1) * size_bytes] for at in range(self._batch)]
        # Single blocks in no order, as a policy that promotes or a short match wants them.
        self._shuffled = random.Random(1).sample(self._frames, self.count)

    def round(self) -> None:
        """Measure everything once, the layouts in turns."""
        for name, kind in (("file a block", FilePerBlock), ("slab files", Slabs)):
            self._measure_layout(name, kind)
        self._measure_plain()

    def _measure_layout(self, name: str, kind: Callable[..., Layout]) -> None:
        folder = Path(tempfile.mkdtemp(dir=self._home))
        layout = kind(folder, is_direct=False)
        with self._timed(name, "write"):
            for at in range(0, self.count, self._batch):
                layout.write(self._writes[at : at + self._batch])
        self._read(layout, self._frames, self._batch)  # so that all of it is warm
        with self._timed(name, "cached, a prompt"):
            self._read(layout, self._frames, self._batch)
        with self._timed(name, "cached, one by one"):
            self._read(layout, self._shuffled, 1)
        layout.close()
        os.sync()
        direct = kind(folder, is_direct=True)
        direct.scan()
        with self._timed(name, "O_DIRECT, a prompt"):
            self._read(direct, self._frames, self._batch)
        with self._timed(name, "O_DIRECT, one by one"):
            self._read(direct, self._shuffled, 1)
        direct.close()
        again = kind(folder, is_direct=False)
        with self._timed(name, "scan"):
            assert len(again.scan()) == self.count
        with self._timed(name, "erase"):
            again.erase(self._frames)
        again.close()
        shutil.rmtree(folder)

    def _read(self, layout: Layout, frames: Sequence[BlockFrame], batch: int) -> None:
        for at in range(0, len(frames), batch):
            some = frames[at : at + batch]
            into = self._into[: len(some)]
            reads = [
                CopyRead(frame.ref(Tier.SSD), part) for frame, part in zip(some, into, strict=True)
            ]
            layout.read(reads)

    def _measure_plain(self) -> None:
        """One file with the payloads alone, in runs, hashed: the floor of both layouts."""
        path = self._home / "plain"
        payload, size = self._writes[0].payload, self.size_bytes
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        with self._timed("plain file", "write"):
            for at in range(0, self.count, self._batch):
                some = min(self._batch, self.count - at)
                assert os.pwritev(descriptor, [payload] * some, at * size) == some * size
        self._read_plain(descriptor)
        with self._timed("plain file", "cached, a prompt"):
            self._read_plain(descriptor)
        os.close(descriptor)
        os.sync()
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
        with self._timed("plain file", "O_DIRECT, a prompt"):
            self._read_plain(descriptor)
        os.close(descriptor)
        path.unlink()

    def _read_plain(self, descriptor: int) -> None:
        for at in range(0, self.count, self._batch):
            into = self._into[: min(self._batch, self.count - at)]
            filled = os.preadv(descriptor, into, at * self.size_bytes)
            assert filled == len(into) * self.size_bytes
            for frame, part in zip(self._frames[at:], into, strict=False):
                assert block_checksum(self._spec.namespace_id, frame.key, part) == frame.checksum

    def _timed(self, layout: str, step: str) -> "_Timed":
        return _Timed(self._clock, self.samples[layout, step])


class _Timed:
    """Notes what its body took."""

    def __init__(self, clock: SystemClock, samples: list[Sample]) -> None:
        self._clock = clock
        self._samples = samples

    def __enter__(self) -> None:
        self._started_s, self._started_cpu_s = self._clock.now(), _cpu_s()

    def __exit__(self, *_: object) -> None:
        self._samples.append(
            Sample(self._clock.now() - self._started_s, _cpu_s() - self._started_cpu_s)
        )


@dataclass(frozen=True, slots=True)
class Row:
    """One step of one layout at one size: medians over the rounds."""

    size_bytes: int
    step: str
    layout: str
    gb_per_s: float
    cpu_s_per_gb: float
    s_per_100k_blocks: float


def main() -> int:
    """Run the bench."""
    parser = argparse.ArgumentParser(prog="bench.ssd_layout", description=__doc__)
    parser.add_argument("--mib", type=int, default=256, help="bytes a size and layout, in MiB")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=None, help="on the disk to be measured")
    parser.add_argument("--output", type=Path, default=Path("out"))
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=given.folder or given.output) as home:
        benches = [Bench(Path(home), size, given.mib * MIB) for size in SIZES]
        gc.freeze()  # a collection of what the bench itself has loaded is nobody's cost
        for _ in range(given.rounds):
            for bench in benches:
                bench.round()
    rows = [row for bench in benches for row in rows_of(bench)]
    Console().print(table_of(rows))
    draw(rows, given.output / "ssd_layout.png")
    report = {
        "command": "python -m bench.ssd_layout " + " ".join(sys.argv[1:]),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}",
        "rows": [{name: getattr(row, name) for name in Row.__slots__} for row in rows],
    }
    (given.output / "ssd_layout.json").write_text(json.dumps(report, indent=2) + "\n")
    return 0


def rows_of(bench: Bench) -> Iterator[Row]:
    """Give the medians of a bench."""
    gb = bench.size_bytes * bench.count / 1e9
    for (layout, step), samples in bench.samples.items():
        elapsed_s = median(sample.elapsed_s for sample in samples)
        yield Row(
            bench.size_bytes,
            step,
            layout,
            gb / elapsed_s,
            median(sample.cpu_s for sample in samples) / gb,
            elapsed_s / bench.count * SCAN_BLOCKS,
        )


def table_of(rows: Sequence[Row]) -> Table:
    """Return a row a step and size, with both layouts and their ratio."""
    table = Table(
        title="GB/s (CPU s/GB); scan and erase: s for 100,000 blocks (CPU s)",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        caption="ratio: time of a file a block over time of slab files",
        caption_justify="left",
    )
    for name in ("block", "step", *LAYOUTS, "ratio"):
        table.add_column(name, justify="left" if name == "step" else "right")
    for (size, step), mine in _by_step(rows).items():
        faster = mine[LAYOUTS[0]].s_per_100k_blocks / mine[LAYOUTS[1]].s_per_100k_blocks
        cells = (_cell(mine.get(layout)) for layout in LAYOUTS)
        table.add_row(f"{size // 1024} KiB", step, *cells, f"{faster:.2f}")
    return table


def draw(rows: Sequence[Row], path: Path) -> None:
    """Write a picture: a panel a size, a group of bars a step, longer is better."""
    figure = Figure(figsize=(10, 4.8), layout="constrained")
    figure.suptitle(
        "Slab files against one file a block: speed, longer is better", x=0.01, ha="left"
    )
    for axes, size in zip(figure.subplots(1, len(SIZES), sharey=True), SIZES, strict=True):
        steps = {step: mine for (of, step), mine in _by_step(rows).items() if of == size}
        steps = {step: mine for step, mine in steps.items() if not _is_counted(step)}
        for at, (layout, colour) in enumerate(zip(LAYOUTS, COLOURS, strict=True)):
            places = [
                place + 0.27 * at for place, mine in enumerate(steps.values()) if layout in mine
            ]
            speeds = [mine[layout].gb_per_s for mine in steps.values() if layout in mine]
            bars = axes.barh(places, speeds, 0.25, color=colour, label=layout)
            axes.bar_label(bars, fmt="%.2f", padding=2, fontsize=8)
        axes.set_yticks([place + 0.27 for place in range(len(steps))], steps)
        axes.set_title(f"blocks of {size // 1024} KiB", loc="left", fontsize=10)
        axes.set_xlabel("GB/s")
        axes.margins(x=0.12)
        axes.spines[["top", "right"]].set_visible(False)
    axes.invert_yaxis()
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(path, format="png", dpi=110)


def _by_step(rows: Sequence[Row]) -> dict[tuple[int, str], dict[str, Row]]:
    steps: dict[tuple[int, str], dict[str, Row]] = defaultdict(dict)
    for row in rows:
        steps[row.size_bytes, row.step][row.layout] = row
    return steps


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    if _is_counted(row.step):
        cpu_s = row.cpu_s_per_gb * row.size_bytes * SCAN_BLOCKS / 1e9
        return f"{row.s_per_100k_blocks:.1f} ({cpu_s:.1f})"
    return f"{row.gb_per_s:.2f} ({row.cpu_s_per_gb:.2f})"


def _is_counted(step: str) -> bool:
    """Whether a step costs by the block and not by the byte."""
    return step in {"scan", "erase"}


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    sys.exit(main())
