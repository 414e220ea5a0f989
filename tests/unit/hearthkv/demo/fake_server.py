"""A server for tests, started as a process: `fake_server.py MODE [arguments]`."""

import signal
import sys


def main(mode: str) -> int:
    if mode == "trouble":
        print("port 7400 is in use, choose another one", file=sys.stderr)
        return 2
    if mode == "crash":
        print("something broke", file=sys.stderr)
        return 1
    if mode == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if mode != "silent":
        # One line for all: what follows the ready line may not be in the log yet.
        print("READY address=127.0.0.1:1 Ready to accept connections", *sys.argv[2:], flush=True)
    while True:
        signal.pause()


sys.exit(main(sys.argv[1]))
