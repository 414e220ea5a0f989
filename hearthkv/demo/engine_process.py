"""The reference engine's process: it opens model, client and HTTP port, and closes them again."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from aiohttp import web

import hearthkv
from hearthkv.client import events as client_events
from hearthkv.client.kv import HearthKV
from hearthkv.client.settings import ClientSettings
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
from hearthkv.demo.model_package import check_revision, find_model_file
from hearthkv.demo.prefix import PrefixSource
from hearthkv.metrics import PrometheusMeters
from hearthkv.process import announce_ready
from hearthkv.telemetry import Telemetry

DRAIN_S = 2.0
"""Seconds that running requests get to finish after a signal; then they are cancelled."""


def installed_model() -> Path:
    """
    Return the file of the model that is installed, checked to be the one that is named.

    Raises:
        ModelFileError: If there is none, or its content is another.
    """
    path = find_model_file()
    check_revision(path)
    return path


async def serve(
    settings: EngineSettings,
    kv_cache: KvCacheSettings,
    stop: asyncio.Event,
    find_model: Callable[[], Path] = installed_model,
    patience: ClientSettings | None = None,
) -> None:
    """
    Serve until `stop` is set.

    Args:
        settings: The section `[engine]`.
        kv_cache: The section `[kv_cache]`.
        stop: Set by whoever wants the engine to end.
        find_model: Gives the model's file, or raises ModelFileError.
        patience: How long the engine waits for routers and nodes; None for the usual.

    Raises:
        StartupError: If the model can't be loaded or the port can't be opened.
    """
    clock = SystemClock()
    meters = PrometheusMeters((*METRICS, *client_events.METRICS))
    telemetry = Telemetry(logging.getLogger("hearthkv.engine"), meters)
    started_s = clock.now()
    model = await asyncio.to_thread(_load_model, find_model, kv_cache.block_size, settings.threads)
    async with AsyncExitStack() as stack:
        stack.callback(model.decoder.close)
        kv = await stack.enter_async_context(_client(settings, patience, meters))
        pool = HbmPool(
            kv_cache.limit_bytes(Tier.HBM), model.namespace.block_bytes, kv_cache.offload_threshold
        )
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
        stack.push_async_callback(engine.close)
        telemetry.emit(
            ModelLoaded(
                model=model.name,
                revision=model.namespace.revision[:12],
                block_bytes=model.namespace.block_bytes,
                hbm_limit_bytes=pool.limit_bytes,
                seconds=clock.now() - started_s,
            )
        )
        address = await stack.enter_async_context(listening(settings.listen, engine, meters))
        announce_ready(address, address)
        await stop.wait()


def _load_model(find_model: Callable[[], Path], block_size: int, threads: int) -> Model:
    try:
        return Model.load(find_model(), block_size=block_size, threads=threads)
    except ModelFileError as error:
        raise StartupError(str(error)) from error


@asynccontextmanager
async def _client(
    settings: EngineSettings, patience: ClientSettings | None, meters: PrometheusMeters
) -> AsyncIterator[HearthKV | None]:
    if not settings.node and not settings.routers:
        yield None
        return
    # Beside a node there is nothing to ask a router for.
    routers = () if settings.node else settings.routers
    telemetry = Telemetry(logging.getLogger("hearthkv.client"), meters)
    async with hearthkv.connect(routers, settings=patience, telemetry=telemetry) as kv:
        yield kv


@asynccontextmanager
async def listening(listen: str, engine: Engine, meters: PrometheusMeters) -> AsyncIterator[str]:
    """
    Open the HTTP port; give its address, with the port that was really taken.

    Raises:
        StartupError: If the port can't be opened.
    """
    host, port = split_address(listen)
    # A request ends with its connection: nobody pays for an answer that nobody reads.
    runner = web.AppRunner(
        make_app(engine, meters),
        access_log=None,
        handler_cancellation=True,
        shutdown_timeout=DRAIN_S,
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        try:
            await site.start()
        except OSError as error:
            raise StartupError(
                f"can't listen on {listen}: {error.strerror}; choose another --listen"
            ) from error
        host_text, _, _ = listen.rpartition(":")  # with the brackets of IPv6
        yield f"{host_text}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
