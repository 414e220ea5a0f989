"""Tests of hearthkv/client/peers.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.client import peers as module
from hearthkv.client.peers import Peers, check_address
from hearthkv.core.errors import BadInputError

A = "10.0.0.1:7500"


def test_a_peer_that_never_failed_is_admitted():
    assert Peers(1.0, 8.0).admit(A, 0.0)


def test_a_peer_that_failed_is_skipped_until_its_cooldown_is_over():
    peers = Peers(1.0, 8.0)
    assert peers.failed(A, 10.0) == 1.0
    assert not peers.admit(A, 10.9)
    assert peers.skipped(10.9) == {A}
    assert peers.skipped(11.0) == frozenset()
    assert peers.admit(A, 11.0)


def test_after_a_cooldown_one_caller_probes_and_the_others_go_on_skipping():
    peers = Peers(1.0, 8.0)
    peers.failed(A, 0.0)
    assert [peers.admit(A, 1.0), peers.admit(A, 1.0), peers.admit(A, 1.9)] == [True, False, False]


def test_a_probe_that_never_reports_costs_one_more_cooldown():
    peers = Peers(1.0, 8.0)
    peers.failed(A, 0.0)
    peers.admit(A, 1.0)
    assert peers.admit(A, 2.0)


def test_the_cooldown_doubles_up_to_its_maximum():
    peers = Peers(1.0, 8.0)
    lengths, now_s = [], 0.0
    for _ in range(6):
        lengths.append(peers.failed(A, now_s))
        now_s += lengths[-1]
        assert peers.admit(A, now_s)
    assert lengths == [1, 2, 4, 8, 8, 8]


def test_calls_that_fail_together_are_one_failure():
    peers = Peers(1.0, 8.0)
    assert [peers.failed(A, 0.0), peers.failed(A, 0.25), peers.failed(A, 0.5)] == [1.0, 0.75, 0.5]


def test_an_answer_ends_the_trouble():
    peers = Peers(1.0, 8.0)
    peers.failed(A, 0.0)
    peers.answered(A)
    assert peers.admit(A, 0.0)
    assert peers.failed(A, 0.0) == 1.0


def test_the_trouble_of_one_peer_is_not_that_of_another():
    peers = Peers(1.0, 8.0)
    peers.failed(A, 0.0)
    assert peers.admit("10.0.0.2:7500", 0.0)


def test_a_year_of_failures_does_not_overflow():
    peers = Peers(1.0, 8.0)
    for second in range(0, 2000 * 10, 10):
        assert peers.failed(A, float(second)) <= 8.0


def test_only_so_many_troubles_are_remembered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "TROUBLES_MAX", 2)
    peers = Peers(1.0, 8.0)
    for name in ("a:1", "b:1", "c:1"):
        peers.failed(name, 0.0)
    assert peers.skipped(0.5) == {"b:1", "c:1"}


QUARTERS = st.integers(0, 12).map(lambda quarters: quarters / 4)  # sums of them are exact


@given(st.lists(st.tuples(st.sampled_from(["admit", "failed", "answered"]), QUARTERS)))
def test_a_cooldown_is_bounded_and_admits_once_when_over(steps: list[tuple[str, float]]):
    peers, now_s = Peers(0.5, 4.0), 0.0
    for act, passed_s in steps:
        now_s += passed_s
        if act == "failed":
            assert 0 <= peers.failed(A, now_s) <= 4.0
        elif act == "answered":
            peers.answered(A)
        elif was_skipped := A in peers.skipped(now_s):
            assert peers.admit(A, now_s) is not was_skipped
        assert peers.skipped(now_s + 4.0) == frozenset()


@pytest.mark.parametrize("text", ["router:7400", "127.0.0.1:1", "[::1]:65535", "unix:/run/a.sock"])
def test_an_address_is_taken_as_it_is(text: str):
    assert check_address(text) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "router", ":7400", "router:", "router:0", "router:65536", "router:http", "unix:"),
        pytest.param("router:" + "9" * 5000, id="endless-port"),
    ],
)
def test_what_is_no_address_is_refused(text: str):
    with pytest.raises(BadInputError, match="must be host:port or unix:path"):
        check_address(text)
