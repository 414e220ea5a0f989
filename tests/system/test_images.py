"""The images of the router and the node, as anybody would run them: no compose, no init."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from testcontainers.community.redis import RedisContainer
from testcontainers.core.container import DockerContainer
from testcontainers.core.image import DockerImage
from testcontainers.core.network import Network
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

from hearthkv.client.blocking import connect_blocking
from hearthkv.core.routing import NodeState, PlacementReason
from tests.house.tree import ROOT
from tests.system.conftest import LABEL
from tests.system.loopback_ports import publish
from tests.system.metrics_page import metric_values
from tests.system.played_turn import PATIENT, nodes_in_state, play_turn, prompt
from tests.system.standard_services import is_serving, services_of
from tests.system.waiting import eventually

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]

BLOCKS = 20
PASSWORD = "open-sesame"
DRAM_BLOCKS = 'cachenode_tier_blocks{tier="dram"}'
SERVICES = {
    "router": {"hearthkv.v1.Router", "hearthkv.v1.Membership"},
    "cachenode": {"hearthkv.v1.CacheNode", "hearthkv.v1.DirectPath"},
}
STANDARD_SERVICES = {"grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"}
SMALL_SSD = ("--cache-capacity-gb=0.1", "--hbm-ratio=0", "--dram-ratio=0", "--ssd-ratio=1")


class ServerContainer(DockerContainer):
    """A container of one of our images; its ports are open on this machine's loopback."""

    def __init__(self, image: str, port: int) -> None:
        super().__init__(image)
        self.address, self.metrics_address = publish(self, port, port + 2000)
        self.with_kwargs(labels={LABEL: "images"})
        self.waiting_for(LogMessageWaitStrategy("READY address="))


@dataclass(frozen=True)
class Small:
    """A router, a node and its Redis, on a network of their own."""

    router: ServerContainer
    cachenode: ServerContainer


@pytest.fixture(scope="module")
def images(docker_engine: object) -> dict[str, str]:
    """The images by target, built from the tree as it is. They stay, for the next build."""
    names = {}
    for target in SERVICES:
        image = DockerImage(
            ROOT,
            tag=f"hearthkv-test-{target}",
            clean_up=False,
            dockerfile_path="deploy/Dockerfile",
            target=target,
        )
        with image:
            names[target] = str(image)
    return names


@pytest.fixture(scope="module")
def small(images: dict[str, str]) -> Iterator[Small]:
    with ExitStack() as stack:
        network = stack.enter_context(Network(docker_network_kw={"labels": {LABEL: "images"}}))
        redis = RedisContainer("redis:7-bookworm", password=PASSWORD)
        publish(redis)  # no port at all
        redis.waiting_for(LogMessageWaitStrategy("Ready to accept connections"))
        redis.with_network(network).with_network_aliases("redis")
        redis.with_kwargs(labels={LABEL: "images"})
        router = ServerContainer(images["router"], 7400)
        router.with_network(network).with_network_aliases("router")
        node = ServerContainer(images["cachenode"], 7500).with_network(network)
        node.with_command(
            [
                *("--node-id=alone", f"--advertise={node.address}", "--routers=router:7400"),
                *(f"--redis-urls=redis://:{PASSWORD}@redis:6379/0", "--cache-capacity-gb=0.1"),
            ]
        )
        for container in (redis, router, node):
            stack.enter_context(container)
        yield Small(router, node)


def test_a_turn_that_is_saved_is_loaded_again(small: Small):
    with connect_blocking(small.router.address, settings=PATIENT) as kv:
        eventually(lambda: nodes_in_state(kv, NodeState.LIVE) == {"alone"}, wanted="a live node")
        first = play_turn(kv, "images", prompt(1, BLOCKS))
        assert (first.reason, first.loaded.blocks) == (PlacementReason.HOME, 0)
        assert first.finished.saved_blocks == BLOCKS
        second = play_turn(kv, "images", prompt(1, BLOCKS + 1))
        assert second.loaded.by_tier.dram == BLOCKS
    eventually(
        lambda: metric_values(small.cachenode.metrics_address)[DRAM_BLOCKS] == BLOCKS + 1,
        wanted="the metrics show the blocks",
    )


@pytest.mark.parametrize("target", SERVICES)
def test_a_server_lists_its_services_and_says_that_it_serves(small: Small, target: str):
    address = getattr(small, target).address
    assert services_of(address) == SERVICES[target] | STANDARD_SERVICES
    assert all(is_serving(address, service) for service in ("", *SERVICES[target]))


@pytest.mark.parametrize("target", SERVICES)
def test_the_health_check_of_the_image_passes(small: Small, target: str):
    container = getattr(small, target).get_wrapped_container()

    def health() -> str:
        container.reload()
        return str(container.health)

    eventually(lambda: health() == "healthy", wanted="the container is healthy")


@pytest.mark.parametrize("target", SERVICES)
def test_the_server_is_pid_1_and_not_root(small: Small, target: str):
    container = getattr(small, target)
    status = container.exec(["cat", "/proc/1/status"]).output.decode()
    fields = dict(line.split(":\t", 1) for line in status.splitlines())
    assert fields["Name"].startswith("hearthkv-")
    assert "0" not in fields["Uid"].split()


@pytest.mark.parametrize(
    ("target", "port", "arguments"),
    [("router", 7400, ()), ("cachenode", 7500, SMALL_SSD)],
    ids=["router", "cachenode"],
)
def test_docker_stop_ends_a_server_cleanly(
    images: dict[str, str], target: str, port: int, arguments: tuple[str, ...]
):
    with ServerContainer(images[target], port).with_command(list(arguments)) as container:
        container.get_wrapped_container().stop(timeout=30)
        assert container.wait() == 0  # 137 would be the kill after the timeout


@pytest.mark.parametrize("target", SERVICES)
def test_an_impossible_setting_ends_the_container_with_one_line(
    images: dict[str, str], target: str
):
    container = DockerContainer(images[target]).with_command(["--drain-s=-1"])
    with container.with_kwargs(labels={LABEL: "images"}):
        assert container.wait() == 2
        said = container.get_logs()[1].decode().splitlines()
    assert said == [
        f"hearthkv-{target}: --drain-s (drain_s): [{target}] drain_s is -1.0, must be >= 0"
    ]
