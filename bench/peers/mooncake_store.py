"""
The other end of Mooncake Store: a process that holds the memory. Not pure.

`python -m bench.peers.mooncake_store MASTER_PORT BYTES`
"""

import sys

from bench.datapath import child_side
from bench.peers.mooncake_setup import connect


def main(master_port: int, segment_bytes: int) -> None:
    """Lend the memory until stdin ends."""
    replies = child_side.replies()
    store = connect(master_port, segment_bytes=segment_bytes)
    child_side.say(replies, {"ready": 1})
    sys.stdin.read()
    store.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
