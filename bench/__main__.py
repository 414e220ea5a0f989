"""
Run every bench, one after the other: `python -m bench`.

Takes the one argument that all of them know, `--output`.
"""

import sys

from bench import ssd_layout, turn
from bench.datapath import __main__ as datapath
from bench.replay import __main__ as replay
from bench.replay_routing import __main__ as replay_routing
from bench.routing import __main__ as routing
from bench.simulate import __main__ as simulate

BENCHES = (
    turn.main,
    ssd_layout.main,
    datapath.main,
    replay.main,
    replay_routing.main,
    routing.main,
    simulate.main,
)

if __name__ == "__main__":
    sys.exit(max(main() for main in BENCHES))
