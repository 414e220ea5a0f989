"""compose.yaml as it stands, but under a name of its own and with other ports of this machine."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.house.tree import ROOT
from tests.system.compose_project import ComposeProject
from tests.system.metrics_page import metric_values
from tests.system.waiting import eventually

PROJECT = "hearthkv-test"

PORT_SHIFT = 20_000
"""The cluster of somebody who works with this one keeps 7400 and its neighbours."""

NODES = ("node-a", "node-b", "node-c")


class ComposeCluster(ComposeProject):
    """The cluster of compose.yaml."""

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

    @contextmanager
    def unreachable(self, service: str) -> Iterator[None]:
        """With a service that no other one reaches. Its published port stays."""
        with self.cut_off(service, "cluster", f"{service}.cluster"):
            yield

    def wait_healthy(self, service: str) -> None:
        eventually(lambda: self.is_healthy(service), wanted=f"{service} is healthy")


def compose_cluster(folder: Path) -> ComposeCluster:
    """Return the cluster, not started yet."""
    text = (ROOT / "compose.yaml").read_text()
    text = re.sub(r"127\.0\.0\.1:(\d+)", _shifted, text)
    file = folder / "compose.yaml"
    file.write_text(text)
    return ComposeCluster(ROOT, [file], PROJECT)


def _shifted(found: re.Match[str]) -> str:
    return f"127.0.0.1:{int(found[1]) + PORT_SHIFT}"
