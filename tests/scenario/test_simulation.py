"""
A cluster in one process and in simulated time: everything that can go wrong does, by a seed.

The code is the real one, from the client down to gRPC and from the node down to its stores; what
lies below is simulated (`sim/`). At every step I1, I2, I3, I5 and I6 hold, and I8 at the end. More
seeds than the usual run's: `make sim N=2000`; one seed again: `--sim-seed=17`.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scenario.sim.planted import BUGS, PlantedBug, nothing_is_fetched_when_a_node_leaves
from tests.scenario.sim.trace import Violation
from tests.scenario.sim.world import simulate, simulate_departure

ROOT = Path(__file__).parents[2]

SEEDS_TO_FIND_A_BUG = 40
DEPARTURES = 10


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test a seed."""
    if "seed" in metafunc.fixturenames:
        only = metafunc.config.getoption("--sim-seed")
        seeds = range(metafunc.config.getoption("--sim-seeds")) if only is None else [only]
        metafunc.parametrize("seed", seeds)


def test_a_cluster_in_trouble_keeps_its_promises_I1_I2_I3_I5_I6_I8(seed: int):  # noqa: N802
    assert simulate(seed).tally.turns > 0


@pytest.mark.parametrize("departure", range(DEPARTURES))
def test_a_node_that_leaves_costs_no_session_a_block(departure: int):
    assert simulate_departure(departure).tally.loaded_blocks > 0


def test_a_departure_that_fetches_nothing_is_found(monkeypatch: pytest.MonkeyPatch):
    nothing_is_fetched_when_a_node_leaves(monkeypatch)
    with pytest.raises(Violation, match=r"drain: .* after node-\w left"):
        all(simulate_departure(seed) for seed in range(DEPARTURES))


def test_a_seed_tells_the_same_story_in_every_process():
    told = {
        subprocess.run(
            [
                sys.executable,
                "-c",
                "from tests.scenario.sim.world import simulate; print(simulate(7).digest)",
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert told == {f"{simulate(7).digest}\n"}
    assert simulate(8).digest != simulate(7).digest


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: f"{bug.invariant}-{bug.name}")
def test_a_planted_bug_is_found(bug: PlantedBug, monkeypatch: pytest.MonkeyPatch):
    bug.plant(monkeypatch)
    for seed in range(SEEDS_TO_FIND_A_BUG):
        try:
            simulate(seed)
        except Violation as violation:
            assert str(violation).startswith(f"{bug.invariant}: ")  # noqa: PT017
            assert f"seed {seed}, step " in str(violation)  # noqa: PT017
            return
    pytest.fail(f"{bug.name} was not found by {SEEDS_TO_FIND_A_BUG} seeds")
