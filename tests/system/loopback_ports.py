"""Publishes a container's ports on this machine's loopback: testcontainers would do so on all."""

from testcontainers.core.container import DockerContainer

from hearthkv.demo.local_cluster import free_ports

HOST = "127.0.0.1"


def publish(container: DockerContainer, *ports: int) -> list[str]:
    """Publish ports of a container that was not started yet; return where, as host:port."""
    chosen = free_ports(len(ports))
    container.ports = {
        str(port): (HOST, here)  # type: ignore[misc]  # as docker-py takes it
        for port, here in zip(ports, chosen, strict=True)
    }
    return [f"{HOST}:{here}" for here in chosen]
