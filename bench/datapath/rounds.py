"""Measures rows in turns: a round is every row once, and odd rounds go backwards. Not pure."""

import gc
import os
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from bench.datapath import usage
from bench.datapath.figures import Sample
from bench.datapath.load import Load
from bench.datapath.row import Row, RowUnavailableError


class WrongBytesError(Exception):
    """A row said that it was done, and the bytes are not where they should be."""


@dataclass(slots=True)
class Measured:
    """What came of some rows and a load."""

    samples: dict[str, list[Sample]] = field(default_factory=dict)  # by name of the row
    unavailable: dict[str, str] = field(default_factory=dict)  # why, by name of the row


async def measure(rows: Sequence[Row], load: Load, *, rounds: int) -> Measured:
    """
    Prepare all rows, warm each up, and let them take turns.

    Raises:
        WrongBytesError: If a row did not move the bytes that it should have.
    """
    measured = Measured()
    ready: list[Row] = []
    async with AsyncExitStack() as stack:
        for row in rows:
            stack.push_async_callback(row.close)
            try:
                await row.prepare(load)
                await _warm_up(row, load)
            except RowUnavailableError as error:
                measured.unavailable[row.name] = str(error)
            else:
                ready.append(row)
                measured.samples[row.name] = []
        for index in range(rounds):
            for row in list(ready) if index % 2 == 0 else list(reversed(ready)):
                try:
                    measured.samples[row.name].append(await _sample(row, load))
                except RowUnavailableError as error:
                    # It was there and is no more: what it did before is no full measurement.
                    ready.remove(row)
                    del measured.samples[row.name]
                    measured.unavailable[row.name] = str(error)
    return measured


async def _warm_up(row: Row, load: Load) -> None:
    load.clear()
    await row.run()
    if not await row.is_done():
        size = f"{load.block_count} blocks of {load.block_bytes} bytes"
        raise WrongBytesError(f"{row.name}: {size} are not where they should be")
    # Twice: an allocator that gives memory back does so after the first.
    await row.run()


async def _sample(row: Row, load: Load) -> Sample:
    # A collection that a row before brought about is not to fall upon this one.
    gc.collect()
    own, others = os.getpid(), row.pids
    usage.restart_peak((own, *others))
    resident = usage.resident_bytes((own, *others))
    others_before = sum(usage.cpu_s(pid) for pid in others)
    own_before = usage.cpu_s(own)
    started = time.perf_counter()
    await row.run()
    elapsed_s = time.perf_counter() - started
    own_s = usage.cpu_s(own) - own_before
    others_s = sum(usage.cpu_s(pid) for pid in others) - others_before
    # The kernel counts resident pages loosely, so that a peak may seem to lie below.
    growth = max(0, usage.peak_bytes((own, *others)) - resident)
    return Sample(load.total_bytes, elapsed_s, own_s, others_s, growth)
