"""The router and the node as processes, from READY to exit code, and what a kill leaves."""

import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cachenode import events as cachenode_events
from hearthkv.client.blocking import BlockingHearthKV, connect_blocking
from hearthkv.core.routing import NodeState
from router import events as router_events
from tests.conftest import StartRedis
from tests.system.metrics_page import metric_names
from tests.system.played_turn import PATIENT, nodes_in_state, play_turn, prompt
from tests.system.server_process import PROGRAMS, ServerProcess, end_of, server
from tests.system.standard_services import is_serving, services_of
from tests.system.waiting import eventually

BLOCKS = 40
SSD_ONLY = ("--cache-capacity-gb=0.1", "--hbm-ratio=0", "--dram-ratio=0", "--ssd-ratio=1")
SERVICES = {
    "hearthkv-router": {"hearthkv.v1.Router", "hearthkv.v1.Membership"},
    "hearthkv-cachenode": {"hearthkv.v1.CacheNode", "hearthkv.v1.DirectPath"},
}


@contextmanager
def started(program: str, folder: Path, *arguments: str) -> Iterator[ServerProcess]:
    """Either server by itself: the node on its SSD alone."""
    options = ("--ssd-dir", str(folder / "ssd"), *SSD_ONLY) if "cachenode" in program else ()
    with server(program, folder, *options, *arguments) as running:
        yield running


@pytest.fixture
def kv() -> Iterator[BlockingHearthKV]:
    """A client that is told its node in every turn."""
    with connect_blocking(settings=PATIENT) as kv:
        yield kv


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_server_says_where_it_serves_and_does_so(program: str, tmp_path: Path):
    with started(program, tmp_path) as running:
        assert services_of(running.address) >= SERVICES[program]
        assert all(is_serving(running.address, service) for service in ("", *SERVICES[program]))


def test_the_direct_path_can_be_off(tmp_path: Path):
    with started("hearthkv-cachenode", tmp_path, "--direct-path=false") as running:
        assert "hearthkv.v1.DirectPath" not in services_of(running.address)
    assert not (tmp_path / "ssd" / "host-proof").exists()


@pytest.mark.parametrize(
    ("program", "specs"),
    [
        ("hearthkv-router", router_events.METRICS),
        ("hearthkv-cachenode", cachenode_events.METRICS),
    ],
    ids=PROGRAMS,
)
def test_the_metrics_page_has_all_metrics(program: str, specs, tmp_path: Path):
    with started(program, tmp_path) as running:
        assert metric_names(running.metrics_address) >= {spec.name for spec in specs}


def test_the_metrics_port_can_be_off(tmp_path: Path):
    with started("hearthkv-router", tmp_path, "--metrics-port=-1") as running:
        assert running.metrics_address == "-"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_signal_ends_a_server_with_0(program: str, number: signal.Signals, tmp_path: Path):
    with started(program, tmp_path) as running:
        assert running.stop(number) == 0
    assert "Traceback" not in (tmp_path / f"{program}.log").read_text()


def assert_refused(program: str, *arguments: str, names: tuple[str, ...], **variables: str) -> None:
    """Check that a program ends with 2 and one line that has all that a person must know."""
    done = end_of(program, *arguments, **variables)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"{program}: ")
    assert [name for name in names if name not in line] == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_port_in_use_is_told(program: str):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert_refused(program, "--listen", address, names=(address, "in use", "--listen"))


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_metrics_port_in_use_is_told(program: str):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert_refused(
            program, "--listen=127.0.0.1:0", "--metrics-port", port, names=(port, "in use")
        )


def test_an_ssd_folder_that_cannot_be_written_is_told(tmp_path: Path):
    (tmp_path / "file").write_text("not a folder")
    folder = tmp_path / "file" / "ssd"
    options = ("--listen=127.0.0.1:0", "--metrics-port=-1", "--ssd-dir", str(folder))
    assert_refused("hearthkv-cachenode", *options, names=(str(folder), "--ssd-dir"))


def test_an_ssd_folder_of_another_node_is_told(tmp_path: Path):
    with started("hearthkv-cachenode", tmp_path):
        options = ("--listen=127.0.0.1:0", "--metrics-port=-1", f"--ssd-dir={tmp_path / 'ssd'}")
        assert_refused("hearthkv-cachenode", *options, names=("in use", "--ssd-dir"))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param(
            "[kv_cache]\nhbm_ratio = 0.5",
            ("hbm_ratio", "1.25", "must be 1"),
            id="ratios-of-more-than-1",
        ),
        pytest.param(
            "[kv_cache]\ncache_capacity = 4",
            ("'cache_capacity'", "did you mean 'cache_capacity_gb'"),
            id="unknown-field",
        ),
        pytest.param(
            "[kv_cache]\neviction_policy = 'fifo'",
            ("eviction_policy", "'fifo'", "lru_with_media_priority"),
            id="unknown-policy",
        ),
        pytest.param(
            "[kv_cache]\noffload_threshold = 1.5",
            ("offload_threshold", "1.5", "(0, 1]"),
            id="threshold-above-1",
        ),
        pytest.param(
            "[cachenode]\nweight = 'heavy'", ("weight", "'heavy'", "a number"), id="wrong-type"
        ),
        pytest.param("[cachenodes]", ("'cachenodes'", "did you mean"), id="unknown-section"),
        pytest.param("[kv_cache", ("TOML",), id="not-toml"),
    ],
)
def test_a_bad_file_is_told_with_field_value_and_what_is_allowed(
    text: str, names: tuple[str, ...], tmp_path: Path
):
    path = tmp_path / "node.toml"
    path.write_text(text)
    assert_refused("hearthkv-cachenode", "--config", str(path), names=(str(path), *names))


