"""The chart is a picture that shows every turn."""

from pathlib import Path

import pytest

from hearthkv.demo import chart
from hearthkv.demo.turn_record import DemoResult, SessionResult


def test_a_chart_is_a_png(good_result: DemoResult, tmp_path: Path):
    chart.draw(good_result, tmp_path / "demo.png")
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_a_folder_that_is_not_there_is_an_os_error(good_result: DemoResult, tmp_path: Path):
    with pytest.raises(OSError, match="No such file"):
        chart.draw(good_result, tmp_path / "absent" / "demo.png")


def test_a_session_without_misfortunes_has_a_chart(guest_result: SessionResult, tmp_path: Path):
    chart.draw(guest_result, tmp_path / "demo.png")
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
