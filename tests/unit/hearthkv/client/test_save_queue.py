"""Tests of hearthkv/client/save_queue.py."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.client.outcome import Finished, MissReason
from hearthkv.client.save_queue import BATCH_BLOCKS_MAX, ByteBudget, SaveQueue
from hearthkv.core.block_io import WriteStatus
from hearthkv.core.block_key import KeyChain

KEYS = KeyChain(b"n" * 16, 1).keys_of(range(64))
STORED, HELD, NO_ROOM = WriteStatus.STORED, WriteStatus.ALREADY_HELD, WriteStatus.NO_ROOM


def payloads(count: int, size_bytes: int = 10) -> list[memoryview]:
    return [memoryview(bytes([index]) * size_bytes) for index in range(count)]


def new_queue(limit_bytes: int = 1000, batch_bytes: int = 1000) -> tuple[SaveQueue, ByteBudget]:
    budget = ByteBudget(limit_bytes)
    return SaveQueue(budget, batch_bytes), budget


def indexes(queue: SaveQueue) -> list[int]:
    return [block.index for block in queue.next_batch()]


def test_a_budget_is_never_exceeded():
    budget = ByteBudget(10)
    assert [budget.take(6), budget.take(5), budget.take(4)] == [True, False, True]
    budget.give_back(6)
    assert budget.used_bytes == 4


def test_blocks_are_written_with_their_keys_and_parents():
    queue, _ = new_queue()
    queue.add(0, payloads(2), KEYS)
    first, second = queue.next_batch()
    assert (first.key, first.parent_key, first.payload) == (KEYS[0], b"", bytes(10))
    assert (second.key, second.parent_key, second.payload) == (KEYS[1], KEYS[0], b"\x01" * 10)


def test_payloads_are_copied():
    queue, _ = new_queue()
    payload = bytearray(b"before....")
    queue.add(0, [memoryview(payload)], KEYS)
    payload[:] = b"after....."
    assert queue.next_batch()[0].payload == b"before...."


def test_what_is_settled_is_in_the_account_and_its_bytes_are_free():
    queue, budget = new_queue()
    assert queue.add(0, payloads(3), KEYS) == 3
    assert budget.used_bytes == 30
    queue.next_batch()
    assert not queue.is_empty
    queue.settle([HELD, STORED, STORED])
    assert queue.account == Finished(saved_blocks=3, already_held_blocks=1)
    assert (queue.is_empty, budget.used_bytes) == (True, 0)


def test_what_went_past_the_node_is_in_the_account():
    queue, _ = new_queue()
    queue.add(0, payloads(4), KEYS)
    queue.next_batch()
    queue.settle([HELD, STORED, NO_ROOM, STORED], direct_blocks=3)
    assert queue.account.direct_blocks == 2


def test_a_batch_is_bounded_in_bytes_and_has_one_block_at_least():
    queue, _ = new_queue(batch_bytes=25)
    queue.add(0, [*payloads(3), memoryview(bytes(99))], KEYS)
    batches = []
    while batch := indexes(queue):
        batches.append(batch)
        queue.settle([STORED] * len(batch))
    assert batches == [[0, 1], [2], [3]]


def test_a_batch_is_bounded_in_blocks():
    count = BATCH_BLOCKS_MAX + 1
    queue, _ = new_queue(limit_bytes=count, batch_bytes=count)
    keys = KeyChain(b"n" * 16, 1).keys_of(range(count))
    assert queue.add(0, [memoryview(b"1")] * count, keys) == count
    assert len(queue.next_batch()) == BATCH_BLOCKS_MAX
    queue.settle([STORED] * BATCH_BLOCKS_MAX)
    assert len(queue.next_batch()) == 1


def test_a_batch_is_a_run_of_neighbours():
    queue, _ = new_queue()
    queue.add(0, payloads(2), KEYS)
    queue.add(5, payloads(1), KEYS)
    assert indexes(queue) == [0, 1]
    queue.settle([STORED, STORED])
    assert indexes(queue) == [5]


def test_over_the_bound_the_newest_are_refused():
    queue, budget = new_queue(limit_bytes=25)
    assert queue.add(0, payloads(5), KEYS) == 2
    assert queue.account == Finished(refused_blocks=3, miss=MissReason.QUEUE_FULL)
    assert indexes(queue) == [0, 1]
    assert budget.used_bytes == 20


def test_behind_a_gap_nothing_is_taken_even_where_there_is_room():
    queue, _ = new_queue(limit_bytes=25)
    queue.add(0, payloads(3), KEYS)
    queue.next_batch()
    queue.settle([STORED, STORED])
    assert queue.add(3, payloads(1), KEYS) == 0
    assert queue.account.refused_blocks == 2


def test_saving_again_from_the_gap_on_closes_it():
    queue, _ = new_queue(limit_bytes=25)
    queue.add(0, payloads(3), KEYS)
    queue.next_batch()
    queue.settle([STORED, STORED])
    assert queue.add(2, payloads(2), KEYS) == 2
    assert indexes(queue) == [2, 3]


def test_a_refused_block_takes_all_that_wait_behind_it():
    queue, budget = new_queue(batch_bytes=20)
    queue.add(0, payloads(6), KEYS)
    queue.next_batch()
    queue.settle([STORED, NO_ROOM])
    assert indexes(queue) == []
    assert queue.account == Finished(saved_blocks=1, refused_blocks=5, miss=MissReason.NO_ROOM)
    assert budget.used_bytes == 0


def test_a_refused_block_leaves_what_waits_before_it():
    queue, _ = new_queue(batch_bytes=10)
    queue.add(4, payloads(1), KEYS)
    queue.add(0, payloads(2), KEYS)
    queue.next_batch()
    queue.settle([WriteStatus.PARENT_MISSING])
    assert indexes(queue) == [0]


def test_the_first_reason_is_told():
    queue, _ = new_queue()
    queue.add(0, payloads(3), KEYS)
    queue.next_batch()
    queue.settle([STORED, WriteStatus.CORRUPT, WriteStatus.PARENT_MISSING])
    assert queue.account == Finished(1, 0, 2, MissReason.CORRUPT)


@pytest.mark.parametrize("statuses", [[], [STORED], [STORED] * 5], ids=["none", "few", "many"])
def test_a_block_without_a_status_is_refused(statuses: Sequence[WriteStatus]):
    queue, budget = new_queue()
    queue.add(0, payloads(3), KEYS)
    queue.next_batch()
    queue.settle(statuses)
    saved = min(len(statuses), 3)
    miss = None if saved == 3 else MissReason.TIER_UNAVAILABLE
    assert queue.account == Finished(saved, 0, 3 - saved, miss)
    assert budget.used_bytes == 0


def test_what_is_given_up_is_refused_under_way_or_not():
    queue, budget = new_queue(batch_bytes=20)
    queue.add(0, payloads(5), KEYS)
    queue.next_batch()
    queue.abandon(MissReason.TIMEOUT)
    assert (queue.is_empty, budget.used_bytes) == (True, 0)
    assert queue.account == Finished(refused_blocks=5, miss=MissReason.TIMEOUT)
    assert queue.add(3, payloads(1), KEYS) == 0
    assert queue.add(0, payloads(1), KEYS) == 1


def test_giving_up_nothing_changes_nothing():
    queue, _ = new_queue()
    queue.abandon(MissReason.CLOSED)
    assert queue.account == Finished()
    assert queue.add(7, payloads(1), KEYS) == 1


acts = st.one_of(
    st.tuples(st.just("add"), st.integers(0, 20), st.integers(0, 8)),
    st.tuples(st.just("write"), st.lists(st.sampled_from(WriteStatus), max_size=6)),
    st.tuples(st.just("abandon")),
)


@given(st.lists(acts, max_size=30))
def test_every_block_ends_in_one_count_and_every_byte_comes_back(steps: list[tuple]):
    queue, budget = new_queue(limit_bytes=95, batch_bytes=30)
    offered = 0
    for act, *arguments in steps:
        if act == "add":
            first, count = arguments
            offered += count
            assert queue.add(first, payloads(count), KEYS) <= count
        elif act == "write":
            queue.next_batch()
            queue.settle(arguments[0])
        else:
            queue.abandon(MissReason.CLOSED)
        assert 0 <= budget.used_bytes <= 95
    queue.abandon(MissReason.CLOSED)
    account = queue.account
    assert budget.used_bytes == 0
    assert account.saved_blocks + account.refused_blocks == offered
    assert (account.miss is None) == (account.refused_blocks == 0)
