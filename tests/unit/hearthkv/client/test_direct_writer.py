"""Tests of hearthkv/client/direct_writer.py: what a saver writes past the node."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import grpc
import pytest

from hearthkv.client.outcome import Finished, MissReason
from hearthkv.client.settings import ClientSettings
from hearthkv.core.block_io import WriteStatus
from hearthkv.core.direct_path import RESERVED_BLOCKS_MAX, Reservation, ThroughNode
from hearthkv.core.namespace import NamespaceSpec
from tests.conftest import StartRedis
from tests.fakes.direct_node import STALE, FakeDirectNode
from tests.fakes.misbehaviour import Fail, Stall
from tests.fakes.node import FakeNode
from tests.fakes.servers import serving
from tests.unit.hearthkv.client.client_kit import (
    BLOCKS,
    KEYS,
    PATIENT,
    PAYLOADS,
    SPEC,
    TOKENS,
    client,
    until,
)

ALL = Finished(saved_blocks=BLOCKS)


@dataclass(frozen=True)
class Saved:
    """What became of the saves of one turn."""

    account: Finished
    streamed: list[list[bytes]]


async def save(
    direct: FakeDirectNode,
    settings: ClientSettings = PATIENT,
    node: FakeNode | None = None,
) -> Saved:
    node = node or FakeNode()
    async with serving(node, direct=direct) as address, client(settings=settings) as kv:
        turn = await kv.begin_turn("s", SPEC, TOKENS, node=address)
        turn.save(0, PAYLOADS)
        account = await turn.finish()
        assert kv.stats.direct_saved_blocks == account.direct_blocks
        return Saved(account, node.write_batches)


async def test_blocks_are_written_into_the_store_and_can_be_read_from_it(
    direct_node: FakeDirectNode,
):
    async with serving(FakeNode(), direct=direct_node) as address, client() as kv:
        turn = await kv.begin_turn("s", SPEC, TOKENS, node=address)
        turn.save(0, PAYLOADS)
        assert await turn.finish() == replace(ALL, direct_blocks=BLOCKS)
        buffer = bytearray(BLOCKS * SPEC.block_bytes)
        loaded = await turn.load_into(buffer)
    assert (loaded.blocks, loaded.direct_blocks) == (BLOCKS, BLOCKS)
    assert buffer == b"".join(PAYLOADS)


async def test_a_copy_vanishes_by_itself_until_it_is_committed(direct_node: FakeDirectNode):
    ttls: list[bytes] = []

    def look() -> None:
        name = direct_node.names.reserved(SPEC.namespace_id, KEYS[0], 1)
        ttls.append(direct_node.servers[0].command("PTTL", name))

    direct_node.before["Commit"] = look
    await save(direct_node)
    assert 0 < int(ttls[0][1:]) <= 30_000


async def test_what_is_held_is_not_written(direct_node: FakeDirectNode):
    for key, payload in zip(KEYS, PAYLOADS, strict=True):
        direct_node.hold_in_redis(SPEC, key, payload)
    saved = await save(direct_node)
    assert saved.account == Finished(5, already_held_blocks=5, direct_blocks=5)
    assert (saved.streamed, direct_node.calls["Commit"]) == ([], 0)


async def test_blocks_from_the_first_that_has_no_room_in_dram_go_through_the_node(
    direct_node: FakeDirectNode,
):
    direct_node.copies_max = 2
    node = FakeNode()
    for key, payload in zip(KEYS, PAYLOADS[:2], strict=False):
        node.hold(SPEC.namespace_id, key, payload)  # which the client commits directly
    saved = await save(direct_node, node=node)
    assert saved.account == Finished(5, direct_blocks=2)
    assert saved.streamed == [list(KEYS)[2:]]


async def test_a_refused_block_is_refused(direct_node: FakeDirectNode):
    statuses = (WriteStatus.PARENT_MISSING,) * BLOCKS
    direct_node.bend_reservation = lambda _: Reservation("", statuses, 30.0)
    saved = await save(direct_node)
    assert saved.account == Finished(refused_blocks=BLOCKS, miss=MissReason.PARENT_MISSING)
    assert saved.streamed == []


def outcomes(*changed: object) -> Callable[[Reservation], Reservation]:
    return lambda honest: replace(honest, outcomes=(*changed, *honest.outcomes[len(changed) :]))


def far_server(honest: Reservation) -> Reservation:
    copies = [replace(outcome, server=1) for outcome in honest.outcomes]
    return replace(honest, outcomes=tuple(copies))


def gone(direct: FakeDirectNode) -> None:
    direct.before["Commit"] = lambda: direct.servers[0].command("FLUSHALL")


def bent(bend: Callable[[Reservation], Reservation]) -> Callable[[FakeDirectNode], None]:
    def trouble(direct: FakeDirectNode) -> None:
        direct.bend_reservation = bend

    return trouble


def failing(name: str, fail: Fail) -> Callable[[FakeDirectNode], None]:
    def trouble(direct: FakeDirectNode) -> None:
        direct.troubles[name] = fail

    return trouble


@pytest.mark.parametrize(
    "trouble",
    [
        failing("Attach", Fail(grpc.StatusCode.UNIMPLEMENTED)),
        failing("Reserve", Fail(grpc.StatusCode.RESOURCE_EXHAUSTED, is_answer=True)),
        failing("Reserve", STALE),
        failing("Commit", Fail(grpc.StatusCode.NOT_FOUND, is_answer=True)),
        failing("Commit", STALE),
        bent(lambda honest: replace(honest, outcomes=(*honest.outcomes, ThroughNode()))),
        bent(lambda honest: replace(honest, ttl_s=0.0)),
        bent(lambda honest: replace(honest, ttl_s=-1.0)),
        bent(far_server),
        bent(outcomes(WriteStatus.STORED)),  # so that there are fewer copies than statuses
        gone,
    ],
    ids=[
        "no-direct-path",
        "refused",
        "stale-at-reserve",
        "over-at-commit",
        "stale-at-commit",
        "too-many-outcomes",
        "no-ttl",
        "negative-ttl",
        "unknown-server",
        "other-count",
        "lost-before-commit",
    ],
)
async def test_whatever_goes_wrong_the_batch_goes_through_the_node(
    direct_node: FakeDirectNode, trouble: Callable[[FakeDirectNode], None]
):
    trouble(direct_node)
    saved = await save(direct_node)
    assert saved.account == ALL
    assert saved.streamed == [list(KEYS)]


async def test_a_store_that_is_full_is_left_and_the_reservation_given_up(
    tmp_path: Path, start_redis: StartRedis
):
    direct_node = FakeDirectNode(tmp_path, start_redis("--maxmemory-policy", "noeviction"))
    direct_node.before["Reserve"] = lambda: direct_node.servers[0].command(
        "CONFIG", "SET", "maxmemory", "1"
    )
    saved = await save(direct_node)
    assert saved.account == ALL
    assert saved.streamed == [list(KEYS)]
    assert direct_node.aborted == ["reservation-5"]


@asynccontextmanager
async def hanging(tmp_path: Path, start_redis: StartRedis) -> AsyncIterator[FakeDirectNode]:
    """A node whose Redis hangs as soon as room is reserved in it."""
    server = start_redis()
    direct_node = FakeDirectNode(tmp_path, server)
    direct_node.before["Reserve"] = server.freeze
    yield direct_node
    server.thaw()


async def test_a_store_that_hangs_is_left_for_the_node(tmp_path: Path, start_redis: StartRedis):
    async with hanging(tmp_path, start_redis) as direct_node:
        saved = await save(direct_node, replace(PATIENT, stall_s=1))
    assert saved.account == ALL
    assert direct_node.aborted == ["reservation-5"]


async def test_a_store_that_dies_is_left_for_the_node(tmp_path: Path, start_redis: StartRedis):
    server = start_redis()
    direct_node = FakeDirectNode(tmp_path, server)
    direct_node.before["Reserve"] = server.kill
    saved = await save(direct_node)
    assert saved.account == ALL


async def test_a_save_that_is_given_up_touches_its_bytes_no_more(
    tmp_path: Path, start_redis: StartRedis
):
    async with (
        hanging(tmp_path, start_redis) as direct_node,
        serving(FakeNode(), direct=direct_node) as address,
        client() as kv,
    ):
        turn = await kv.begin_turn("s", SPEC, TOKENS, node=address)
        turn.save(0, PAYLOADS)
        await until(lambda: direct_node.calls["Reserve"])
        account = await turn.finish(deadline_s=0)
        assert account == Finished(refused_blocks=BLOCKS, miss=MissReason.TIMEOUT)
        assert kv._saver.budget.used_bytes == 0


async def test_a_node_that_does_not_answer_refuses_all(direct_node: FakeDirectNode):
    direct_node.troubles["Reserve"] = Stall()
    saved = await save(direct_node, replace(PATIENT, stall_s=1))
    assert saved.account == Finished(refused_blocks=BLOCKS, miss=MissReason.TIMEOUT)


async def test_a_large_batch_is_reserved_in_parts(direct_node: FakeDirectNode):
    blocks = RESERVED_BLOCKS_MAX + 1
    small = NamespaceSpec(b"s" * 16, block_size=1, block_bytes=10)
    async with serving(FakeNode(), direct=direct_node) as address, client() as kv:
        turn = await kv.begin_turn("s", small, range(blocks), node=address)
        turn.save(0, [bytes(10)] * blocks)
        account = await turn.finish()
    assert account == Finished(saved_blocks=blocks, direct_blocks=blocks)
    assert direct_node.calls["Reserve"] == 2
