"""A cache node of ours as a child process of the bench, and a client that talks to it. Not pure."""

import asyncio
import re
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Self

import numpy as np

from bench.datapath.load import Load
from bench.datapath.row import RowUnavailableError
from bench.datapath.servers import Server
from hearthkv.client.kv import HearthKV, connect
from hearthkv.client.settings import ClientSettings
from hearthkv.client.turn import Turn
from hearthkv.core.block_io import DropNamespace
from hearthkv.core.kv_cache_settings import GIB
from hearthkv.core.namespace import NamespaceSpec

READY = re.compile(r"READY address=(\S+) metrics=\S+\n")
START_S = 30.0
PATIENCE_S = 300.0
BLOCK_SIZE = 16
SPARE = 1.25
"""Capacity over what a row stores: frames, and room for what is not erased yet."""


class NodeProcess:
    """
    A node, and one client of it. Started by `start`.

    Args:
        dram_blocks, ssd_blocks: What its tiers have room for; 0 switches one off.
    """

    def __init__(self, process: Process, address: str, kv: HearthKV, load: Load) -> None:
        self.pid = process.pid
        self._process = process
        self._address = address
        self._kv = kv
        self._load = load
        self._spec = NamespaceSpec(b"datapath" * 2, BLOCK_SIZE, load.block_bytes)

    @classmethod
    async def start(
        cls,
        server: Server,
        load: Load,
        name: str,
        *,
        dram_blocks: float,
        ssd_blocks: float,
        is_direct_path: bool,
        is_direct_io: bool = False,
    ) -> Self:
        """
        Start a node of this name, with an empty folder of its own.

        Raises:
            RowUnavailableError: If it does not start; the text is what it said last.
        """
        folder = load.path.with_name(f"{name}-{server.kind.key}-{load.block_bytes}")
        total = (dram_blocks + ssd_blocks) * (load.block_bytes + 8192)
        dram_ratio = dram_blocks / (dram_blocks + ssd_blocks)
        settings = {
            "node-id": name,
            "listen": "127.0.0.1:0",
            "metrics-port": "-1",
            "redis-urls": f"unix://{server.socket_path}",
            "ssd-dir": str(folder),
            "cache-capacity-gb": str(total / GIB),
            "hbm-ratio": "0",
            "dram-ratio": str(dram_ratio),
            "ssd-ratio": str(1 - dram_ratio),
            "offload-threshold": "1",
            "log-level": "error",
        }
        command = [str(Path(sys.executable).with_name("hearthkv-cachenode"))]
        command += [f"--{flag}={value}" for flag, value in settings.items()]
        command += [f"--ssd-direct-io={str(is_direct_io).lower()}"]
        process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)
        assert process.stdout is not None
        assert process.stderr is not None
        async with asyncio.timeout(START_S):
            ready = READY.fullmatch((await process.stdout.readline()).decode())
        if ready is None:
            raise RowUnavailableError((await process.stderr.read()).decode()[-300:])
        kv = connect(
            settings=ClientSettings(
                direct_path=is_direct_path,
                load_gate=False,
                queue_bytes_max=2 * load.total_bytes,
                read_s=PATIENCE_S,
                save_s=PATIENCE_S,
                finish_s=PATIENCE_S,
                stall_s=PATIENCE_S,
                match_s=PATIENCE_S,
            )
        )
        return cls(process, ready.group(1), kv, load)

    async def save(self) -> Turn:
        """Save all blocks of the source; return the turn."""
        tokens = np.arange(self._load.block_count * BLOCK_SIZE, dtype=np.uint32)
        turn = await self._kv.begin_turn("bench", self._spec, tokens, node=self._address)
        source = self._load.source
        queued = turn.save(0, [source[part] for part in self._load.slices])
        done = await turn.finish()
        if not queued == done.saved_blocks == self._load.block_count:
            raise RowUnavailableError(
                f"{done.saved_blocks} of {self._load.block_count} blocks are saved: {done.miss}"
            )
        return turn

    async def load(self, turn: Turn) -> None:
        """Load all blocks into the destination."""
        loaded = await turn.load_into(self._load.destination)
        if loaded.blocks != self._load.block_count:
            raise RowUnavailableError(
                f"{loaded.blocks} of {self._load.block_count} blocks are loaded: {loaded.miss}"
            )

    async def forget(self) -> None:
        """Have the node forget everything."""
        await self._kv.drop(self._address, DropNamespace(self._spec.namespace_id))

    async def close(self) -> None:
        """End the client and the node."""
        await self._kv.close()
        if self._process.returncode is None:
            self._process.terminate()
        await self._process.communicate()
