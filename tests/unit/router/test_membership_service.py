"""router/service.py: what nodes are answered, over a channel."""

import grpc
import pytest
from grpc import aio

from hearthkv.codec.status import decode_reason
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.routing import (
    BlockEvent,
    EventBatch,
    EventsAck,
    SnapshotPart,
)
from hearthkv.core.tier import Tier
from tests.unit.router.served import KEYS, joined, serving, settled, turn


async def test_a_silent_node_gets_no_turn_though_its_stream_is_open_and_is_back_at_once():
    async with serving(suspect_s=2.5) as served:
        silent = await joined(served, "a", (Tier.DRAM, KEYS))
        alive = await joined(served, "b")
        assert (await served.stub.Route(turn())).node.node_id == "a"
        served.clock.advance(2.0)
        await alive.say(EventBatch(2))
        assert await alive.hear() == EventsAck(2)
        served.clock.advance(0.6)
        served.router.watch.sweep()
        response = await served.stub.Route(turn())
        assert (response.node.node_id, response.matched_blocks) == ("b", 0)
        await silent.say(EventBatch(2))
        assert await silent.hear() == EventsAck(2)
        assert (await served.stub.Route(turn("new"))).matched_blocks == 100


async def test_a_node_whose_lease_is_over_is_forgotten_and_its_stream_ends():
    async with serving(lease_s=10.0) as served:
        silent = await joined(served, "a", (Tier.DRAM, KEYS))
        alive = await joined(served, "b")
        served.clock.advance(9.0)
        await alive.say(EventBatch(2))
        assert await alive.hear() == EventsAck(2)
        served.clock.advance(2.0)
        served.router.watch.sweep()
        await served.nodes_become({"b": 1})
        with pytest.raises(aio.AioRpcError, match=r"said nothing for 11\.0 s, its lease is over"):
            await silent.call.read()
        assert (await served.stub.Route(turn())).matched_blocks == 0


@pytest.mark.parametrize("epoch", [1, 2], ids=["same-start", "restarted"])
async def test_a_newer_stream_of_a_node_replaces_the_older_at_once(epoch: int):
    async with serving() as served:
        old = await joined(served, "a", (Tier.DRAM, KEYS))
        new = served.node("a", epoch)
        await new.join((Tier.DRAM, KEYS.slice(0, 60)))
        await settled(new)
        with pytest.raises(aio.AioRpcError) as caught:
            await old.call.read()
        assert caught.value.code() is grpc.StatusCode.ABORTED
        assert decode_reason(caught.value.trailing_metadata()) == "STREAM_ENDED"
        assert f"joined again, at a:7500 with epoch {epoch}" in str(caught.value.details())
        response = await served.stub.Route(turn())
        assert (response.node.epoch, response.matched_blocks) == (epoch, 60)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (SnapshotPart(b"", None, PackedKeys(b""), True, True), "first message is SnapshotPart"),
        (EventBatch(1), "first message is EventBatch"),
    ],
    ids=["snapshot", "events"],
)
async def test_a_node_that_does_not_introduce_itself_is_refused(message, text):
    async with serving() as served:
        node = served.node()
        await node.say(message)
        with pytest.raises(aio.AioRpcError) as caught:
            await node.call.read()
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert text in str(caught.value.details())


async def test_a_node_that_sends_nonsense_turns_suspect_and_harms_no_other():
    async with serving() as served:
        await joined(served, "a", (Tier.DRAM, KEYS))
        liar = await joined(served, "b")
        await liar.say(EventBatch(2, (BlockEvent(b"bad", KEYS, Tier.DRAM),)))
        with pytest.raises(aio.AioRpcError) as caught:
            await liar.call.read()
        assert caught.value.details() == "namespace_id is 3 bytes, must be 16 to 32"
        assert decode_reason(caught.value.trailing_metadata()) == "BAD_NAMESPACE"
        await served.nodes_become({"a": 1, "b": 2})
        assert (await served.stub.Route(turn())).matched_blocks == 100


async def test_one_node_too_many_is_refused():
    async with serving(nodes_max=1) as served:
        await joined(served, "a")
        node = served.node("b")
        await node.say(node.hello)
        with pytest.raises(aio.AioRpcError) as caught:
            await node.call.read()
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert decode_reason(caught.value.trailing_metadata()) == "LIMIT"
