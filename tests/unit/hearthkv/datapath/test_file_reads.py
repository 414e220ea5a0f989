"""Tests of `hearthkv.datapath.file_reads`."""

from hypothesis import given
from hypothesis import strategies as st

from hearthkv.core.direct_path import FileAddress
from hearthkv.datapath.file_reads import FileRead, beyond, runs_of, whole_parts


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


def test_which_reads_are_served_in_full():
    (run,) = runs_of([read(10), read(0)])
    assert [list(whole_parts(run, filled)) for filled in (0, 9, 10, 19, 20)] == [
        [],
        [],
        [1],
        [1],
        [1, 0],
    ]
