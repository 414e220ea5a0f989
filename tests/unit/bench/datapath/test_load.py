"""A load is whole blocks, the same in memory and on disk."""

from pathlib import Path

import pytest

from bench.datapath.load import Bytes


def test_a_load_has_as_many_whole_blocks_as_fit(tmp_path: Path):
    load = Bytes(tmp_path / "blocks", 10_000).load(4096)
    assert (load.block_count, load.total_bytes) == (2, 8192)
    assert list(load.slices) == [slice(0, 4096), slice(4096, 8192)]
    assert (tmp_path / "blocks").read_bytes()[:8192] == load.source
    assert len({*load.keys, *load.written_keys}) == 4


def test_arrived_means_every_byte(tmp_path: Path):
    load = Bytes(tmp_path / "blocks", 8192).load(4096)
    load.destination[:] = load.source
    assert load.has_arrived()
    load.destination[8191] ^= 1
    assert not load.has_arrived()
    load.clear()
    assert load.destination == bytes(8192)


def test_a_block_larger_than_the_data_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="a block of 4096 bytes is larger than the data of 100"):
        Bytes(tmp_path / "blocks", 100).load(4096)
