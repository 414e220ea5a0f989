"""Tests of hearthkv/client/channels.py."""

import pytest

from hearthkv.client.channels import MESSAGE_BYTES_MAX, Channels
from hearthkv.codec import cache_node as codec
from hearthkv.core.block_io import CHUNK_BYTES_MAX
from hearthkv.v1.cache_node_pb2_grpc import CacheNodeStub
from tests.fakes.node import FakeNode
from tests.fakes.servers import serving


def test_a_chunk_and_the_keys_of_a_long_prompt_fit_into_a_message():
    keys_bytes = 230_000 // 16 * 32
    assert max(CHUNK_BYTES_MAX, keys_bytes) + 64 * 1024 < MESSAGE_BYTES_MAX


async def test_a_peer_has_one_channel(channels: Channels):
    assert channels.channel("a:1") is channels.channel("a:1")
    assert channels.channel("a:1") is not channels.channel("b:1")


async def test_a_peer_that_came_back_is_reached_over_the_same_channel(channels: Channels):
    async with serving(FakeNode()) as address:
        stub = CacheNodeStub(channels.channel(address))
        first = await stub.Describe(codec.encode_describe_request(), timeout=20)
    async with serving(FakeNode(), address):
        again = await stub.Describe(
            codec.encode_describe_request(), timeout=20, wait_for_ready=True
        )
    assert first == again


async def test_the_environment_sends_no_call_through_a_proxy(
    channels: Channels, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    async with serving(FakeNode()) as address:
        stub = CacheNodeStub(channels.channel(address))
        answer = await stub.Describe(codec.encode_describe_request(), timeout=20)
    assert answer.node_id == "fake"


async def test_channels_can_be_closed_twice():
    channels = Channels()
    channels.channel("a:1")
    await channels.close()
    await channels.close()
