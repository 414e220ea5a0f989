"""The reference engine's process: it opens model, client and HTTP port, and closes them again."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from aiohttp import web

import hearthkv
from hearthkv.client.kv import HearthKV
from hearthkv.core.address import split_address
from hearthkv.core.clock import SystemClock
from hearthkv.core.errors import ModelFileError, StartupError
from hearthkv.core.kv_cache_settings import KvCacheSettings
from hearthkv.core.tier import Tier
from hearthkv.demo.engine import Engine
from hearthkv.demo.engine_events import METRICS, ModelLoaded
from hearthkv.demo.engine_server import make_app
from hearthkv.demo.engine_settings import EngineSettings
from hearthkv.demo.hbm_pool import HbmPool
from hearthkv.demo.model import Model
from hearthkv.demo.model_package import find_model_file
from hearthkv.demo.prefix import PrefixSource
from hearthkv.metrics import PrometheusMeters
from hearthkv.process import announce_ready
from hearthkv.telemetry import Telemetry


async def serve(settings: EngineSettings, kv_cache: KvCacheSettings, stop: asyncio.Event) -> None:
    """
    Serve until `stop` is set.

    Raises:
        StartupError: If the model can't be loaded or the port can't be opened.
    """
    clock = SystemClock()
    meters = PrometheusMeters(METRICS)
    telemetry = Telemetry(logging.getLogger("hearthkv.engine"), meters)
    started_s = clock.now()
    model = await asyncio.to_thread(_load_model, kv_cache.block_size, settings.threads)
    pool = HbmPool(
        kv_cache.limit_bytes(Tier.HBM), model.namespace.block_bytes, kv_cache.offload_threshold
    )
    telemetry.emit(
        ModelLoaded(
            model=model.name,
            revision=model.namespace.revision[:12],
            block_bytes=model.namespace.block_bytes,
            hbm_limit_bytes=pool.limit_bytes,
            seconds=clock.now() - started_s,
        )
    )
    async with AsyncExitStack() as stack:
        stack.callback(model.decoder.close)
        kv = await stack.enter_async_context(_client(settings))
        source = PrefixSource(
            kv,
            node_address=settings.node or None,
            namespace=model.namespace,
            pool=pool,
            clock=clock,
            telemetry=telemetry,
        )
        stack.push_async_callback(source.close)
        engine = Engine(
            model, source, clock=clock, telemetry=telemetry, requests_max=settings.requests_max
        )
        address = await stack.enter_async_context(_listening(settings.listen, engine, meters))
        announce_ready(address, address)
        await stop.wait()


def _load_model(block_size: int, threads: int) -> Model:
    try:
        return Model.load(find_model_file(), block_size=block_size, threads=threads)
    except ModelFileError as error:
        raise StartupError(str(error)) from error


@asynccontextmanager
async def _client(settings: EngineSettings) -> AsyncIterator[HearthKV | None]:
    if not settings.node and not settings.routers:
        yield None
        return
    async with hearthkv.connect(settings.routers) as kv:
        yield kv


@asynccontextmanager
async def _listening(listen: str, engine: Engine, meters: PrometheusMeters) -> AsyncIterator[str]:
    """Open the HTTP port; give its address, with the port that was really taken."""
    host, port = split_address(listen)
    runner = web.AppRunner(make_app(engine, meters), access_log=None, shutdown_timeout=2.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        try:
            await site.start()
        except OSError as error:
            raise StartupError(
                f"can't listen on {listen}: {error.strerror}; choose another --listen"
            ) from error
        yield f"{host}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
