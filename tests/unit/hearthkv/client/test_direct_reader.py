"""Tests of hearthkv/client/direct_reader.py: whatever stores and nodes do, bytes are right (I1)."""

import asyncio
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from hearthkv.client.deadline import Deadline
from hearthkv.client.direct_reader import DirectRead
from hearthkv.client.outcome import Loaded
from hearthkv.core.clock import ManualClock
from hearthkv.core.direct_path import FileAddress, Located, RedisAddress
from hearthkv.datapath.file_reader import ReadGuard
from tests.fakes.direct_node import FakeDirectNode, moved
from tests.fakes.servers import serving
from tests.redis_process import RedisProcess
from tests.unit.hearthkv.client.client_kit import (
    BLOCK_BYTES,
    BLOCKS,
    KEYS,
    PATIENT,
    PAYLOADS,
    SPEC,
    TOKENS,
    client,
    holding,
)

Trouble = Callable[[FakeDirectNode], object]


def hold(direct: FakeDirectNode) -> None:
    """Blocks 0 and 3 in Redis, the others in two files."""
    direct.hold_in_redis(SPEC, KEYS[0], PAYLOADS[0])
    direct.hold_in_file(SPEC, [KEYS[1], KEYS[2]], PAYLOADS[1:3], "a/1.slab")
    direct.hold_in_redis(SPEC, KEYS[3], PAYLOADS[3])
    direct.hold_in_file(SPEC, [KEYS[4]], PAYLOADS[4:], "a/2.slab")


async def load(
    direct: FakeDirectNode, *, times: int = 1, stall_s: float = 20
) -> tuple[Loaded, bytearray]:
    settings = replace(PATIENT, stall_s=stall_s)
    async with serving(holding(), direct=direct) as address, client(settings=settings) as kv:
        for _ in range(times):
            turn = await kv.begin_turn("s", SPEC, TOKENS, node=address)
            buffer = bytearray(BLOCKS * BLOCK_BYTES)
            loaded = await turn.load_into(buffer)
    return loaded, buffer


def value_of(direct: FakeDirectNode, block: int) -> bytes:
    return direct.stored(direct.blocks[KEYS[block]].ref, PAYLOADS[block])


def name_of(direct: FakeDirectNode, block: int) -> bytes:
    return direct.names.block_of(direct.blocks[KEYS[block]].ref)


def in_redis(change: Callable[[bytes], bytes]) -> Trouble:
    """Change what Redis holds of block 3."""
    return lambda direct: direct.put(0, name_of(direct, 3), change(value_of(direct, 3)))


def flipped(at: int) -> Callable[[bytes], bytes]:
    def change(value: bytes) -> bytes:
        damaged = bytearray(value)
        damaged[at] ^= 1
        return bytes(damaged)

    return change


def of_another_type(direct: FakeDirectNode) -> None:
    direct.servers[0].command("DEL", name_of(direct, 3))
    direct.servers[0].command("LPUSH", name_of(direct, 3), "x")


def of_another_block(direct: FakeDirectNode) -> None:
    direct.put(0, name_of(direct, 3), value_of(direct, 0))


def in_file(change: Callable[[Path], object]) -> Trouble:
    return lambda direct: change(direct.ssd_dir / "a" / "1.slab")


