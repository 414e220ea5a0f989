"""Makes samples, rows and panels for the tests of the bench."""

from bench.datapath.figures import RowFigures, Sample, row_figures
from bench.datapath.load import MIB
from bench.datapath.report import Panel


def sample(cpu_s_per_gb: float, gb_per_s: float = 1.0, growth: int = 0) -> Sample:
    """One GB; a quarter of the CPU in the bench's own process."""
    return Sample(10**9, 1 / gb_per_s, 0.25 * cpu_s_per_gb, 0.75 * cpu_s_per_gb, growth)


def row(family: str, cpu: float, speed: float = 1.0, *, mode: str = "") -> RowFigures:
    return row_figures(f"{family}{mode}", family, "DRAM read", [sample(cpu, speed)])


def panel(
    *rows: RowFigures,
    block_bytes: int = MIB,
    server: str = "redis",
    unavailable: dict[str, str] | None = None,
) -> Panel:
    return Panel(
        server=server,
        server_title="Redis 7",
        block_bytes=block_bytes,
        block_count=4,
        rows=rows,
        samples={each.name: [sample(each.cpu_s_per_gb, each.gb_per_s)] for each in rows},
        unavailable=unavailable or {},
    )
