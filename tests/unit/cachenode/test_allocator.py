"""Tests of `cachenode.allocator`, each in a process of its own: malloc is the whole process's."""

import subprocess
import sys

PROGRAM = """
import platform, resource
from cachenode.allocator import KEPT_BYTES, keep_freed_memory

is_told = keep_freed_memory()
assert is_told == (platform.libc_ver()[0] == "glibc"), is_told
if is_told:
    message = b"x" * 2**20
    for _ in range(4):  # the first ones get the memory
        del message
        message = b"".join((b"x", bytes(2**20)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        del message
        message = b"".join((b"x", bytes(2**20)))
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    assert faults < 50 * 256 / 4, f"{faults} page faults"
"""


def test_messages_find_the_memory_of_those_before_them():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=60)
