"""Every server of a cluster gets its place and its command line."""

import tomllib
from pathlib import Path

from hearthkv.core.kv_cache_settings import KvCacheSettings
from hearthkv.demo.cluster_plan import (
    ClusterPlan,
    ServerCommands,
    kv_cache_toml,
    lay_out,
    port_count,
    server_specs,
)

COMMANDS = ServerCommands(router=("r",), cachenode=("c",), engine=("e",), redis=("db",))
PLAN = ClusterPlan(nodes=2, commands=COMMANDS)
PORTS = list(range(7001, 7009))


def commands() -> dict[str, str]:
    layout = lay_out(PLAN, Path("/run/x"), PORTS)
    specs = server_specs(COMMANDS, layout)
    return {name: " ".join(spec.command) for name, spec in specs.items()}


def test_each_port_is_used_once():
    assert port_count(PLAN) == len(PORTS)
    text = " ".join(commands().values())
    assert all(str(port) in text for port in PORTS)


def test_the_router_can_be_given_a_port():
    layout = lay_out(ClusterPlan(nodes=1, router_port=7400), Path("/run/x"), PORTS[:5])
    assert layout.router_address == "127.0.0.1:7400"


def test_a_node_knows_its_router_its_redis_and_its_engine():
    assert commands()["node-1"] == (
        "c --config /run/x/kv_cache.toml --node-id node-1 --listen 127.0.0.1:7003 "
        "--metrics-port 7004 --engine-url http://127.0.0.1:7005 --routers 127.0.0.1:7001 "
        "--redis-urls unix:///run/x/redis-1.sock --ssd-dir /run/x/ssd-node-1"
    )


def test_an_engine_talks_to_the_node_beside_it():
    assert commands()["engine-2"] == (
        "e --config /run/x/kv_cache.toml --listen 127.0.0.1:7008 --node 127.0.0.1:7006"
    )


def test_redis_listens_on_its_socket_alone_and_evicts_nothing():
    command = commands()["redis-1"]
    assert "--port 0 --unixsocket /run/x/redis-1.sock --unixsocketperm 700" in command
    assert "--maxmemory-policy noeviction" in command


def test_the_settings_file_says_what_the_settings_say():
    settings = KvCacheSettings(cache_capacity_gb=0.25, prefetch_enabled=False)
    table = tomllib.loads(kv_cache_toml(settings))["kv_cache"]
    assert KvCacheSettings(**table) == settings
