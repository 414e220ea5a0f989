"""Rows are checked once and then measured in turns."""

from pathlib import Path

import pytest

from bench.datapath.load import Bytes, Load
from bench.datapath.rounds import WrongBytesError, measure
from bench.datapath.row import Group, ReadRow, RowUnavailableError

BLOCK = 4096


class Copy(ReadRow):
    group = Group.MEMORY

    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self.log = log

    async def run(self) -> None:
        self.log.append(self.name)
        self.load.destination[:] = self.load.source

    async def close(self) -> None:
        self.log.append(f"close {self.name}")


class Idle(Copy):
    async def run(self) -> None:
        self.log.append(self.name)


class Absent(Copy):
    async def prepare(self, load: Load) -> None:
        raise RowUnavailableError("not on this machine")


class Dying(Copy):
    async def run(self) -> None:
        if self.log.count(self.name) == 3:
            raise RowUnavailableError("gone")
        await super().run()


@pytest.fixture
def load(tmp_path: Path) -> Load:
    return Bytes(tmp_path / "blocks", 3 * BLOCK + 1).load(BLOCK)


async def test_rows_take_turns_and_every_other_round_goes_backwards(load: Load):
    log: list[str] = []
    await measure([Copy("a", log), Copy("b", log)], load, rounds=2)
    assert log == ["a", "a", "b", "b", "a", "b", "b", "a", "close b", "close a"]


async def test_every_round_gives_a_sample_of_all_bytes(load: Load):
    measured = await measure([Copy("a", [])], load, rounds=3)
    assert [sample.moved_bytes for sample in measured.samples["a"]] == [3 * BLOCK] * 3


async def test_a_row_that_can_not_be_had_is_noted_and_closed(load: Load):
    log: list[str] = []
    measured = await measure([Absent("x", log), Copy("a", log)], load, rounds=1)
    assert measured.unavailable == {"x": "not on this machine"}
    assert list(measured.samples) == ["a"]
    assert log[-1] == "close x"


async def test_a_row_that_dies_on_the_way_is_left_out_and_the_others_go_on(load: Load):
    measured = await measure([Dying("d", []), Copy("a", [])], load, rounds=2)
    assert measured.unavailable == {"d": "gone"}
    assert [len(samples) for samples in measured.samples.values()] == [2]


async def test_what_another_row_has_read_does_not_count_for_one_that_reads_nothing(load: Load):
    with pytest.raises(WrongBytesError, match="lazy: 3 blocks of 4096 bytes"):
        await measure([Copy("a", []), Idle("lazy", [])], load, rounds=1)
