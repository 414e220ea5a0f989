"""hearthkv/process.py: how a server process starts and ends."""

import asyncio
import signal
import subprocess
import sys
from dataclasses import dataclass

import pytest

from hearthkv.core.errors import SettingsError, StartupError
from hearthkv.process import CommandLine, announce_ready, run_program, run_until_signal
from hearthkv.settings import Section


@dataclass(frozen=True, slots=True, kw_only=True)
class Kettle:
    """A kettle."""

    litres: float = 1.5
    """Water that it holds, at most 100 % of
    its volume."""

    password: str = ""

    def __post_init__(self) -> None:
        if self.litres <= 0:
            raise SettingsError(f"litres is {self.litres}, must be > 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cup:
    """A cup."""

    handle_count: int = 1


KETTLE, CUP = Section("kettle", Kettle), Section("cup", Cup)


def command_line(*arguments: str, environment=None) -> CommandLine:
    return CommandLine(
        "brew",
        "Brews tea.",
        (KETTLE, CUP),
        arguments,
        environment or {},
        secret_fields=frozenset({"password"}),
    )


def test_without_flags_the_defaults_stand():
    line = command_line()
    assert (line.load(KETTLE), line.load(CUP)) == (Kettle(), Cup())
    assert not line.is_print_config


def test_flags_beat_variables_and_variables_beat_the_file(tmp_path):
    path = tmp_path / "tea.toml"
    path.write_text("[kettle]\nlitres = 2\npassword = 'file'\n[cup]\nhandle_count = 2\n")
    line = command_line(
        "--config",
        str(path),
        "--litres",
        "4",
        environment={"HEARTHKV_KETTLE_LITRES": "3", "HEARTHKV_KETTLE_PASSWORD": "variable"},
    )
    assert line.load(KETTLE) == Kettle(litres=4.0, password="variable")
    assert line.load(CUP) == Cup(handle_count=2)


def test_all_settings_are_described_with_their_sources_and_without_secrets():
    line = command_line("--print-config", "--litres", "4", "--password", "tea")
    assert line.is_print_config
    assert line.describe() == (
        '[kettle]\nlitres = 4.0  # --litres\npassword = "***"  # --password\n\n'
        "[cup]\nhandle_count = 1  # default"
    )


def test_a_file_with_an_unknown_table_is_refused(tmp_path):
    path = tmp_path / "tea.toml"
    path.write_text("[saucer]\n")
    with pytest.raises(SettingsError, match="section 'saucer' is unknown, must be one of kettle"):
        command_line("--config", str(path))


def test_an_unknown_flag_ends_the_process_with_2(capsys):
    with pytest.raises(SystemExit) as caught:
        command_line("--sugar", "1")
    assert caught.value.code == 2
    assert "--sugar" in capsys.readouterr().err


def test_help_says_what_the_fields_mean(capsys):
    with pytest.raises(SystemExit):
        command_line("--help")
    text = " ".join(capsys.readouterr().out.split())
    assert "Water that it holds, at most 100 % of its volume." in text
    assert "HEARTHKV_KETTLE_... in the environment" in text


def test_help_does_without_the_meaning_where_the_source_is_not_at_hand(capsys):
    namespace: dict[str, object] = {"dataclass": dataclass, "__name__": __name__}
    exec("@dataclass\nclass Spoon:\n    length: int = 1\n", namespace)  # noqa: S102
    spoon: type[object] = namespace["Spoon"]  # type: ignore[assignment]
    with pytest.raises(SystemExit):
        CommandLine("stir", "Stirs.", (Section("spoon", spoon),), ["--help"], {})
    assert "--length" in capsys.readouterr().out


def test_a_program_that_ends_well_exits_with_0():
    assert run_program("brew", lambda: None) == 0


@pytest.mark.parametrize("error", [SettingsError("no water"), StartupError("no water")])
def test_trouble_at_the_start_is_one_line_and_exit_code_2(error, capsys):
    def start() -> None:
        raise error

    assert run_program("brew", start) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "brew: no water\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_server_cleanly_and_the_next_one_has_its_usual_effect(number):
    handlers = []

    async def serve(stop: asyncio.Event) -> None:
        signal.raise_signal(number)
        await stop.wait()
        handlers.append(signal.getsignal(number))

    run_until_signal(serve)
    usual = {signal.SIGTERM: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}
    assert handlers == [usual[number]]


def test_trouble_of_a_server_reaches_its_program():
    async def serve(_stop: asyncio.Event) -> None:
        raise StartupError("no port")

    with pytest.raises(StartupError, match="no port"):
        run_until_signal(serve)


@pytest.mark.parametrize(
    ("metrics", "line"),
    [
        ("h:2", "READY address=h:1 metrics=h:2\n"),
        (None, "READY address=h:1 metrics=-\n"),
    ],
)
def test_the_ready_line_says_where_a_server_listens(metrics, line, capsys):
    announce_ready("h:1", metrics)
    assert capsys.readouterr().out == line


def test_a_file_may_hold_the_sections_of_other_processes(tmp_path):
    path = tmp_path / "cluster.toml"
    path.write_text("[router]\nlease_s = 5\n[engine]\nthreads = 1\n[kettle]\nlitres = 2\n")
    assert command_line("--config", str(path)).load(KETTLE) == Kettle(litres=2.0)


def test_a_reader_that_stops_reading_is_no_trouble():
    program = "import hearthkv.process as p; p.run_program('brew', lambda: print('x\\n' * 100_000))"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as brew:
        assert brew.stdout is not None
        brew.stdout.readline()
        brew.stdout.close()
        assert brew.stderr is not None
        assert brew.stderr.read() == b""
