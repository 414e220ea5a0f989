"""What `hearthkv demo` refuses before it starts anything, and how it ends."""

from dataclasses import replace
from pathlib import Path

import pytest

from hearthkv.cli.arguments import DemoOptions
from hearthkv.cli.demo import EXIT_FAULT, check_writable, exit_code, run
from hearthkv.core.errors import StartupError
from hearthkv.demo.turn_record import DemoResult


def test_a_file_that_can_be_written_is_left_as_it_is(tmp_path: Path):
    path = tmp_path / "new" / "demo.json"
    check_writable(path)
    assert list(path.parent.iterdir()) == []
    path.write_text("before")
    check_writable(path)
    assert path.read_text() == "before"


def test_a_folder_that_is_a_file_is_trouble(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StartupError, match=r"demo\.json can't be written: "):
        check_writable(tmp_path / "file" / "demo.json")


@pytest.mark.model
def test_results_that_cannot_be_written_stop_the_demo_before_it_starts(tmp_path: Path):
    (tmp_path / "file").write_text("")
    options = DemoOptions(2500, 10, 3, tmp_path / "file", None)
    with pytest.raises(StartupError, match="can't be written"):
        run(options)


def test_a_good_demo_ends_with_0(good_result: DemoResult, capsys: pytest.CaptureFixture[str]):
    assert exit_code(good_result) == 0
    assert capsys.readouterr().err == ""


def test_a_fault_is_one_line_and_code_1(
    good_result: DemoResult, capsys: pytest.CaptureFixture[str]
):
    bad = replace(good_result, after_failure=good_result.warm_again)
    assert exit_code(bad) == EXIT_FAULT
    text = capsys.readouterr().err
    assert text == (
        "hearthkv demo: after the node's failure the reason is 'session', must be 'failover'\n"
    )


def test_more_faults_are_counted(good_result: DemoResult, capsys: pytest.CaptureFixture[str]):
    cold = replace(good_result.after_failure, reason="session")
    assert exit_code(replace(good_result, after_failure=cold, warm_again=cold)) == EXIT_FAULT
    assert capsys.readouterr().err.endswith(" (and 1 more)\n")
