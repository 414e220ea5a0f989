"""
How long a node takes to find its blocks again: `python -m bench.recovery`.

Fills a Redis and a folder of slab files with blocks, forgets them, and lets the code that a
starting node runs find them. A start reads frames and tables alone, so the blocks are small; their
size does not matter. Prints a table, writes `recovery.json` and `recovery.png`.
"""

import argparse
import asyncio
import json
import logging
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import redis
from matplotlib.figure import Figure
from rich import box
from rich.console import Console
from rich.table import Table

from bench.datapath.servers import Server, running, server_kinds
from cachenode.catalog import Catalog
from cachenode.disk import Disk
from cachenode.dram_store import DramStore
from cachenode.eviction import policy_named
from cachenode.plans import TierLimits
from cachenode.recovery import Recovery
from cachenode.slab_files import SlabFiles
from cachenode.ssd_store import SsdStore
from cachenode.store import BlockStore, CopyWrite
from hearthkv.core.block_frame import BlockFrame
from hearthkv.core.checksum import block_checksum
from hearthkv.core.clock import SystemClock
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.session_id import NodeId
from hearthkv.core.tier import Tier
from hearthkv.datapath.file_reader import FileReader
from hearthkv.telemetry import NoMeters, Telemetry

SPEC = NamespaceSpec(b"recovery" * 2, 16, 1024)
PROMPT_BLOCKS = 500
BATCH_BLOCKS = 250
ROUNDS = 3
GOAL_S = 2.0
"""Seconds for 100,000 blocks."""

LIMIT_BYTES = 1 << 40
TABLE_BYTES_MAX = 8 * 1024 * 1024
"""What a slab has before its payloads, at most."""

DEADLINE_S = 60.0


@dataclass(frozen=True, slots=True)
class Row:
    """The medians of one place, in seconds."""

    place: str
    blocks: int
    bare_s: float
    """Reading what a scan must read, by the shortest way: SCAN alone, or the tables alone."""

    recovery_s: float
    per_100k_s: float


def main() -> int:
    """Run the bench."""
    parser = argparse.ArgumentParser(prog="bench.recovery", description=__doc__)
    parser.add_argument("--blocks", type=int, default=100_000)
    parser.add_argument("--output", type=Path, default=Path("out"))
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    rows = asyncio.run(measure(given.blocks))
    Console().print(table_of(rows))
    draw(rows, given.output / "recovery.png")
    report = {
        "command": "python -m bench.recovery " + " ".join(sys.argv[1:]),
        "goal_per_100k_s": GOAL_S,
        "rows": [asdict(row) for row in rows],
    }
    (given.output / "recovery.json").write_text(json.dumps(report, indent=2) + "\n")
    return 0