def test_a_bad_variable_is_told_by_its_name():
    assert_refused(
        "hearthkv-router",
        names=("$HEARTHKV_ROUTER_LEASE_S", "'soon'", "a number"),
        HEARTHKV_ROUTER_LEASE_S="soon",
    )


def test_the_settings_are_printed_with_their_sources_and_without_the_password(tmp_path: Path):
    path = tmp_path / "node.toml"
    path.write_text('[cachenode]\nredis_urls = ["redis://:open-sesame@10.0.0.1:6379/0"]\n')
    done = end_of(
        "hearthkv-cachenode",
        *("--print-config", "--config", str(path), "--weight=2"),
        HEARTHKV_KV_CACHE_BLOCK_SIZE="32",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "open-sesame" not in done.stdout
    lines = done.stdout.splitlines()
    assert f'redis_urls = "***"  # {path}' in lines
    assert "block_size = 32  # $HEARTHKV_KV_CACHE_BLOCK_SIZE" in lines
    assert "weight = 2.0  # --weight" in lines
    assert 'node_id = "node"  # default' in lines


def test_a_killed_node_finds_its_blocks_in_redis_and_on_the_ssd_I4(  # noqa: N802
    kv: BlockingHearthKV, start_redis: StartRedis, tmp_path: Path
):
    # Room in Redis for a part of the blocks only, so that both tiers have some.
    options = (
        *("--redis-urls", start_redis().url, "--ssd-dir", str(tmp_path / "ssd")),
        *("--cache-capacity-gb=0.01", "--hbm-ratio=0", "--dram-ratio=0.05", "--ssd-ratio=0.95"),
    )
    tokens = prompt(1, BLOCKS)

    def usage(address: str) -> list[tuple[int, int]]:
        return [(tier.blocks, tier.used_bytes) for tier in kv.describe(address).tiers]

    with server("hearthkv-cachenode", tmp_path, *options) as node:
        first = play_turn(kv, "killed", tokens, node=node.address)
        assert first.finished.saved_blocks == BLOCKS
        eventually(lambda: all(blocks for blocks, _ in usage(node.address)), wanted="two tiers")
        node.kill()
    with server("hearthkv-cachenode", tmp_path, *options) as node:
        (in_dram, dram_bytes), (on_ssd, ssd_bytes) = usage(node.address)
        assert in_dram + on_ssd == BLOCKS
        assert min(dram_bytes, ssd_bytes) > 0
        found = play_turn(kv, "killed", tokens, node=node.address)
        assert (found.loaded.blocks, found.loaded.miss) == (BLOCKS, None)


def test_a_router_and_a_node_find_each_other_again_whoever_restarts(tmp_path: Path):
    tokens = prompt(1, BLOCKS)
    with started("hearthkv-router", tmp_path) as router:
        address = router.address
        with (
            started("hearthkv-cachenode", tmp_path, f"--routers={address}") as node,
            connect_blocking(address, settings=PATIENT) as kv,
        ):
            eventually(lambda: nodes_in_state(kv, NodeState.LIVE), wanted="the node is live")
            assert play_turn(kv, "again", tokens).finished.saved_blocks == BLOCKS
            router.kill()
            eventually(lambda: not nodes_in_state(kv, NodeState.LIVE), wanted="no router")
            # By the last list of nodes the turn goes where it went, and is as warm as before.
            alone = play_turn(kv, "again", tokens)
            assert (alone.address, alone.loaded.blocks) == (node.address, BLOCKS)
            with server("hearthkv-router", tmp_path, "--listen", address):
                eventually(lambda: nodes_in_state(kv, NodeState.LIVE), wanted="both are back")
                eventually(
                    lambda: play_turn(kv, "again", tokens).matched_blocks == BLOCKS,
                    wanted="the router knows the blocks",
                )


def test_a_node_whose_redis_is_away_serves_from_the_ssd(kv: BlockingHearthKV, tmp_path: Path):
    options = ("--redis-urls", f"unix://{tmp_path / 'nobody.sock'}", "--ssd-dir", str(tmp_path))
    with server("hearthkv-cachenode", tmp_path, "--cache-capacity-gb=0.1", *options) as node:
        trouble = kv.describe(node.address).tiers[0].trouble
        assert "nobody.sock" in trouble
        assert play_turn(kv, "ssd", prompt(1, BLOCKS), node=node.address).finished.saved_blocks
        found = play_turn(kv, "ssd", prompt(1, BLOCKS), node=node.address)
        assert found.loaded.by_tier.ssd == BLOCKS
