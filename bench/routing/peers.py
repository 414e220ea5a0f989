"""Other routers, each in a process and an environment of its own. Not pure."""

from pathlib import Path

from bench.datapath.child_process import ChildProcess
from bench.datapath.row import RowUnavailableError
from bench.routing.figures import PeerRow
from bench.routing.workload import PROMPT_TOKENS

PEERS = ("dynamo-router", "sglang-router", "vllm-router")
"""Each has a program `bench/peers/NAME_peer.py`, the hyphen an underscore."""


async def measure_peer(name: str, python: Path | None, folder: Path) -> list[PeerRow]:
    """
    Measure a peer at all lengths.

    Raises:
        RowUnavailableError: If no interpreter was given, or the peer fails.
    """
    if python is None:
        raise RowUnavailableError(f"no --peer-python {name}=PATH was given")
    module = f"bench.peers.{name.replace('-', '_')}_peer"
    child = await ChildProcess.start(python, "-m", module, log_path=folder / f"{name}.log")
    try:
        rows: list[PeerRow] = []
        for tokens in PROMPT_TOKENS:
            said = await child.ask({"prompt_tokens": tokens})
            for row_name, times in said.items():
                assert isinstance(times, list)
                p50_ns, p99_ns = times
                rows.append(PeerRow(f"{name}: {row_name}", tokens, p50_ns / 1000, p99_ns / 1000))
        return rows
    finally:
        await child.close()
