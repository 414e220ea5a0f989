"""What a process uses is read from the kernel."""

import mmap
import os
import subprocess
import sys

from bench.datapath import usage

ONE_THREAD_THEN_WAIT = """
import sys, threading
thread = threading.Thread(target=lambda: sum(range(2_000_000)))
thread.start(); thread.join()
print(flush=True); sys.stdin.read()
"""


def test_the_cpu_time_of_another_process_has_its_ended_threads():
    command = [sys.executable, "-c", ONE_THREAD_THEN_WAIT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert usage.cpu_s(process.pid) > 0.005
        process.kill()


def test_a_peak_is_what_was_touched_since_it_was_restarted():
    own = (os.getpid(),)
    usage.restart_peak(own)
    before = usage.resident_bytes(own)
    # Fresh pages of the kernel's, which an allocator that keeps what was freed could not give.
    with mmap.mmap(-1, 32 * 1024 * 1024) as touched:
        touched[:] = bytes(len(touched))
    assert usage.peak_bytes(own) - before > 24 * 1024 * 1024
