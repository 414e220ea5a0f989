"""Tests of hearthkv/client/saver.py."""

import asyncio
from dataclasses import replace

import grpc
import pytest

from hearthkv.client.channels import Channels
from hearthkv.client.outcome import Finished, MissReason
from hearthkv.client.saver import Saver, SaveRun
from hearthkv.core.block_io import WriteStart
from hearthkv.core.session_id import SessionId
from hearthkv.v1 import cache_node_pb2
from tests.fakes.misbehaviour import Fail, Stall
from tests.fakes.node import FakeNode
from tests.fakes.servers import dead_address, serving
from tests.unit.hearthkv.client.client_kit import (
    BLOCK_BYTES,
    BLOCKS,
    KEYS,
    PATIENT,
    PAYLOADS,
    SPEC,
    new_saver,
    node_client,
)

START = WriteStart(SPEC, SessionId("s"))
VIEWS = [memoryview(payload) for payload in PAYLOADS]
ONE_BLOCK = replace(PATIENT, batch_bytes_max=BLOCK_BYTES)


def new_run(
    channels: Channels, address: str, settings=PATIENT, saver: Saver | None = None
) -> SaveRun:
    return (saver or new_saver(settings)).new_run(node_client(channels, address, settings), START)


async def test_blocks_are_saved_in_the_background_in_one_write(channels: Channels):
    node = FakeNode()
    async with serving(node) as address:
        run = new_run(channels, address)
        assert run.add(0, VIEWS, KEYS) == BLOCKS
        assert await run.finish(20) == Finished(saved_blocks=BLOCKS)
    assert [held.payload for held in node.blocks.values()] == PAYLOADS
    assert node.write_batches == [list(KEYS)]


async def test_batches_are_written_one_after_the_other(channels: Channels):
    node = FakeNode()
    async with serving(node) as address:
        run = new_run(channels, address, ONE_BLOCK)
        run.add(0, VIEWS[:2], KEYS)
        run.add(2, VIEWS[2:], KEYS)
        assert await run.finish(20) == Finished(saved_blocks=BLOCKS)
    assert node.write_batches == [[key] for key in KEYS]


async def test_a_run_that_was_finished_can_go_on(channels: Channels):
    node = FakeNode()
    async with serving(node) as address:
        run = new_run(channels, address)
        run.add(0, VIEWS[:2], KEYS)
        await run.finish(20)
        run.add(0, VIEWS, KEYS)
        assert await run.finish(20) == Finished(saved_blocks=7, already_held_blocks=2)


async def test_a_run_without_blocks_is_finished_at_once(channels: Channels):
    assert await new_run(channels, "127.0.0.1:1").finish(0) == Finished()


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (cache_node_pb2.WRITE_STATUS_PARENT_MISSING, MissReason.PARENT_MISSING),
        (cache_node_pb2.WRITE_STATUS_NO_ROOM, MissReason.NO_ROOM),
        (cache_node_pb2.WRITE_STATUS_CORRUPT, MissReason.CORRUPT),
        (cache_node_pb2.WRITE_STATUS_UNAVAILABLE, MissReason.TIER_UNAVAILABLE),
        (99, MissReason.TIER_UNAVAILABLE),
    ],
)
async def test_behind_a_refused_block_nothing_is_sent(
    channels: Channels, status: int, reason: MissReason
):
    node = FakeNode()
    node.write_statuses = [[cache_node_pb2.WRITE_STATUS_STORED], [status]]
    async with serving(node) as address:
        run = new_run(channels, address, ONE_BLOCK)
        run.add(0, VIEWS, KEYS)
        assert await run.finish(20) == Finished(saved_blocks=1, refused_blocks=4, miss=reason)
    assert node.write_batches == [[KEYS[0]], [KEYS[1]]]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (grpc.StatusCode.UNAVAILABLE, MissReason.NODE_UNREACHABLE),
        (grpc.StatusCode.DEADLINE_EXCEEDED, MissReason.TIMEOUT),
        (grpc.StatusCode.INVALID_ARGUMENT, MissReason.REFUSED),
        (grpc.StatusCode.DATA_LOSS, MissReason.REFUSED),
    ],
    ids=lambda value: value.name,
)
async def test_a_write_that_fails_refuses_all(
    channels: Channels, code: grpc.StatusCode, reason: MissReason
):
    node, saver = FakeNode(), new_saver()
    node.troubles["Write"] = Fail(code)
    async with serving(node) as address:
        run = new_run(channels, address, saver=saver)
        run.add(0, VIEWS, KEYS)
        assert await run.finish(20) == Finished(refused_blocks=BLOCKS, miss=reason)
    assert saver.budget.used_bytes == 0


