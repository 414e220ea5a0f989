"""Two routers and four nodes in containers, under a load that never pauses, and what befalls them.

Each test prints its figures: `pytest -s` shows them.
"""

import time
from collections.abc import Iterable, Iterator, Sequence

import pytest

from tests.system.faults_cluster import FaultsCluster, Load
from tests.system.growing_session import (
    BEGIN_S,
    FINISH_S,
    LOAD_S,
    NAMESPACE,
    ROUTERS,
)
from tests.system.load_records import LIVE, RouteRecord, TurnRecord, percentile
from tests.system.waiting import eventually

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

STALE_S = 3.0
"""How long a router may go on sending turns to a node that is not there."""

GRACE_S = 1.0
"""What a call may take longer than its deadline, on a machine that is busy with containers."""


@pytest.fixture(scope="module")
def cluster(docker_engine: object) -> Iterator[FaultsCluster]:
    with FaultsCluster() as running:
        yield running


@pytest.fixture(scope="module")
def running_load(cluster: FaultsCluster) -> Iterator[Load]:
    with Load(cluster) as load:
        yield load


@pytest.fixture
def load(running_load: Load) -> Iterator[Load]:
    """The load, once all is well, whatever the test before has done; it goes on all the time."""
    running_load.wait_agreed(time.time())
    running_load.turns_since(time.time(), at_least=30)
    yield running_load
    running_load.check_running()


def test_no_turn_is_the_worse_for_a_killed_router(cluster: FaultsCluster, load: Load):
    began_s = time.time()
    with cluster.killed("router-1"):
        without = load.turns_since(time.time(), at_least=150)
    healed_s = load.wait_agreed(time.time(), routers=["router-1"])
    after = load.turns_since(time.time(), at_least=50)
    turns = load.turns_since(began_s)
    say_cold(turns, began_s)
    say(
        "killed router",
        without=len(without),
        after=len(after),
        **figures(turns),
        index_again_s=healed_s,
    )
    assert_sound(turns)
    assert [turn for turn in turns if turn.lost] == []


def test_the_sessions_of_a_killed_node_go_on_elsewhere(cluster: FaultsCluster, load: Load):
    victim = load.busiest_node()
    began_s = time.time()
    load.routes_since(began_s, at_least=800)
    moved, kill_s = load.last_turns_on(victim), time.time()
    with cluster.killed(victim):
        killed_s = time.time()
        load.routes_since(killed_s, at_least=800)
        wait_warm(load, moved, victim, killed_s)
        back_s = time.time()
    healed_s = load.wait_agreed(time.time(), [victim])
    turns = load.turns_since(began_s)
    routes = [route for route in load.routes_since(began_s) if route.node != victim]
    before = [route for route in routes if route.began_s < kill_s]
    after = [route for route in routes if kill_s < route.began_s < back_s]
    say_cold(turns, killed_s)
    say("killed node", moved=len(moved), **figures(turns), index_again_s=healed_s)
    say("killed node: Route before", **route_figures(before))
    say("killed node: Route after ", **route_figures(after))
    assert moved
    assert_sound(turns)
    assert_not_steered(load, victim, killed_s, back_s)
    its_lines = {turn.line for turn in turns if turn.node == victim}
    assert [turn for turn in turns if turn.lost and turn.line not in its_lines] == []
    assert [route for route in routes if route.failure] == []
    assert route_figures(after)["p50_ms"] < 2 * route_figures(before)["p50_ms"]


def test_a_node_that_hangs_gets_no_turns_until_it_goes_on(cluster: FaultsCluster, load: Load):
    victim = load.busiest_node()
    moved, began_s = load.last_turns_on(victim), time.time()
    with cluster.paused(victim):
        paused_s = time.time()
        wait_warm(load, moved, victim, paused_s)
        load.turns_since(paused_s + STALE_S, at_least=100)
        back_s = time.time()
    healed_s = load.wait_agreed(time.time(), [victim])
    load.turns_since(time.time() + STALE_S, at_least=50)
    turns = load.turns_since(began_s)
    say("paused node", moved=len(moved), **figures(turns), index_again_s=healed_s)
    assert moved
    assert_sound(turns)
    assert_not_steered(load, victim, paused_s, back_s)
    assert_true_matches(turns, back_s)


def test_a_node_that_was_cut_off_is_known_again_for_what_it_holds(
    cluster: FaultsCluster, load: Load
):
    victim = load.busiest_node()
    moved, began_s = load.last_turns_on(victim), time.time()
    with cluster.cut_off(victim, "default", victim):
        cut_s = time.time()
        wait_warm(load, moved, victim, cut_s)
        dropped = cluster.drop_session_within(victim, moved[min(moved)].session)
        wait_forgotten(load, victim, cut_s)
        load.turns_since(cut_s + STALE_S, at_least=100)
        back_s = time.time()
    healed_s = load.wait_agreed(time.time(), [victim])
    load.turns_since(time.time() + STALE_S, at_least=50)
    turns = load.turns_since(began_s)
    say("cut off node", moved=len(moved), **figures(turns), index_again_s=healed_s)
    assert dropped > 0
    assert_sound(turns)
    assert_not_steered(load, victim, cut_s, back_s)
    assert_true_matches(turns, back_s)


