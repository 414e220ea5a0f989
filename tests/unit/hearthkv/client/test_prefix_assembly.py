"""Tests of hearthkv/client/prefix_assembly.py."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.client.outcome import MissReason
from hearthkv.client.prefix_assembly import PrefixAssembly
from hearthkv.core.block_io import BlockChunk, BlockHeader, ReadEnd
from hearthkv.core.block_key import KeyChain
from hearthkv.core.checksum import block_checksum
from hearthkv.core.errors import PeerContractError
from hearthkv.core.tier import Tier, TierCounts

SPACE = b"n" * 16
BLOCK_BYTES = 10
KEYS = KeyChain(SPACE, 2).keys_of(range(6))
PAYLOADS = [bytes([65 + index]) * BLOCK_BYTES for index in range(3)]

Step = BlockChunk | ReadEnd


def header(index: int, **fields: object) -> BlockHeader:
    key = KEYS[index]
    known = {
        "key": key,
        "parent_key": b"",
        "size_bytes": BLOCK_BYTES,
        "checksum": block_checksum(SPACE, key, PAYLOADS[index]),
        "tier": Tier.DRAM,
    }
    return BlockHeader(**{**known, **fields})


def block(index: int, chunk_bytes: int = 4) -> list[Step]:
    parts = [PAYLOADS[index][at : at + chunk_bytes] for at in range(0, BLOCK_BYTES, chunk_bytes)]
    return [BlockChunk(header(index) if not at else None, part) for at, part in enumerate(parts)]


def new_assembly(buffer: bytearray | None = None) -> PrefixAssembly:
    view = memoryview(buffer if buffer is not None else bytearray(3 * BLOCK_BYTES))
    return PrefixAssembly(view, KEYS, namespace_id=SPACE, block_bytes=BLOCK_BYTES)


def feed(assembly: PrefixAssembly, steps: Sequence[Step]) -> None:
    for step in steps:
        assembly.take(step)


def test_blocks_are_put_in_their_places_and_counted_by_tier():
    buffer = bytearray(3 * BLOCK_BYTES)
    assembly = new_assembly(buffer)
    ssd = BlockChunk(header(2, tier=Tier.SSD), PAYLOADS[2])
    feed(assembly, [*block(0), *block(1), ssd])
    assert buffer == b"".join(PAYLOADS)
    assert (assembly.blocks, assembly.by_tier) == (3, TierCounts(dram=2, ssd=1))
    assert (assembly.is_complete, assembly.is_over, assembly.miss) == (True, True, None)


def test_each_block_that_counts_is_told():
    told: list[int] = []
    assembly = PrefixAssembly(
        memoryview(bytearray(3 * BLOCK_BYTES)),
        KEYS,
        namespace_id=SPACE,
        block_bytes=BLOCK_BYTES,
        on_progress=told.append,
    )
    feed(assembly, [*block(0), *block(1), BlockChunk(header(2, checksum=1), PAYLOADS[2])])
    assert told == [1, 2]


def test_progress_begins_with_the_first_header():
    assembly = new_assembly()
    assert not assembly.has_progress
    feed(assembly, block(0)[:1])
    assert assembly.has_progress
    feed(assembly, block(0)[1:])
    assert assembly.has_progress


def test_a_header_may_come_without_bytes():
    assembly = new_assembly()
    feed(assembly, [BlockChunk(header(0), b""), BlockChunk(None, PAYLOADS[0])])
    assert assembly.blocks == 1


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (ReadEnd.MISS, MissReason.NOT_HELD),
        (ReadEnd.LOST, MissReason.LOST),
        (ReadEnd.UNAVAILABLE, MissReason.TIER_UNAVAILABLE),
    ],
)
@pytest.mark.parametrize("begun", [0, 1], ids=["between-blocks", "within-a-block"])
def test_an_early_end_is_a_miss_and_what_came_counts(end: ReadEnd, reason: MissReason, begun: int):
    assembly = new_assembly()
    feed(assembly, [*block(0), *block(1)[:begun], end])
    assert (assembly.blocks, assembly.miss, assembly.is_over) == (1, reason, True)


def test_a_wrong_checksum_ends_the_run():
    assembly = new_assembly()
    feed(assembly, [*block(0), BlockChunk(header(1), b"x" * BLOCK_BYTES)])
    assert (assembly.blocks, assembly.miss) == (1, MissReason.CORRUPT)


def test_the_bytes_of_one_block_do_not_pass_for_another():
    assembly = new_assembly()
    mixed = header(0, checksum=block_checksum(SPACE, KEYS[1], PAYLOADS[1]))
    feed(assembly, [BlockChunk(mixed, PAYLOADS[1])])
    assert (assembly.blocks, assembly.miss) == (0, MissReason.CORRUPT)


def test_a_run_can_be_given_up_from_outside():
    assembly = new_assembly()
    assembly.give_up(MissReason.TIMEOUT)
    assert (assembly.is_over, assembly.miss) == (True, MissReason.TIMEOUT)


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ([ReadEnd.COMPLETE], "complete after 1 blocks, must be 3"),
        ([BlockChunk(None, b"x")], "has no header"),
        (block(2), "block 1 has another key"),
        (block(0), "block 1 has another key"),
        ([BlockChunk(header(1, size_bytes=9), b"x" * 9)], "has 9 bytes, must have 10"),
        ([BlockChunk(header(1, tier=None), b"x")], "has no tier"),
        ([BlockChunk(header(1), b"x" * 11)], "has 11 bytes or more, must have 10"),
        ([*block(1)[:2], BlockChunk(None, b"xyz")], "has 11 bytes or more, must have 10"),
        ([*block(1)[:2], BlockChunk(None, b"")], "chunk is empty"),
        ([*block(1)[:2], *block(2)], "block 1 ends after 8 bytes, must have 10"),
    ],
    ids=[
        "early-end",
        "no-header",
        "skipped",
        "repeated",
        "size",
        "tier",
        "long-chunk",
        "long-block",
        "empty",
        "cut",
    ],
)
def test_a_broken_contract_is_an_error_and_what_came_before_counts(steps: list[Step], found: str):
    assembly = new_assembly()
    feed(assembly, block(0))
    with pytest.raises(PeerContractError, match=found):
        feed(assembly, steps)
    assert assembly.blocks == 1


@given(st.data())
def test_whatever_comes_only_right_bytes_count(data: st.DataObject):
    honest = [*block(0, 3), *block(1, 3), *block(2, 3)]
    at = data.draw(st.integers(0, len(honest) - 1))
    junk = st.one_of(
        st.sampled_from([*honest, *ReadEnd]),
        st.builds(BlockChunk, st.none() | st.just(header(1)), st.binary(max_size=12)),
    )
    steps = [*honest[:at], *data.draw(st.lists(junk, max_size=4)), *honest[at:]]
    buffer = bytearray(3 * BLOCK_BYTES)
    assembly = new_assembly(buffer)
    try:
        for step in steps:
            if assembly.is_over:
                break
            assembly.take(step)
    except PeerContractError:
        pass
    good = assembly.blocks * BLOCK_BYTES
    assert buffer[:good] == b"".join(PAYLOADS)[:good]
    assert assembly.by_tier.total == assembly.blocks