async def test_a_node_that_is_gone_refuses_all_and_leaves_no_task(channels: Channels):
    before = asyncio.all_tasks()
    with dead_address() as address:
        run = new_run(channels, address)
        run.add(0, VIEWS, KEYS)
        account = await run.finish(20)
    assert account == Finished(refused_blocks=BLOCKS, miss=MissReason.NODE_UNREACHABLE)
    await channels.close()
    assert {task.get_name() for task in asyncio.all_tasks() - before} <= {""}


async def test_a_write_that_stalls_ends_at_its_deadline(channels: Channels):
    node, stall = FakeNode(), Stall()
    node.troubles["Write"] = stall
    async with serving(node) as address:
        run = new_run(channels, address, replace(PATIENT, save_s=0.3))
        run.add(0, VIEWS, KEYS)
        assert (await run.finish(20)).miss is MissReason.TIMEOUT
        await stall.ended.wait()


async def test_saves_that_take_longer_than_the_caller_waits_are_given_up(channels: Channels):
    node, stall, saver = FakeNode(), Stall(), new_saver()
    node.troubles["Write"] = stall
    async with serving(node) as address:
        run = new_run(channels, address, saver=saver)
        run.add(0, VIEWS, KEYS)
        await stall.begun.wait()
        account = await run.finish(0)
        assert account == Finished(refused_blocks=BLOCKS, miss=MissReason.TIMEOUT)
        await stall.ended.wait()
    assert saver.budget.used_bytes == 0


async def test_saves_given_up_before_they_began_free_their_bytes(channels: Channels):
    saver = new_saver()
    run = new_run(channels, "127.0.0.1:1", saver=saver)
    run.add(0, VIEWS, KEYS)
    assert (await run.finish(0)).refused_blocks == BLOCKS
    assert saver.budget.used_bytes == 0


async def test_who_waits_may_be_cancelled_and_the_saves_go_on(channels: Channels):
    node = FakeNode()
    async with serving(node) as address:
        run = new_run(channels, address)
        run.add(0, VIEWS, KEYS)
        waiting = asyncio.create_task(run.finish(20))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await run.finish(20) == Finished(saved_blocks=BLOCKS)


async def test_turns_share_one_budget(channels: Channels):
    node, stall = FakeNode(), Stall()
    node.troubles["Write"] = stall
    saver = new_saver(replace(PATIENT, queue_bytes_max=6 * BLOCK_BYTES))
    async with serving(node) as address:
        first = new_run(channels, address, saver=saver)
        second = new_run(channels, address, saver=saver)
        assert [run.add(0, VIEWS, KEYS) for run in (first, second)] == [5, 1]
        await saver.close()
    assert saver.budget.used_bytes == 0


async def test_a_saver_that_is_closed_gives_up_what_is_under_way_and_takes_no_more(
    channels: Channels,
):
    node, stall, saver = FakeNode(), Stall(), new_saver()
    node.troubles["Write"] = stall
    async with serving(node) as address:
        run = new_run(channels, address, saver=saver)
        run.add(0, VIEWS[:3], KEYS)
        await stall.begun.wait()
        await saver.close()
        assert run.add(0, VIEWS[:2], KEYS) == 0
        account = await run.finish(20)
    assert account == Finished(refused_blocks=5, miss=MissReason.CLOSED)
    assert saver.budget.used_bytes == 0
