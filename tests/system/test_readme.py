"""The README's code runs as it stands, but for the port; in both languages."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from cachenode import server as cachenode_server
from cachenode.settings import CacheNodeSettings
from hearthkv.core.clock import SystemClock
from hearthkv.core.kv_cache_settings import KvCacheSettings
from router import server as router_server
from router.settings import RouterSettings
from tests.house.tree import ROOT
from tests.system.readme_code import readme_code

SSD_ONLY = KvCacheSettings(cache_capacity_gb=0.01, hbm_ratio=0.0, dram_ratio=0.0, ssd_ratio=1.0)


@pytest.fixture
async def router_address(tmp_path: Path) -> AsyncIterator[str]:
    """A router on any free port, with one live node."""
    router_settings = RouterSettings(listen="127.0.0.1:0", metrics_port=-1)
    async with router_server.running(router_settings, SystemClock()) as router:
        node_settings = CacheNodeSettings(
            listen="127.0.0.1:0",
            routers=[router.address],
            ssd_dir=str(tmp_path / "ssd"),
            metrics_port=-1,
        )
        async with cachenode_server.running(node_settings, SSD_ONLY, SystemClock()):
            async with asyncio.timeout(30), aclosing(router.watch.node_lists()) as lists:
                await anext(nodes async for _, nodes in lists if nodes)
            yield router.address


@pytest.mark.parametrize("page", ["README.md", "README.zh-CN.md"])
async def test_the_code_on_the_first_page_runs_twice(router_address: str, page: str):
    code = readme_code(page, router_address)
    for saved_before in (0, 4):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-W", "error", "-c", code),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await process.communicate()
        assert (process.returncode, errors.decode()) == (0, "")
        assert f"already_held_blocks={saved_before}" in output.decode()
        assert "matched tokens: 64" in output.decode()
        assert "loaded tokens: 64" in output.decode()
