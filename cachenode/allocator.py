"""How the process holds on to memory: what gRPC messages give back is kept for the next ones."""

import ctypes
from typing import Final

_M_TRIM_THRESHOLD: Final = -1  # as of malloc.h
_M_MMAP_THRESHOLD: Final = -3

KEPT_BYTES: Final = 128 * 1024 * 1024
"""Free bytes above which some go back to the system."""

HEAP_BYTES_MAX: Final = 32 * 1024 * 1024
"""Larger pieces than this are got from the system, and given back to it, one by one."""


def keep_freed_memory() -> bool:
    """
    Have malloc keep what is freed, and return whether it can be told so.

    A message of 1 MiB is got and freed for each megabyte that is read. Where the pages go back to
    the system in between, getting them again costs as much as all copying of their bytes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc has it, musl does not
    if mallopt is None:
        return False
    return all(
        [
            mallopt(_M_MMAP_THRESHOLD, HEAP_BYTES_MAX) == 1,
            mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES) == 1,
        ]
    )
