"""What the system tests share: whether there is a Docker engine, and that nothing is left in it."""

import os
import subprocess
from collections.abc import Iterator

import docker
import pytest
from testcontainers.core.config import testcontainers_config

LABEL = "hearthkv.test"
"""On every container and network that tests start by themselves."""

# Its image can't be pulled everywhere. Fixtures remove what they start, and the next run removes
# what a killed one has left.
testcontainers_config.ryuk_disabled = True


@pytest.fixture(scope="session")
def docker_engine() -> Iterator[docker.DockerClient]:
    """A Docker engine that answers; without one, a skip, or a failure if REQUIRE_DOCKER is 1."""
    trouble = docker_trouble()
    if trouble and os.environ.get("REQUIRE_DOCKER") == "1":
        pytest.fail(trouble)
    if trouble:
        pytest.skip(trouble)
    client = docker.from_env()
    remove_leftovers(client)
    yield client
    remove_leftovers(client)
    client.close()


def docker_trouble() -> str:
    """Why no containers can be started here; empty where they can."""
    for command in (("version",), ("compose", "version")):
        try:
            subprocess.run(["docker", *command], check=True, capture_output=True, text=True)
        except FileNotFoundError:
            return "there is no `docker` command"
        except subprocess.CalledProcessError as error:
            return f"`docker {' '.join(command)}` fails: {error.stderr.strip()}"
    return ""


def remove_leftovers(client: docker.DockerClient) -> None:
    for container in client.containers.list(all=True, filters={"label": LABEL}):
        if container.status == "paused":
            container.unpause()  # a frozen process does not even hear SIGKILL
        container.remove(force=True, v=True)
    for network in client.networks.list(filters={"label": LABEL}):
        network.remove()
