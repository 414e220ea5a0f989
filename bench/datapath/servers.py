"""Redis and Valkey as child processes of the bench, behind a unix socket and a port. Not pure."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hearthkv.demo.redis_binary import packaged_server

KEEP_PAGES = {"MALLOC_CONF": "dirty_decay_ms:-1,muzzy_decay_ms:-1"}
"""Lets jemalloc keep what it has freed, instead of giving pages back that it soon takes again."""

READY = "ready to accept connections"


@dataclass(frozen=True, slots=True)
class ServerKind:
    """A server and a way to run it."""

    key: str
    title: str
    binary: Path
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Server:
    """A running server, empty at its start."""

    kind: ServerKind
    pid: int
    socket_path: Path
    port: int  # on 127.0.0.1, for clients that know no unix socket


def server_kinds() -> list[ServerKind]:
    """Return what can be run on this machine."""
    kinds = []
    redis, valkey = shutil.which("redis-server"), packaged_server()
    if redis is not None:
        title = f"Redis {_version(Path(redis))}"
        kept = f"{title}, allocator keeps pages"
        kinds += [
            ServerKind("redis", title, Path(redis)),
            ServerKind("redis-kept", kept, Path(redis), KEEP_PAGES),
        ]
    if valkey is not None:
        kinds.append(ServerKind("valkey", f"Valkey {_version(valkey)}", valkey))
    return kinds


@contextmanager
def running(kind: ServerKind, folder: Path) -> Iterator[Server]:
    """
    Run a server while the block is entered.

    Raises:
        RuntimeError: If it does not start; the text is what it said.
    """
    socket_path, port = folder / f"{kind.key}.sock", _free_port()
    listening = ("--bind", "127.0.0.1", "--port", str(port), "--unixsocket", str(socket_path))
    volatile = ("--save", "", "--appendonly", "no", "--dir", str(folder), "--logfile", "")
    process = subprocess.Popen(
        [kind.binary, *listening, *volatile, "--maxmemory-policy", "noeviction"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | kind.env,
    )
    assert process.stdout is not None
    try:
        said = []
        for line in process.stdout:
            said.append(line)
            # What it says after that fits into the pipe.
            if READY in line.lower():
                break
        else:
            raise RuntimeError(f"{kind.title} did not start:\n{''.join(said)}")
        yield Server(kind, process.pid, socket_path, port)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _version(binary: Path) -> str:
    said = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout
    found = [word.removeprefix("v=") for word in said.split() if word.startswith("v=")]
    return found[0] if found else "of an unknown version"


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
