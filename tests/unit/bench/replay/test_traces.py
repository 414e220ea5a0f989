"""Traces, read from their files."""

import gzip
import json
from pathlib import Path

import pytest

from bench.replay.traces import NAMES, Arrivals, read

ARRIVALS = Arrivals(seed=1, session_count=9)


def write(folder: Path, name: str, *rows: dict) -> None:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(text.encode()))


def session(name: str, *requests: dict) -> dict:
    return {"session": name, "block_size": 64, "requests": list(requests)}


def test_chat_has_its_own_times(tmp_path):
    rows = [
        {"timestamp": 2500, "input_length": 600, "hash_ids": [0, 2]},
        {"timestamp": 1000, "input_length": 512, "hash_ids": [0]},
    ]
    write(tmp_path, "mooncake-conversation", *rows)
    trace = read("mooncake-conversation", tmp_path, ARRIVALS)
    assert [request.at_s for request in trace.requests] == [1.0, 2.5]
    assert trace.requests[1].runs == ((0, 1), (2, 1))
    assert (trace.block_tokens, trace.tokens) == (512, 1112)


def test_coding_sessions_share_no_blocks_and_know_when_each_thread_is_idle(tmp_path):
    requests = [
        {"t": 0.0, "in": 70, "runs": [[1, 1]], "api": 2.0},
        {"t": 5.0, "in": 64, "runs": [[2, 1]], "agent": 1},
        {"t": 9.0, "in": 140, "runs": [[1, 2]], "api": 3.0},
    ]
    write(tmp_path, "agent-coding-part-a", session("a", *requests), session("b", *requests))
    trace = read("agent-coding-part-a", tmp_path, ARRIVALS)
    of_a = [request for request in trace.requests if request.thread.startswith("a/")]
    of_b = [request for request in trace.requests if request.thread.startswith("b/")]
    assert [request.idle_s for request in of_a] == [7.0, None, None]
    assert [request.thread for request in of_a] == ["a/0", "a/1", "a/0"]
    assert not {run for each in of_a for run in each.runs} & {
        run for each in of_b for run in each.runs
    }


def test_agent_runs_start_anew(tmp_path):
    rows = [
        {"session": name, "timestamp": at_s, "input_length": 16, "runs": [[0, 1]]}
        for name, at_s in (("a", 0.0), ("a", 4.0), ("b", 90_000.0), ("b", 90_003.0))
    ]
    write(tmp_path, "agent-lmcache-16", *rows)
    trace = read("agent-lmcache-16", tmp_path, ARRIVALS)
    assert trace.requests[-1].at_s < 9000
    for name, gap_s in (("a", 4.0), ("b", 3.0)):
        first, second = (request for request in trace.requests if request.thread == name)
        assert second.at_s - first.at_s == pytest.approx(gap_s)
        assert (first.idle_s, second.idle_s) == (pytest.approx(gap_s), None)


def test_a_seed_draws_the_same_sessions_again(tmp_path):
    rows = [
        {"session": str(number), "timestamp": 0.0, "input_length": 16, "runs": [[number, 1]]}
        for number in range(20)
    ]
    write(tmp_path, "agent-lmcache-16", *rows)
    drawn = [read("agent-lmcache-16", tmp_path, Arrivals(seed, 5)) for seed in (1, 1, 2)]
    assert len(drawn[0].requests) == 5
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_file_is_named(tmp_path, name):
    with pytest.raises(FileNotFoundError, match=name):
        read(name, tmp_path, ARRIVALS)
