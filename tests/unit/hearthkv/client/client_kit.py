"""A small namespace, its prompt, and clients with short deadlines, for the tests of the client."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from hearthkv.client.attachments import Attachments
from hearthkv.client.channels import Channels
from hearthkv.client.direct_calls import DirectCalls
from hearthkv.client.direct_writer import DirectWriter
from hearthkv.client.kv import HearthKV, connect
from hearthkv.client.node_client import NodeClient
from hearthkv.client.peer_calls import PeerCalls
from hearthkv.client.peers import Peers
from hearthkv.client.router_client import RouterClient
from hearthkv.client.saver import Saver
from hearthkv.client.settings import ClientSettings
from hearthkv.core.block_key import KeyChain
from hearthkv.core.clock import ManualClock
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.telemetry import NoMeters, Telemetry
from tests.fakes.node import FakeNode

BLOCK_BYTES = 3000  # three chunks of the fake node
SPEC = NamespaceSpec(b"n" * 16, block_size=4, block_bytes=BLOCK_BYTES)
TOKENS = range(22)
BLOCKS = 5
KEYS = KeyChain(SPEC.namespace_id, SPEC.block_size).keys_of(TOKENS)
PAYLOADS = [bytes([65 + index]) * BLOCK_BYTES for index in range(BLOCKS)]

PATIENT = ClientSettings(
    route_s=20, match_s=20, stall_s=20, save_s=20, finish_s=20, call_s=20, watch_retry_s=0.01
)
"""Deadlines that no healthy peer misses, however slow the machine."""

IMPATIENT = replace(
    PATIENT, route_s=0.3, match_s=0.3, stall_s=0.3, save_s=0.3, finish_s=0.3, call_s=0.3
)
"""For peers that never answer."""


def client(
    *routers: str, clock: ManualClock | None = None, settings: ClientSettings = PATIENT
) -> HearthKV:
    """A client whose cool-downs end when the test's clock says so."""
    return connect(routers, settings=settings, clock=clock or ManualClock())


def holding(count: int = BLOCKS) -> FakeNode:
    """A node that holds the prompt's first blocks."""
    node = FakeNode()
    for index in range(count):
        node.hold(SPEC.namespace_id, KEYS[index], PAYLOADS[index])
    return node


def calls_of(clock: ManualClock) -> PeerCalls:
    telemetry = Telemetry(logging.getLogger("test.client"), NoMeters())
    return PeerCalls(Peers(1.0, 8.0), clock, telemetry)


def node_client(
    channels: Channels, address: str, settings: ClientSettings = PATIENT, clock=None
) -> NodeClient:
    calls = calls_of(clock or ManualClock())
    return NodeClient(address, channels.channel(address), calls, settings)


def attachments(
    channels: Channels,
    clock: ManualClock | None = None,
    settings: ClientSettings = PATIENT,
    telemetry: Telemetry | None = None,
) -> Attachments:
    """The nodes whose stores a client reaches; to be closed."""
    calls = calls_of(clock or ManualClock())

    def call(address: str) -> DirectCalls:
        return DirectCalls(address, channels.channel(address), calls, settings)

    return Attachments(
        call,
        is_enabled=settings.direct_path,
        stall_s=settings.stall_s,
        clock=calls.clock,
        telemetry=telemetry or calls.telemetry,
    )


def new_saver(settings: ClientSettings = PATIENT, channels: Channels | None = None) -> Saver:
    """A saver that writes directly only where it is given channels."""
    reached = attachments(
        channels or Channels(), settings=replace(settings, direct_path=channels is not None)
    )
    return Saver(settings, DirectWriter(reached, stall_s=settings.stall_s))


def router_client(
    channels: Channels, address: str, settings: ClientSettings = PATIENT, calls=None
) -> RouterClient:
    calls = calls or calls_of(ManualClock())
    return RouterClient(address, channels.channel(address), calls, settings)


async def until(condition: Callable[[], object]) -> None:
    """Let other tasks run until a condition holds."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - a client that took a list in sets no event
            await asyncio.sleep(0)
