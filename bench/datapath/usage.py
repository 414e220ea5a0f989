"""What processes have used: CPU time to the nanosecond, and memory. Linux only, not pure."""

import re
import time
from collections.abc import Iterable
from pathlib import Path

KIB = 1024


def cpu_s(pid: int) -> float:
    """
    Return user and system time of a process, all of its threads included.

    By the clock of that process (see clock_getcpuclockid), since `/proc/PID/stat` counts in ticks
    of 10 ms and `/proc/PID/schedstat` only the first thread.
    """
    return time.clock_gettime_ns((~pid << 3) | 2) / 1e9


def restart_peak(pids: Iterable[int]) -> None:
    """Make the peak of each process' resident memory what is resident now."""
    for pid in pids:
        Path(f"/proc/{pid}/clear_refs").write_text("5")


def resident_bytes(pids: Iterable[int]) -> int:
    """Return what the processes have resident now, together."""
    return sum(_status(pid, "VmRSS") for pid in pids)


def peak_bytes(pids: Iterable[int]) -> int:
    """Return the sum of the processes' peaks since `restart_peak`."""
    return sum(_status(pid, "VmHWM") for pid in pids)


def _status(pid: int, field: str) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(rf"^{field}:\s+(\d+) kB$", text, re.MULTILINE)
    assert found is not None, f"/proc/{pid}/status has no {field}"
    return int(found[1]) * KIB
