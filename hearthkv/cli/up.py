"""`hearthkv up`: keeps a cluster running on this machine, and says how to talk to it."""

import sys

from rich.console import Console

from hearthkv.cli.arguments import UpOptions
from hearthkv.cli.interrupt import run_until_signalled
from hearthkv.core.kv_cache_settings import KvCacheSettings
from hearthkv.demo.cluster_plan import HOST, ClusterLayout, ClusterPlan
from hearthkv.demo.local_cluster import local_cluster
from hearthkv.demo.model_package import MODEL_NAME, find_model_file
from hearthkv.grpc_server import check_free


def run(options: UpOptions) -> int:
    """
    Keep a cluster running until a signal, and return the exit code.

    Raises:
        StartupError: If the cluster doesn't come up.
        ModelFileError: If the model is not installed.
    """
    find_model_file()
    check_free(HOST, options.port, choose="--port")
    console = Console(highlight=False, soft_wrap=True)
    try:
        run_until_signalled(_keep_up(options, console))
    except KeyboardInterrupt:
        console.print("All servers are stopped.")
    return 0


def how_to_talk(layout: ClusterLayout, command: str = "hearthkv") -> str:
    """
    Return what a person may want to copy: addresses, a curl and a few lines of Python.

    Args:
        layout: The cluster.
        command: How this very command was called, so that its sister can be called likewise.
    """
    engine_url = layout.nodes[0].engine_url
    nodes = "\n".join(
        f"  {node.name:<8} {node.address}   engine {node.engine_url}   metrics {node.metrics_url}"
        for node in layout.nodes
    )
    return f"""\
Router     {layout.router_address}   metrics {layout.router_metrics_url}
Nodes
{nodes}
Logs       {layout.run_folder}

Ask an engine:

curl -s {engine_url}/v1/chat/completions -H 'Content-Type: application/json' -d '{{
  "model": "{MODEL_NAME}", "max_tokens": 24,
  "messages": [{{"role": "user", "content": "Name three rivers."}}],
  "metadata": {{"session_id": "mine", "cache_hint": "reuse"}}}}'

Ask the router from Python:

import hearthkv
with hearthkv.connect_blocking("{layout.router_address}") as kv:
    for node in kv.list_nodes():
        print(node.endpoint.node_id, node.endpoint.engine_url)

Or look at it:  {command} status --router {layout.router_address}
Stop it with Ctrl-C."""


async def _keep_up(options: UpOptions, console: Console) -> None:
    plan = ClusterPlan(
        nodes=options.nodes,
        router_port=options.port,
        kv_cache=KvCacheSettings(cache_capacity_gb=options.capacity_gb),
    )
    count = "1 node and its engine" if options.nodes == 1 else f"{options.nodes} nodes and engines"
    console.print(f"Starting a router, {count} ...")
    async with local_cluster(plan) as cluster:
        console.print(how_to_talk(cluster.layout, sys.argv[0]), markup=False)
        async for ended in cluster.ends():
            console.print(
                f"{ended.name} ended by itself with code {ended.exit_code}; the rest goes on. "
                f"Its log: {cluster.layout.log_path(ended.name)}",
                markup=False,
            )
