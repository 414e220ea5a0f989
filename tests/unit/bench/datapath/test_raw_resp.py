"""The floor of Redis clients moves the right bytes, whatever the size of a block."""

from pathlib import Path

import pytest

from bench.datapath.load import Bytes
from bench.datapath.raw_resp import RawResp, window
from tests.redis_process import RedisProcess


@pytest.mark.parametrize("block_bytes", [1, 4096, 300_000], ids=str)
def test_what_is_set_is_got_and_deleted(tmp_path: Path, block_bytes: int):
    load = Bytes(tmp_path / "blocks", 40 * block_bytes).load(block_bytes)
    server = RedisProcess(tmp_path)
    server.start()
    try:
        resp = RawResp(server.socket_path)
        resp.set(load.keys, load)
        resp.get(load.keys, load)
        assert load.has_arrived()
        resp.delete([*load.keys, "absent"])
        assert server.command("DBSIZE") == b":0\r\n"
        resp.close()
    finally:
        server.kill()


def test_large_blocks_are_under_way_in_small_numbers():
    assert [window(kib * 1024) for kib in (1, 64, 368, 1024, 4096, 65536)] == [16, 16, 11, 4, 2, 2]
