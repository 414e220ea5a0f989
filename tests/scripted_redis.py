"""A server for tests that answers what it is told to, whatever it is asked."""

import socket
import threading
from pathlib import Path
from typing import Self


class ScriptedRedis:
    """
    Answers each connection with `reply`, once something was asked, and hangs up.

    With `is_silent` it does not hang up, and the client waits for what does not come.
    """

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "s")
        self.reply = b""
        self.is_silent = False
        self.connections = 0
        self.heard = bytearray()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # A listener that is shut down wakes the thread that waits for the next client.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            with client:
                self._answer(client)

    def _answer(self, client: socket.socket) -> None:
        try:
            self.heard += client.recv(1 << 20)
            client.sendall(self.reply)
            if not self.is_silent:
                client.shutdown(socket.SHUT_WR)
            while heard := client.recv(1 << 20):
                self.heard += heard
        except OSError:
            pass  # the client had enough
