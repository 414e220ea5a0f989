"""The cluster of compose.yaml, driven by the client from outside, through what may befall it."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from hearthkv.client.blocking import BlockingHearthKV, connect_blocking
from hearthkv.core.routing import CacheHint, NodeState, PlacementReason
from hearthkv.core.tier import Tier
from tests.house.tree import ROOT
from tests.system.compose_cluster import NODES, ComposeCluster, compose_cluster
from tests.system.played_turn import NAMESPACE, PATIENT, Played, nodes_in_state, play_turn, prompt
from tests.system.readme_code import readme_code
from tests.system.waiting import eventually

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]

BLOCKS = 40
DRAM_HEALTHY = 'cachenode_tier_healthy{tier="dram"}'


@pytest.fixture(scope="module")
def cluster(
    docker_engine: object, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ComposeCluster]:
    with compose_cluster(tmp_path_factory.mktemp("compose")) as running:
        yield running


@pytest.fixture
def kv(cluster: ComposeCluster) -> Iterator[BlockingHearthKV]:
    """A client, when all nodes are well, whatever the test before has done to them."""
    with connect_blocking(cluster.router_address, settings=PATIENT) as kv:
        wait_live(kv, set(NODES))
        for node in kv.list_nodes():
            wait_dram_well(kv, node.endpoint.address)
        yield kv


def wait_live(kv: BlockingHearthKV, nodes: set[str]) -> None:
    eventually(lambda: nodes <= nodes_in_state(kv, NodeState.LIVE), wanted=f"{nodes} are live")


def wait_dram_well(kv: BlockingHearthKV, address: str) -> None:
    eventually(lambda: not dram_trouble(kv, address), wanted=f"{address} has its Redis")


def dram_trouble(kv: BlockingHearthKV, address: str) -> str:
    tiers = kv.describe(address).tiers
    return next(usage.trouble for usage in tiers if usage.tier is Tier.DRAM)


def wait_indexed(kv: BlockingHearthKV, tokens: list[int], blocks: int) -> None:
    eventually(lambda: longest_match(kv, tokens) == blocks, wanted=f"{blocks} blocks are known")


def longest_match(kv: BlockingHearthKV, tokens: list[int]) -> int:
    found = kv.lookup(NAMESPACE, tokens)
    return found[0].matched.total if found else 0


def redis_of(node_id: str | None) -> str:
    assert node_id is not None
    return node_id.replace("node", "redis")


def test_all_services_are_healthy_and_none_runs_as_root(cluster: ComposeCluster):
    running = cluster.containers()
    assert len(running) == 1 + 2 * len(NODES)
    for container in running:
        assert container.Service is not None
        cluster.wait_healthy(container.Service)
        uid = cluster.run("exec", "--no-TTY", container.Service, "id", "-u").strip()
        assert uid != "0", container.Service


def test_no_port_is_published_beyond_this_machine(cluster: ComposeCluster):
    publishers = [container.Publishers or [] for container in cluster.containers()]
    # An exposed port that is not published has the number 0.
    open_ports = [port for ports in publishers for port in ports if port.PublishedPort]
    assert len(open_ports) == 2 + 2 * len(NODES)
    assert {port.URL for port in open_ports} == {"127.0.0.1"}


def test_a_session_stays_warm_as_its_prompt_grows(kv: BlockingHearthKV):
    first = play_turn(kv, "warm", prompt(1, BLOCKS))
    assert first.reason is PlacementReason.HOME
    assert first.finished.saved_blocks == BLOCKS
    for turn in range(1, 4):
        tokens = prompt(1, BLOCKS + 10 * turn)
        held = BLOCKS + 10 * (turn - 1)
        wait_indexed(kv, tokens, held)
        played = play_turn(kv, "warm", tokens)
        assert (played.node_id, played.reason) == (first.node_id, PlacementReason.SESSION)
        assert (played.loaded.blocks, played.finished.saved_blocks) == (held, 10)


def test_the_code_of_the_readme_runs(cluster: ComposeCluster, kv: BlockingHearthKV):
    done = subprocess.run(
        [sys.executable, "-c", readme_code("README.md", cluster.router_address)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "loaded tokens: 64" in done.stdout


def test_a_killed_node_costs_a_prefill_and_comes_back_with_its_blocks_I4(  # noqa: N802
    cluster: ComposeCluster, kv: BlockingHearthKV
):
    tokens = prompt(2, BLOCKS)
    first = play_turn(kv, "moves", tokens)
    assert first.node_id is not None
    assert first.finished.saved_blocks == BLOCKS
    with cluster.killed(first.node_id):
        # Until the router notices, the turns are misses; none raises (I5).
        moved = eventually(lambda: moved_turn(kv, "moves", tokens), wanted="the session moves")
        assert moved.node_id != first.node_id
        assert moved.finished.saved_blocks == BLOCKS
        again = play_turn(kv, "moves", prompt(2, BLOCKS + 5))
        assert (again.node_id, again.loaded.blocks) == (moved.node_id, BLOCKS)
    wait_live(kv, {first.node_id})
    found = play_turn(kv, "moves", tokens, node=first.address)
    assert found.loaded.by_tier.dram == BLOCKS


def moved_turn(kv: BlockingHearthKV, session_id: str, tokens: list[int]) -> Played | None:
    played = play_turn(kv, session_id, tokens)
    return played if played.reason is PlacementReason.FAILOVER else None


def test_a_node_without_its_redis_goes_on_with_the_ssd_and_heals(
    cluster: ComposeCluster, kv: BlockingHearthKV
):
    lost = play_turn(kv, "redis", prompt(3, BLOCKS))
    assert lost.node_id is not None
    assert lost.address is not None
    node_id, address = lost.node_id, lost.address
    with cluster.killed(redis_of(node_id)):
        trouble = eventually(lambda: dram_trouble(kv, address), wanted="Redis is missed")
        assert "redis.sock" in trouble
        assert cluster.metrics(node_id)[DRAM_HEALTHY] == 0
        kept = play_turn(kv, "redis", prompt(4, BLOCKS), node=address)
        assert kept.finished.saved_blocks == BLOCKS
        kept = play_turn(kv, "redis", prompt(4, BLOCKS), node=address)
        assert kept.loaded.by_tier.ssd == BLOCKS
        assert cluster.is_healthy(node_id)
    wait_dram_well(kv, address)
    assert cluster.metrics(node_id)[DRAM_HEALTHY] == 1
    assert play_turn(kv, "redis", prompt(4, BLOCKS), node=address).loaded.blocks == BLOCKS
    # What Redis held alone is gone with it: a miss, and saved anew.
    gone = play_turn(kv, "redis", prompt(3, BLOCKS), node=address)
    assert (gone.loaded.blocks, gone.finished.saved_blocks) == (0, BLOCKS)
    back = play_turn(kv, "redis", prompt(3, BLOCKS), node=address)
    assert back.loaded.by_tier.dram == BLOCKS


def test_a_new_router_learns_from_the_nodes_what_they_hold_I6(  # noqa: N802
    cluster: ComposeCluster, kv: BlockingHearthKV
):
    tokens = prompt(5, BLOCKS)
    before = play_turn(kv, "remembered", tokens)
    with cluster.killed("router"):
        alone = play_turn(kv, "remembered", tokens)  # by the last list of nodes
        assert alone.loaded.blocks in (0, BLOCKS)
    wait_live(kv, set(NODES))
    wait_indexed(kv, tokens, BLOCKS)
    route = kv.route("never seen before", NAMESPACE, tokens, cache_hint=CacheHint.REUSE)
    assert route is not None
    assert route.matched.total == BLOCKS
    if route.reason is not PlacementReason.HOME:
        assert route.reason is PlacementReason.PREFIX
    held = {str(match.node_id) for match in kv.lookup(NAMESPACE, tokens) if match.matched.total}
    assert before.node_id in held


def test_a_node_that_is_cut_off_gets_no_turns_until_it_is_back(
    cluster: ComposeCluster, kv: BlockingHearthKV
):
    tokens = prompt(6, BLOCKS)
    first = play_turn(kv, "cut", tokens)
    assert first.node_id is not None
    node_id = first.node_id
    with cluster.unreachable(node_id):
        eventually(
            lambda: node_id not in nodes_in_state(kv, NodeState.LIVE), wanted=f"{node_id} is missed"
        )
        moved = play_turn(kv, "cut", tokens)
        assert moved.reason is PlacementReason.FAILOVER
        assert moved.node_id != node_id
    wait_live(kv, {node_id})
    assert play_turn(kv, "cut", tokens, node=first.address).loaded.blocks == BLOCKS
