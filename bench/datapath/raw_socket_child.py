"""
The other process of a raw socket transfer: serves one connection. Not pure.

`python -m bench.datapath.raw_socket_child SOCKET FILE BYTES`
"""

import socket
import sys
from pathlib import Path

from bench.datapath import child_side
from bench.datapath.load import digest
from bench.datapath.rows.raw_socket import ANSWER, DIGEST, ORDER, READ, receive, source_bytes


def main(place: Path, source_path: Path, total_bytes: int) -> None:
    """Do what is ordered until the other side hangs up."""
    source = memoryview(source_bytes(source_path, total_bytes))
    store = memoryview(bytearray(total_bytes))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen()
        child_side.say(child_side.replies(), {"ready": 1})
        connection, _ = listener.accept()
    with connection:
        while order := connection.recv(ORDER.size, socket.MSG_WAITALL):
            what, block_bytes, block_count = ORDER.unpack(order)
            end = block_bytes * block_count
            if what == READ:
                for at in range(0, end, block_bytes):
                    connection.sendall(source[at : at + block_bytes])
            elif what == DIGEST:
                connection.sendall(ANSWER.pack(digest(store[:end])))
            else:
                for at in range(0, end, block_bytes):
                    receive(connection, store[at : at + block_bytes])
                connection.sendall(ANSWER.pack(0))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
