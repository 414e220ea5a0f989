"""The demo of compose.yaml: an agent and three engines with a real model, all in containers."""

import json
from collections.abc import Iterator

import pytest

from tests.system.compose_cluster import ComposeCluster, compose_cluster

pytestmark = [pytest.mark.docker, pytest.mark.timeout(1500)]


@pytest.fixture
def cluster(docker_engine: object, tmp_path) -> Iterator[ComposeCluster]:
    cluster = compose_cluster(tmp_path)
    try:
        cluster.stop()  # what a killed run has left
        yield cluster
    finally:
        cluster.stop()


def test_the_demo_plays_a_session_across_containers(cluster: ComposeCluster):
    cluster.run("build", "--quiet", "router", "node-a", "engine-a", "demo")
    # With as little as shows the point: one round to fill the cache, one to take from it.
    said = cluster.run_demo("--tokens", "2000", "--rounds", "2")
    assert "One session, without the cache and with it" in said
    assert "cache_hit_ratio from round 2 on: 0.9" in said
    figures = json.loads(cluster.demo_file("demo.json"))
    assert [turn["round"] for turn in figures["with_cache"]] == [1, 2]
    assert figures["with_cache"][1]["cached_tokens"] > 1700
