"""How the processes of a Mooncake Store find each other, over TCP on the loopback. Not pure."""

import os
import socket
import subprocess
import time
from pathlib import Path

import mooncake.store  # type: ignore[import-not-found]

LOCAL_BUFFER_BYTES = 64 * 1024 * 1024
MASTER_WAIT_S = 20.0


def connect(master_port: int, *, segment_bytes: int) -> "mooncake.store.MooncakeDistributedStore":
    """
    Join; a process that lends no memory has a segment of 0 bytes.

    Raises:
        RuntimeError: If the store refuses.
    """
    os.environ.setdefault("MC_TCP_BIND_ADDRESS", "127.0.0.1")
    store = mooncake.store.MooncakeDistributedStore()
    master = f"127.0.0.1:{master_port}"
    own, no_device = "127.0.0.1", ""
    code = store.setup(
        own, "P2PHANDSHAKE", segment_bytes, LOCAL_BUFFER_BYTES, "tcp", no_device, master
    )
    if code != 0:
        raise RuntimeError(f"setup answers {code}, must be 0")
    return store


def start_master(port: int) -> subprocess.Popen[bytes]:
    """
    Start the master and wait until it takes connections.

    Raises:
        RuntimeError: If it does not in time.
    """
    binary = Path(str(mooncake.store.__file__)).with_name("mooncake_master")
    addresses = ("-rpc_address=127.0.0.1", "-metrics_host=127.0.0.1")
    ports = (f"-rpc_port={port}", f"-metrics_port={free_port()}")
    master = subprocess.Popen([binary, *addresses, *ports], stdin=subprocess.DEVNULL)
    deadline = time.monotonic() + MASTER_WAIT_S
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return master
    master.kill()
    master.wait()
    raise RuntimeError(f"the master takes no connections after {MASTER_WAIT_S:.0f} s")


def free_port() -> int:
    """Return a port that nothing listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
