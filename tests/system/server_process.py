"""Our servers as processes of this machine, started by the commands that the package installs."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

READY = re.compile(r"READY address=(\S+) metrics=(\S+)\n")
PROGRAMS = ("hearthkv-router", "hearthkv-cachenode")


@dataclass(frozen=True)
class ServerProcess:
    """A server that serves."""

    process: subprocess.Popen[str]
    address: str
    metrics_address: str
    """`-` where it has no metrics port."""

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self.process.wait()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end; return its exit code."""
        self.process.send_signal(number)
        return self.process.wait(timeout=60)


def command(program: str, *arguments: str) -> list[str]:
    """The command line of a console script, as pip puts it beside the interpreter."""
    return [str(Path(sys.executable).with_name(program)), *arguments]


def end_of(program: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program that ends by itself."""
    return subprocess.run(
        command(program, *arguments),
        env=variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@contextmanager
def server(program: str, folder: Path, *arguments: str) -> Iterator[ServerProcess]:
    """Run a server on ports of its own until the block is left; its log goes to a file."""
    ports = ("--listen", "127.0.0.1:0", "--metrics-port", "0")
    log = folder / f"{program}.log"
    with log.open("a") as errors:
        process = subprocess.Popen(
            command(program, *ports, *arguments), stdout=subprocess.PIPE, stderr=errors, text=True
        )
    assert process.stdout is not None
    try:
        ready = READY.fullmatch(process.stdout.readline())
        assert ready is not None, log.read_text()
        yield ServerProcess(process, *ready.groups())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
