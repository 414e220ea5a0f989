"""What the system tests share: whether there is a Docker engine, and that nothing is left in it."""

import os
from collections.abc import Iterator

import docker
import pytest
from docker.errors import DockerException
from testcontainers.core.config import testcontainers_config

LABEL = "hearthkv.test"
"""On every container and network that tests start by themselves."""

# Its image can't be pulled everywhere. Fixtures remove what they start, and the next run removes
# what a killed one has left.
testcontainers_config.ryuk_disabled = True


@pytest.fixture(scope="session")
def docker_engine() -> Iterator[docker.DockerClient]:
    """A Docker engine that answers; without one, a skip, or a failure if REQUIRE_DOCKER is 1."""
    try:
        client = docker.from_env()
        client.ping()
    except DockerException as error:
        message = f"no Docker engine answers: {error}"
        if os.environ.get("REQUIRE_DOCKER") == "1":
            pytest.fail(message)
        pytest.skip(message)
    remove_leftovers(client)
    yield client
    remove_leftovers(client)
    client.close()


def remove_leftovers(client: docker.DockerClient) -> None:
    for container in client.containers.list(all=True, filters={"label": LABEL}):
        if container.status == "paused":
            container.unpause()  # a frozen process does not even hear SIGKILL
        container.remove(force=True, v=True)
    for network in client.networks.list(filters={"label": LABEL}):
        network.remove()
