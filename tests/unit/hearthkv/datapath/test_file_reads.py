"""Tests of `hearthkv.datapath.file_reads`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.core.direct_path import FileAddress
from hearthkv.datapath.file_reads import FileRead, Filling, beyond, runs_of, warm_slices


def read(offset: int, size_bytes: int = 10, *, name: str = "a") -> FileRead:
    return FileRead(FileAddress(name, offset), memoryview(bytearray(size_bytes)))


def shape(reads: list[FileRead], **limits: int) -> list[tuple[str, int, tuple[int, ...]]]:
    return [(run.start.name, run.start.offset, run.indexes) for run in runs_of(reads, **limits)]


def test_nothing_makes_no_run():
    assert runs_of([]) == []


def test_neighbours_in_the_file_are_one_run_wherever_they_go_in_memory():
    reads = [read(30), read(10), read(20)]
    (run,) = runs_of(reads)
    assert (run.start, run.indexes, run.size_bytes) == (FileAddress("a", 10), (1, 2, 0), 30)
    assert [part is reads[i].into for part, i in zip(run.parts, run.indexes, strict=True)] == [
        True
    ] * 3


def test_a_gap_or_another_file_ends_a_run():
    reads = [read(0), read(10), read(21), read(31, name="b")]
    assert shape(reads) == [("a", 0, (0, 1)), ("a", 21, (2,)), ("b", 31, (3,))]


def test_the_same_bytes_can_be_read_twice():
    assert shape([read(0), read(0)]) == [("a", 0, (0,)), ("a", 0, (1,))]


def test_a_run_is_bounded_in_bytes_and_in_parts():
    reads = [read(10 * i) for i in range(5)]
    assert shape(reads, run_bytes_max=29) == [
        ("a", 0, (0, 1)),
        ("a", 20, (2, 3)),
        ("a", 40, (4,)),
    ]
    assert shape(reads, run_parts_max=3) == [("a", 0, (0, 1, 2)), ("a", 30, (3, 4))]
    assert shape(reads, run_bytes_max=5) == [("a", 10 * i, (i,)) for i in range(5)]


@given(st.lists(st.integers(0, 40)), st.integers(1, 60), st.integers(1, 5))
def test_every_read_is_in_one_run_at_its_place(places: list[int], bytes_max: int, parts_max: int):
    reads = [read(10 * place) for place in places]
    runs = runs_of(reads, run_bytes_max=bytes_max, run_parts_max=parts_max)
    assert sorted(index for run in runs for index in run.indexes) == list(range(len(reads)))
    for run in runs:
        assert len(run.parts) <= parts_max
        assert run.size_bytes <= max(bytes_max, 10)
        for at, index in enumerate(run.indexes):
            assert reads[index].address.offset == run.start.offset + 10 * at


def test_what_is_left_of_parts():
    parts = [memoryview(b"abc"), memoryview(b"de")]
    assert [[bytes(part) for part in beyond(parts, filled)] for filled in range(6)] == [
        [b"abc", b"de"],
        [b"bc", b"de"],
        [b"c", b"de"],
        [b"de"],
        [b"e"],
        [],
    ]


def test_parts_are_settled_in_order_as_soon_as_they_are_whole():
    (run,) = runs_of([read(10), read(0)])
    settled: list[int] = []
    filling = Filling(run, settled.append)
    seen = []
    for count in (0, 9, 1, 9, 1, 0):
        filling.add(count)
        seen.append((filling.filled, tuple(settled)))
    assert seen == [(0, ()), (9, ()), (10, (0,)), (19, (0,)), (20, (0, 1)), (20, (0, 1))]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        pytest.param([5], ["5"], id="one part"),
        pytest.param([4, 6, 1], ["46", "1"], id="full slices"),
        pytest.param([4, 7, 3], ["4", "73"], id="what does not fit begins the next"),
        pytest.param([1, 25, 2], ["1", "25", "2"], id="a larger part stands alone"),
    ],
)
def test_parts_are_cut_into_warm_slices(sizes: list[int], expected: list[str]):
    parts = [memoryview(bytes(size)) for size in sizes]
    found = list(warm_slices(parts, 10))
    assert ["".join(str(len(part)) for part in parts[cut]) for cut, _ in found] == expected
    assert [size for _, size in found] == [sum(map(len, parts[cut])) for cut, _ in found]