def test_a_node_that_leaves_costs_no_prefill(cluster: FaultsCluster, load: Load):
    leaver = load.calmest_node()
    moving, began_s = load.last_turns_on(leaver), time.time()
    with cluster.leaving(leaver):
        told_s = time.time()
        eventually(lambda: not load.last_turns_on(leaver), wanted=f"no turn goes to {leaver}")
        handed_s = time.time()
        after = load.turns_since(handed_s, at_least=100)
        code = cluster.stop_by_signal(leaver)
        left_s = time.time()
        gone = load.turns_since(left_s, at_least=50)
        turns = load.turns_since(began_s)
    say_cold(turns, told_s)
    say("drained node", moving=len(moving), **figures(turns), handed_over_s=handed_s - told_s)
    assert moving
    assert_sound(turns)
    assert [turn for turn in turns if turn.lost] == []
    assert [turn for turn in after + gone if turn.node == leaver] == []
    assert code == 0


def wait_warm(load: Load, lines: Iterable[str], victim: str, since_s: float) -> None:
    """Wait until each of these has had a turn elsewhere that found all of the one before it."""

    def cold() -> set[str]:
        warm = {
            turn.line
            for turn in load.turns_since(since_s)
            if turn.node != victim and turn.loaded >= turn.had > 0
        }
        return set(lines) - warm

    eventually(lambda: not cold(), wanted="all sessions are warm again")


def wait_forgotten(load: Load, node: str, since_s: float) -> None:
    """Wait until no router lists a node any more."""

    def is_forgotten() -> bool:
        views = load.views_since(since_s)
        return bool(views) and all(node not in views[-1].states[router] for router in ROUTERS)

    eventually(is_forgotten, wanted=f"{node} is forgotten")


def assert_sound(turns: Sequence[TurnRecord]) -> None:
    """See that every byte was right, and that no call was over its deadline."""
    assert turns
    assert [turn for turn in turns if turn.wrong] == []
    late = [
        turn
        for turn in turns
        if turn.begin_s > BEGIN_S + GRACE_S
        or turn.load_s > LOAD_S + GRACE_S
        or turn.finish_s > FINISH_S + GRACE_S
    ]
    assert late == []
    assert [turn for turn in turns if turn.node is None] == []


def assert_not_steered(load: Load, victim: str, since_s: float, until_s: float) -> None:
    """See that nobody was sent to a node that is not there, but for the first seconds."""
    turns = [turn for turn in load.turns_since(since_s) if turn.began_s < until_s]
    routes = [route for route in load.routes_since(since_s) if route.began_s < until_s]
    views = [view for view in load.views_since(since_s) if view.began_s < until_s]
    steered = [
        *(turn.began_s for turn in turns if turn.node == victim),
        *(route.began_s for route in routes if route.node == victim),
        *(
            view.began_s
            for view in views
            if any(states.get(victim) == LIVE for states in view.states.values())
        ),
    ]
    last_s = max(steered, default=since_s) - since_s
    say(f"{victim} was last steered to", after_s=last_s)
    assert last_s <= STALE_S


def assert_true_matches(turns: Sequence[TurnRecord], back_s: float) -> None:
    """See that, but for the first seconds, no router promised what a node no longer holds."""
    late = [turn for turn in turns if turn.began_s > back_s + STALE_S]
    assert late
    assert [turn for turn in late if turn.loaded < turn.matched] == []


def figures(turns: Sequence[TurnRecord]) -> dict[str, object]:
    """What there is to say of turns."""
    lost = sum(turn.lost for turn in turns)
    return {
        "turns": len(turns),
        "cold": sum(turn.lost > 0 for turn in turns),
        "matched_short": sum(turn.matched < turn.had <= turn.loaded for turn in turns),
        "lost_tokens": lost * NAMESPACE.block_size,
        "begin_p99_ms": 1000 * percentile([turn.begin_s for turn in turns], 0.99),
        "load_max_s": max(turn.load_s for turn in turns),
        "finish_max_s": max(turn.finish_s for turn in turns),
    }


def route_figures(routes: Sequence[RouteRecord]) -> dict[str, float]:
    """What there is to say of bare calls of Route."""
    took_s = [route.took_s for route in routes]
    return {
        "calls": len(routes),
        "p50_ms": 1000 * percentile(took_s, 0.5),
        "p99_ms": 1000 * percentile(took_s, 0.99),
    }


def say_cold(turns: Sequence[TurnRecord], from_s: float) -> None:
    """Print the turns that lost blocks, with their time from a moment on."""
    for turn in turns:
        if turn.lost:
            say(
                "cold turn",
                after_s=turn.began_s - from_s,
                session=turn.session,
                node=turn.node,
                reason=turn.reason,
                had=turn.had,
                matched=turn.matched,
                loaded=turn.loaded,
                miss=turn.miss,
                refusal=turn.refusal,
            )


def say(what: str, **values: object) -> None:
    """Print figures for people."""
    told = [
        f"{name}={value:.3g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in values.items()
    ]
    print(f"\n{what}: {' '.join(told)}")