def damage(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(BLOCK_BYTES + 7)
        file.write(b"?")


def lie(block: int, **fields: object) -> Trouble:
    def trouble(direct: FakeDirectNode) -> None:
        direct.bend_located = moved(block, **fields)

    return trouble


def other_copy(direct: FakeDirectNode) -> None:
    """Tell the number of a copy that there is not."""

    def bend(honest: Located) -> Located:
        blocks = [
            replace(b, ref=b.ref._replace(sequence=b.ref.sequence + 9)) for b in honest.blocks
        ]
        return replace(honest, blocks=tuple(blocks))

    direct.bend_located = bend


def other_tier(block: int, address: RedisAddress | FileAddress) -> Trouble:
    def bend(honest: Located) -> Located:
        blocks = list(honest.blocks)
        blocks[block] = replace(blocks[block], address=address)
        return replace(honest, blocks=tuple(blocks))

    return lambda direct: setattr(direct, "bend_located", bend)


def secret(direct: FakeDirectNode) -> None:
    """A file outside of the folder, to which the node sends the client."""
    (direct.ssd_dir.parent / "secret").write_bytes(PAYLOADS[1])
    direct.bend_located = moved(1, name="../secret", offset=0)


def link_out(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


# (what goes wrong, blocks that still come directly)
DAMAGES = [
    pytest.param(in_redis(flipped(0)), 3, id="frame-magic"),
    pytest.param(in_redis(flipped(100)), 3, id="frame-field"),
    pytest.param(in_redis(flipped(191)), 3, id="frame-seal"),
    pytest.param(in_redis(flipped(192)), 3, id="payload-begin"),
    pytest.param(in_redis(flipped(-1)), 3, id="payload-end"),
    pytest.param(in_redis(lambda value: value[:-1]), 3, id="value-short"),
    pytest.param(in_redis(lambda value: value + b"x"), 3, id="value-long"),
    pytest.param(in_redis(lambda _: b""), 3, id="value-empty"),
    pytest.param(of_another_block, 3, id="value-of-another-block"),
    pytest.param(in_file(damage), 2, id="file-damaged"),
    pytest.param(in_file(lambda path: os.truncate(path, 2 * BLOCK_BYTES - 1)), 2, id="file-short"),
    pytest.param(in_file(lambda path: os.truncate(path, 0)), 1, id="file-empty"),
    pytest.param(in_file(Path.unlink), 1, id="file-gone"),
    pytest.param(in_file(link_out), 1, id="file-is-a-link-out"),
    pytest.param(lie(1, offset=1), 1, id="wrong-offset"),
    pytest.param(lie(1, offset=10**12), 1, id="offset-beyond-the-file"),
    pytest.param(lie(1, name="a/2.slab", offset=0), 1, id="wrong-file"),
    pytest.param(lie(4, name="a/1.slab"), 4, id="wrong-file-at-the-end"),
    pytest.param(other_tier(0, FileAddress("a/1.slab", 0)), 0, id="in-a-file-and-not-in-redis"),
    pytest.param(other_tier(1, RedisAddress(0)), 1, id="in-redis-and-not-in-a-file"),
    pytest.param(other_copy, 0, id="other-copy"),
]
BREACHES = [
    pytest.param(of_another_type, 3, id="value-of-another-type"),
    pytest.param(secret, 0, id="file-outside"),
    pytest.param(lie(1, name="../../etc/passwd"), 0, id="path-traversal"),
    pytest.param(lie(1, name="/etc/passwd"), 0, id="absolute-path"),
    pytest.param(lie(1, name="a"), 1, id="file-is-a-folder"),
    pytest.param(lie(1, offset=2**63 - 1), 0, id="offset-of-no-file"),
    pytest.param(lie(1, offset=2**64 - 1), 0, id="offset-of-64-bits"),
    pytest.param(lie(0, server=1), 0, id="unknown-server"),
]


@pytest.mark.parametrize(("trouble", "direct_blocks"), [*DAMAGES, *BREACHES])
async def test_whatever_is_wrong_the_bytes_are_right(
    direct_node: FakeDirectNode, trouble: Trouble, direct_blocks: int
):
    hold(direct_node)
    trouble(direct_node)
    loaded, buffer = await load(direct_node)
    assert (loaded.blocks, loaded.miss) == (BLOCKS, None)
    assert buffer == b"".join(PAYLOADS)
    # What is on its way beside a store in trouble may come or not.
    assert loaded.direct_blocks <= direct_blocks


@pytest.mark.parametrize(("trouble", "direct_blocks"), DAMAGES)
async def test_a_damaged_or_missing_block_leaves_the_way_open(
    direct_node: FakeDirectNode, trouble: Trouble, direct_blocks: int
):
    hold(direct_node)
    trouble(direct_node)
    loaded, _ = await load(direct_node, times=2)
    assert loaded.direct_blocks == direct_blocks
    assert direct_node.calls["Locate"] == 2


@pytest.mark.parametrize(("trouble", "direct_blocks"), BREACHES)
async def test_a_broken_store_or_contract_closes_the_way(
    direct_node: FakeDirectNode, trouble: Trouble, direct_blocks: int
):
    hold(direct_node)
    trouble(direct_node)
    loaded, _ = await load(direct_node, times=2)
    assert loaded.direct_blocks == 0
    assert direct_node.calls["Locate"] == 1


@pytest.fixture
def hanging_file(direct_node: FakeDirectNode) -> Iterator[Callable[[], None]]:
    """A file that hangs whoever opens it, until the function is called."""
    hold(direct_node)
    path = direct_node.ssd_dir / "a" / "1.slab"
    path.unlink()
    os.mkfifo(path)

    def release() -> None:
        if path.exists():
            descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)
            path.unlink()
            os.write(descriptor, b"late" * 100)
            os.close(descriptor)

    yield release
    release()


async def test_a_file_that_hangs_is_left_and_writes_nothing_later(
    direct_node: FakeDirectNode, hanging_file: Callable[[], None]
):
    loaded, buffer = await load(direct_node, stall_s=1)
    hanging_file()
    assert (loaded.blocks, loaded.direct_blocks) == (BLOCKS, 1)
    assert buffer == b"".join(PAYLOADS)


async def test_who_is_cancelled_while_a_file_hangs_is_free_at_once(
    direct_node: FakeDirectNode, hanging_file: Callable[[], None]
):
    told = asyncio.Event()
    async with serving(holding(), direct=direct_node) as address, client() as kv:
        turn = await kv.begin_turn("s", SPEC, TOKENS, node=address)
        buffer = bytearray(BLOCKS * BLOCK_BYTES)
        loading = asyncio.create_task(turn.load_into(buffer, on_progress=lambda _: told.set()))
        await told.wait()  # block 0 came, and block 1 is waited for
        loading.cancel()
        await asyncio.sleep(0)
        loading.cancel()  # while it waits for its reads to let go
        with pytest.raises(asyncio.CancelledError):
            await loading
        before = bytes(buffer)
        hanging_file()
        await asyncio.to_thread(lambda: None)
        assert buffer == before


async def test_a_read_that_was_left_behind_is_not_looked_at(direct_node: FakeDirectNode):
    hold(direct_node)
    async with serving(holding(), direct=direct_node) as address, client() as kv:
        stores = await kv._attachments.stores(address, Deadline(20.0))
        assert stores is not None
        view = memoryview(bytearray(BLOCKS * BLOCK_BYTES))
        located = [direct_node.blocks[key] for key in KEYS]
        read, guard = DirectRead(stores, located, view, ManualClock()), ReadGuard()
        guard.give_up()
        assert read._outcome(read._plan.runs[0], guard) == set()
        assert not any(view)


async def test_a_client_that_is_closed_meanwhile_reads_nothing_more(direct_node: FakeDirectNode):
    hold(direct_node)
    async with serving(holding(), direct=direct_node) as address, client() as kv:
        turn = await kv.begin_turn("s", SPEC, TOKENS, node=address)
        await turn.load_into(bytearray(BLOCKS * BLOCK_BYTES))
        direct_node.before["Locate"] = kv._attachments.close
        loaded = await turn.load_into(bytearray(BLOCKS * BLOCK_BYTES))
        assert (loaded.blocks, loaded.miss) == (BLOCKS, None)
        assert loaded.direct_blocks <= 1


async def test_many_small_blocks_are_asked_for_in_parts(
    direct_node: FakeDirectNode, redis_server: RedisProcess
):
    count = 600
    spec = replace(SPEC, block_size=1, block_bytes=10)
    async with serving(holding(), direct=direct_node) as address, client() as kv:
        turn = await kv.begin_turn("s", spec, range(count), node=address)
        for index, key in enumerate(turn.keys):
            direct_node.hold_in_redis(spec, key, b"%010d" % index)
        buffer = bytearray(count * 10)
        loaded = await turn.load_into(buffer)
    assert loaded.direct_blocks == count
    assert buffer == b"".join(b"%010d" % index for index in range(count))


PLACES = st.lists(st.sampled_from("rf-"), min_size=BLOCKS, max_size=BLOCKS)


def test_wherever_blocks_lie_and_whichever_is_damaged_the_prefix_is_right(
    tmp_path: Path, redis_server: RedisProcess
):
    direct = FakeDirectNode(tmp_path, redis_server)

    async def check(places: list[str], damaged: int) -> None:
        direct.blocks.clear()
        for index, place in enumerate(places):
            key, payload = KEYS[index], PAYLOADS[index]
            shown = bytes(BLOCK_BYTES) if index == damaged else payload
            if place == "r":
                ref = direct.hold_in_redis(SPEC, key, payload)
                direct.put(0, direct.names.block_of(ref), direct.stored(ref, shown))
            elif place == "f":
                direct.hold_in_file(SPEC, [key], [payload], f"{index % 2}.slab")
                if index == damaged:
                    os.truncate(direct.ssd_dir / f"{index % 2}.slab", 0)
        loaded, buffer = await load(direct)
        end = places.index("-") if "-" in places else BLOCKS
        # From a damaged block on the node gives the blocks, and it has all of them.
        assert loaded.blocks in {end, BLOCKS}
        assert buffer[: loaded.blocks * BLOCK_BYTES] == b"".join(PAYLOADS[: loaded.blocks])

    with asyncio.Runner() as runner:

        @examples(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
        @given(PLACES, st.integers(0, BLOCKS))
        def each(places: list[str], damaged: int) -> None:
            runner.run(check(places, damaged))

        each()
