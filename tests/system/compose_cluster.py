"""compose.yaml as it stands, but under a name of its own and with other ports of this machine."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from testcontainers.compose import ComposeContainer, DockerCompose

from tests.house.tree import ROOT
from tests.system.metrics_page import metric_values
from tests.system.waiting import eventually

PROJECT = "hearthkv-test"

PORT_SHIFT = 20_000
"""The cluster of somebody who works with this one keeps 7400 and its neighbours."""

NODES = ("node-a", "node-b", "node-c")


class ComposeCluster(DockerCompose):
    """The cluster of compose.yaml, and what can happen to it. Misfortunes end with their block."""

    @cached_property
    def compose_command_property(self) -> list[str]:
        # Of all profiles, so that `down` leaves nothing.
        options = ("--project-directory", str(ROOT), "--profile", "*")
        return [*super().compose_command_property, *options]

    @property
    def router_address(self) -> str:
        return f"127.0.0.1:{7400 + PORT_SHIFT}"

    def start(self) -> None:
        """Build the cluster's images and start it, without what belongs to a profile."""
        self.stop()  # what a killed run has left
        self.run("build", "--quiet", "router", "node-a")
        try:
            self.run("up", "--wait", "router", *NODES)
        except AssertionError as error:
            error.add_note(self.run("logs", "--no-color", "--tail", "20"))
            raise

    def stop(self, down: bool = True) -> None:
        self.run("down", "--volumes", "--remove-orphans", "--timeout", "5")

    def run(self, *arguments: str) -> str:
        """Run a `docker compose` command to its end; return what it printed."""
        return docker(*self.compose_command_property[1:], *arguments)

    def run_demo(self, *arguments: str) -> str:
        """Play the demo, which starts all that it needs; return what it printed."""
        return self.run("run", "--rm", "--no-TTY", "demo", *arguments)

    def demo_file(self, name: str) -> str:
        """Return a file that the demo has left in its volume."""
        cat = ("--no-deps", "--entrypoint", "cat", "demo", name)
        return self.run("run", "--rm", "--no-TTY", *cat)

    def metrics(self, node: str) -> dict[str, float]:
        port = 9501 + NODES.index(node) + PORT_SHIFT
        return metric_values(f"127.0.0.1:{port}")

    def is_healthy(self, service: str) -> bool:
        return any(
            container.Service == service and container.Health == "healthy"
            for container in self.get_containers()
        )

    def containers(self) -> list[ComposeContainer]:
        return self.get_containers(include_all=True)

    @contextmanager
    def killed(self, service: str) -> Iterator[None]:
        """Without a service, as after a crash."""
        self.run("kill", service)
        try:
            yield
        finally:
            self.run("start", service)

    @contextmanager
    def cut_off(self, service: str) -> Iterator[None]:
        """With a service that no other one reaches. Its published port stays."""
        network, container = f"{PROJECT}_cluster", f"{PROJECT}-{service}-1"
        docker("network", "disconnect", network, container)
        try:
            yield
        finally:
            docker("network", "connect", "--alias", f"{service}.cluster", network, container)

    def wait_healthy(self, service: str) -> None:
        eventually(lambda: self.is_healthy(service), wanted=f"{service} is healthy")


def compose_cluster(folder: Path) -> ComposeCluster:
    """Return the cluster, not started yet."""
    text = (ROOT / "compose.yaml").read_text()
    text = text.replace("name: hearthkv\n", f"name: {PROJECT}\n", 1)
    text = re.sub(r"127\.0\.0\.1:(\d+)", _shifted, text)
    file = folder / "compose.yaml"
    file.write_text(text)
    return ComposeCluster(ROOT, str(file))


def _shifted(found: re.Match[str]) -> str:
    return f"127.0.0.1:{int(found[1]) + PORT_SHIFT}"


def docker(*arguments: str) -> str:
    """Run a `docker` command to its end; return what it printed."""
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"docker {' '.join(arguments)}:\n{done.stdout}{done.stderr}"
    return done.stdout
