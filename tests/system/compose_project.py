"""A compose file under a name of its own, and what can happen to its services. Not pure."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from testcontainers.compose import ComposeContainer, DockerCompose


class ComposeProject(DockerCompose):
    """
    The services of one or more compose files. Misfortunes end with their block.

    Args:
        folder: What relative paths of the files start from.
        files: The compose files; a later one adds to those before it.
        project: The name that all containers and networks begin with.
    """

    def __init__(self, folder: Path, files: Sequence[Path], project: str) -> None:
        super().__init__(folder, [str(file) for file in files])
        self.project = project

    @cached_property
    def compose_command_property(self) -> list[str]:
        # Of all profiles, so that `down` leaves nothing.
        return [
            *super().compose_command_property,
            *("--project-directory", str(self.context), "--project-name", self.project),
            *("--profile", "*"),
        ]

    def stop(self, down: bool = True) -> None:
        """Remove everything, also what a killed run has left; a frozen process would not die."""
        self.unpause_all()
        self.run("down", "--volumes", "--remove-orphans", "--timeout", "5")

    def run(self, *arguments: str) -> str:
        """Run a `docker compose` command to its end; return what it printed."""
        return docker(*self.compose_command_property[1:], *arguments)

    def containers(self) -> list[ComposeContainer]:
        return self.get_containers(include_all=True)

    def container(self, service: str) -> str:
        """The name of a service's container."""
        return f"{self.project}-{service}-1"

    def unpause_all(self) -> None:
        paused = self.run("ps", "--status", "paused", "--quiet").split()
        if paused:
            docker("unpause", *paused)

    @contextmanager
    def killed(self, service: str) -> Iterator[None]:
        """Without a service, as after a crash."""
        docker("kill", self.container(service))
        try:
            yield
        finally:
            docker("start", self.container(service))

    @contextmanager
    def paused(self, service: str) -> Iterator[None]:
        """With a service that hangs: its connections stay, and nobody answers."""
        docker("pause", self.container(service))
        try:
            yield
        finally:
            docker("unpause", self.container(service))

    @contextmanager
    def cut_off(self, service: str, network: str, *aliases: str) -> Iterator[None]:
        """With a service that is not on a network; back there it has these names again."""
        network, container = f"{self.project}_{network}", self.container(service)
        docker("network", "disconnect", network, container)
        try:
            yield
        finally:
            names = [word for alias in aliases for word in ("--alias", alias)]
            docker("network", "connect", *names, network, container)


def docker(*arguments: str) -> str:
    """Run a `docker` command to its end; return what it printed."""
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"docker {' '.join(arguments)}:\n{done.stdout}{done.stderr}"
    return done.stdout