async def measure(blocks: int) -> list[Row]:
    """Fill and find, for each kind of server, for the disk, and for both together."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="hkv-recovery-") as name:
        folder = Path(name)
        ssd = folder / "ssd"
        ssd.mkdir()
        await _fill(_ssd_store(ssd), range(blocks, 2 * blocks))
        rows.append(await _row("SSD slab files", {Tier.SSD: ssd}, None, blocks))
        for kind in (kind for kind in server_kinds() if kind.key != "redis-kept"):
            with running(kind, folder) as server:
                await _fill(_dram_store(server), range(blocks))
                rows.append(await _row(kind.title, {}, server, blocks))
                both = f"{kind.title} and SSD, as many in each"
                rows.append(await _row(both, {Tier.SSD: ssd}, server, 2 * blocks))
    return rows


async def _row(place: str, folders: Mapping[Tier, Path], server: Server | None, blocks: int) -> Row:
    bare, full = [], []
    for _ in range(ROUNDS):
        bare.append(_bare_s(folders, server))
        full.append(await _recovery_s(folders, server, blocks))
    recovery_s = statistics.median(full)
    return Row(place, blocks, statistics.median(bare), recovery_s, recovery_s * 100_000 / blocks)


async def _recovery_s(folders: Mapping[Tier, Path], server: Server | None, blocks: int) -> float:
    stores: dict[Tier, BlockStore] = {tier: _ssd_store(at) for tier, at in folders.items()}
    if server is not None:
        stores[Tier.DRAM] = _dram_store(server)
    limits = TierLimits(LIMIT_BYTES)
    catalog = Catalog(
        dram=limits,
        ssd=limits,
        offload_threshold=0.85,
        policy=policy_named("lru_with_media_priority"),
    )
    clock = SystemClock()
    telemetry = Telemetry(logging.getLogger("bench"), NoMeters())
    recovery = Recovery(catalog, stores, clock=clock, telemetry=telemetry)
    started_s = clock.now()
    await recovery.restore_all()
    took_s = clock.now() - started_s
    assert sum(usage.blocks for usage in catalog.usage()) == blocks
    for store in stores.values():
        await store.close()
    return took_s


def _bare_s(folders: Mapping[Tier, Path], server: Server | None) -> float:
    clock = SystemClock()
    started_s = clock.now()
    for folder in folders.values():
        for slab in folder.glob("*.slab"):
            with slab.open("rb") as file:
                file.read(TABLE_BYTES_MAX)
    if server is not None:
        with redis.Redis(unix_socket_path=str(server.socket_path)) as client:
            for _ in client.scan_iter(count=2000):
                pass
    return clock.now() - started_s


async def _fill(store: BlockStore, numbers: Sequence[int]) -> None:
    await store.check()
    for at in range(0, len(numbers), BATCH_BLOCKS):
        outcomes = await store.put(list(_writes(numbers[at : at + BATCH_BLOCKS])))
        assert not any(outcomes), outcomes
    await store.close()


def _writes(numbers: Sequence[int]) -> Iterator[CopyWrite]:
    for number in numbers:
        key = number.to_bytes(16, "big")
        parent_key = (number - 1).to_bytes(16, "big") if number % PROMPT_BLOCKS else b""
        payload = key * (SPEC.block_bytes // len(key))
        checksum = block_checksum(SPEC.namespace_id, key, payload)
        yield CopyWrite(BlockFrame(SPEC, key, parent_key, checksum, number + 1), payload)


def _dram_store(server: Server) -> DramStore:
    url = f"unix://{server.socket_path}"
    return DramStore([url], node_id=NodeId("bench"), epoch=1, deadline_s=DEADLINE_S)


def _ssd_store(folder: Path) -> SsdStore:
    reader = FileReader(folder, is_direct=False)
    files = SlabFiles(Disk(folder), reader, limit_bytes=LIMIT_BYTES)
    return SsdStore(files, deadline_s=DEADLINE_S)


def table_of(rows: Sequence[Row]) -> Table:
    """Return a row a place."""
    table = Table(title="Finding blocks again, seconds", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("where")
    for heading in ("blocks", "bare scan", "recovery", "per 100,000", f"goal {GOAL_S:g}"):
        table.add_column(heading, justify="right")
    for row in rows:
        verdict = "met" if row.per_100k_s <= GOAL_S else "missed"
        figures = (row.bare_s, row.recovery_s, row.per_100k_s)
        table.add_row(row.place, f"{row.blocks:,}", *(f"{each:.2f}" for each in figures), verdict)
    return table


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw seconds per 100,000 blocks, a bar a place."""
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    axes = figure.subplots()
    places = [row.place for row in rows][::-1]
    axes.barh(places, [row.per_100k_s for row in rows][::-1], color="#14476b", label="recovery")
    bare = [row.bare_s * 100_000 / row.blocks for row in rows][::-1]
    axes.barh(places, bare, height=0.35, color="#e0a030", label="bare scan")
    axes.axvline(GOAL_S, color="#9c2f2f", linestyle="--", label="goal")
    axes.set_xlabel("seconds per 100,000 blocks")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    sys.exit(main())
