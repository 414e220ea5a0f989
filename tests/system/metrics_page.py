"""Reads a /metrics page as Prometheus does."""

import urllib.request


def metric_values(address: str) -> dict[str, float]:
    """Return every sample: `cachenode_tier_healthy{tier="dram"}` to 1.0."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as page:
        text = page.read().decode()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def metric_names(address: str) -> set[str]:
    """Return the names of all metrics, also of those that have no sample yet."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as page:
        text = page.read().decode()
    return {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")}
