"""Run every bench, one after the other: `python -m bench`. There is one so far."""

import sys

from bench.turn import main

if __name__ == "__main__":
    sys.exit(main())
