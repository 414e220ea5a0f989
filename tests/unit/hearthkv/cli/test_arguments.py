"""The command line says what is wanted, or why it can't be."""

from pathlib import Path

import pytest

from hearthkv.cli.arguments import (
    NODES_DEFAULT,
    PORT_DEFAULT,
    ROUNDS_DEFAULT,
    ROUNDS_RANGE,
    ROUTER_DEFAULT,
    TOKENS_DEFAULT,
    TOKENS_RANGE,
    DemoOptions,
    DrainOptions,
    StatusOptions,
    UpOptions,
    parse,
)
from hearthkv.demo import script


def test_a_demo_without_flags_is_the_usual_one():
    assert parse(["demo"], "1") == DemoOptions(
        TOKENS_DEFAULT, ROUNDS_DEFAULT, NODES_DEFAULT, Path("out/demo"), None
    )


def test_a_demo_can_be_sized_and_written_elsewhere():
    given = "demo --tokens 8000 --rounds 5 --nodes 2 --output a --json b/c.json"
    assert parse(given.split(), "1") == DemoOptions(8000, 5, 2, Path("a"), Path("b/c.json"))


def test_a_demo_can_be_played_before_a_cluster_that_runs():
    options = parse(["demo", "--router", "127.0.0.1:7400"], "1")
    assert isinstance(options, DemoOptions)
    assert options.router == "127.0.0.1:7400"


def test_up_and_status_have_their_flags():
    assert parse(["up"], "1") == UpOptions(NODES_DEFAULT, PORT_DEFAULT, 4.0)
    assert parse(["up", "--port", "0", "--capacity-gb", "0.5"], "1") == UpOptions(3, 0, 0.5)
    assert parse(["status", "--router", "a:1"], "1") == StatusOptions("a:1")


def test_a_node_is_told_to_leave_or_to_stay():
    usual = ROUTER_DEFAULT
    assert parse(["drain", "n"], "1") == DrainOptions("n", usual, cancel=False, wait=False)
    assert parse(["drain", "n", "--wait"], "1") == DrainOptions("n", usual, cancel=False, wait=True)
    assert parse(["drain", "n", "--cancel", "--router", "a:1"], "1") == DrainOptions(
        "n", "a:1", cancel=True, wait=False
    )


def test_the_bounds_are_those_of_the_script():
    assert (script.TOKENS_MIN, script.TOKENS_MAX) == TOKENS_RANGE
    assert script.TOKENS_DEFAULT == TOKENS_DEFAULT
    assert (script.ROUNDS_MIN, script.ROUNDS_FULL) == ROUNDS_RANGE


@pytest.mark.parametrize(
    ("given", "trouble"),
    [
        ("demo --tokens 1999", "'1999' must be a whole number in 2000..8000"),
        ("demo --tokens 8001", "'8001' must be a whole number in 2000..8000"),
        ("demo --tokens many", "'many' must be a whole number in 2000..8000"),
        ("demo --rounds 1", "'1' must be a whole number in 2..10"),
        ("demo --router a:1 --nodes 2", "not allowed with argument"),
        ("demo --router a:1 --nodes 3", "not allowed with argument"),
        ("demo --nodes 1", "'1' must be a whole number in 2..16"),
        ("up --port 65536", "'65536' must be a whole number in 0..65535"),
        ("up --capacity-gb 0", "'0' must be a number > 0"),
        ("up --capacity-gb inf", "'inf' must be a number > 0"),
        ("up --capacity-gb much", "'much' must be a number > 0"),
        ("drain", "required: NODE"),
        ("drain n --cancel --wait", "not allowed with argument"),
        ("", "required: COMMAND"),
        ("down", "invalid choice: 'down'"),
    ],
)
def test_what_cannot_be_is_refused_with_code_2(
    given: str, trouble: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as caught:
        parse(given.split(), "1")
    assert caught.value.code == 2
    assert trouble in capsys.readouterr().err


def test_the_version_is_said(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as caught:
        parse(["--version"], "1.2.3")
    assert caught.value.code == 0
    assert capsys.readouterr().out == "hearthkv 1.2.3\n"
