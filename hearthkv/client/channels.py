"""
The connections of one client, one channel a peer. Not pure.

A channel connects when it is first used and again whenever it has to.
"""

import asyncio

from grpc import aio

MESSAGE_BYTES_MAX = 4 * 1024 * 1024 + 64 * 1024
"""Bytes of one message, as servers have it."""

_OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    # A peer that vanished without a word is noticed by a call that is open, after 15 s.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    # When to try again is decided by `peers`; the transport should not be slower than that.
    ("grpc.initial_reconnect_backoff_ms", 100),
    # A handshake gets this long: on a busy machine 0.1 s would not do.
    ("grpc.min_reconnect_backoff_ms", 2_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # A call is made once, to that address and no other: no retries, no configuration from DNS,
    # no proxy from the environment, no connection shared with another client of this process.
    ("grpc.enable_retries", 0),
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
)


class Channels:
    """Opens channels by address and closes them all."""

    def __init__(self) -> None:
        self._channels: dict[str, aio.Channel] = {}

    def channel(self, address: str) -> aio.Channel:
        """Return the channel to a peer; needs a running event loop."""
        if address not in self._channels:
            self._channels[address] = aio.insecure_channel(address, options=_OPTIONS)
        return self._channels[address]

    async def close_one(self, address: str) -> None:
        """Close the channel to a peer that is not called any more; its calls are cancelled."""
        channel = self._channels.pop(address, None)
        if channel is not None:
            await channel.close()

    async def close(self) -> None:
        """Close all channels; calls that are open end as cancelled."""
        channels = list(self._channels.values())
        self._channels.clear()
        await asyncio.gather(*(channel.close() for channel in channels))
