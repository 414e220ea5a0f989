"""
How a server process starts and ends: flags, one READY line, signals, exit codes.

A `__main__` module hands in its arguments and environment and does nothing else by itself::

    def main() -> int:
        return run_program("hearthkv-router", start)

    def start() -> None:
        line = CommandLine("hearthkv-router", __doc__, (ROUTER,), sys.argv[1:], os.environ)
        settings = line.load(ROUTER)
        if line.is_print_config:
            print(line.describe())
        else:
            configure_logging(settings.log_level)
            run_until_signal(partial(serve, settings))
"""

import argparse
import ast
import asyncio
import inspect
import os
import signal
import sys
import textwrap
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TypeVar, get_type_hints

from hearthkv.core.errors import SettingsError, StartupError
from hearthkv.settings import (
    SECTION_NAMES,
    Loaded,
    Section,
    describe,
    flag_name,
    load,
    read_toml,
    variable_name,
)

Settings = TypeVar("Settings")

EXIT_DONE = 0
EXIT_STARTUP = 2
"""Startup trouble, a wrong flag included: what argparse exits with, too."""


class CommandLine:
    """
    The flags of a process: one for every field of its settings, `--config`, `--print-config`.

    Args:
        program: Name of the command.
        description: What `--help` says first.
        sections: Tables of the TOML file that the process reads; no two share a field's name.
        arguments: Arguments, without the command itself.
        environment: All variables; only those of the sections' fields are looked at.
        secret_fields: Fields that `--print-config` masks.

    Raises:
        SettingsError: If the file can't be read or has an unknown table.
        SystemExit: If a flag is unknown, or asks for help.
    """

    def __init__(
        self,
        program: str,
        description: str,
        sections: Sequence[Section[object]],
        arguments: Sequence[str],
        environment: Mapping[str, str],
        *,
        secret_fields: frozenset[str] = frozenset(),
    ) -> None:
        given = _parser(program, description, sections).parse_args(arguments)
        self.is_print_config: bool = given.print_config
        """Whether the process should print its settings and end."""
        self._sections = sections
        self._environment = environment
        self._secret_fields = secret_fields
        self._file_name: str = given.config or "settings"
        self._flags = {
            name: text
            for name, text in vars(given).items()
            if name not in {"config", "print_config"}
        }
        self._tables: Mapping[str, Mapping[str, object]] = {}
        if given.config:
            known = dict.fromkeys((*(section.name for section in sections), *SECTION_NAMES))
            self._tables = read_toml(Path(given.config), tuple(known))

    def load(self, section: Section[Settings]) -> Settings:
        """
        Return one section's settings.

        Raises:
            SettingsError: For an unknown field or an impossible value; names source and field.
        """
        return self._loaded(section).settings

    def describe(self) -> str:
        """
        Return all settings as a TOML file, with the source of each; secrets are masked.

        Raises:
            SettingsError: As `load` does.
        """
        tables = (
            describe(section.name, self._loaded(section), self._secret_fields)
            for section in self._sections
        )
        return "\n\n".join("\n".join(lines) for lines in tables)

    def _loaded(self, section: Section[Settings]) -> Loaded[Settings]:
        return load(
            section,
            tables=self._tables,
            file_name=self._file_name,
            environment=self._environment,
            flags=self._flags,
        )


def run_program(program: str, start: Callable[[], None]) -> int:
    """
    Run a process to its end and return its exit code.

    A SettingsError or StartupError becomes one line on standard error and EXIT_STARTUP. A reader
    of standard output that has gone, such as `head`, ends the process like any other.
    """
    try:
        start()
        sys.stdout.flush()
    except (SettingsError, StartupError) as error:
        print(f"{program}: {error}", file=sys.stderr)
        return EXIT_STARTUP
    except BrokenPipeError:
        # What is left in the buffer goes nowhere, or the interpreter complains at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    return EXIT_DONE


def run_until_signal(serve: Callable[[asyncio.Event], Coroutine[None, None, None]]) -> None:
    """
    Run a server until SIGTERM or SIGINT.

    Args:
        serve: Handed an event, which the first signal sets; serves until then and cleans up.
            A second signal has its usual effect: it ends the process at once.
    """

    async def run() -> None:
        stop = asyncio.Event()
        _stop_on_signal(stop)
        await serve(stop)

    asyncio.run(run())


def announce_ready(address: str, metrics_address: str | None) -> None:
    """Print the READY line, which says where a server listens."""
    print(f"READY address={address} metrics={metrics_address or '-'}", flush=True)


def _stop_on_signal(stop: asyncio.Event) -> None:
    # As PID 1 of a container a process has no default for SIGTERM, so it must be handled.
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)

    def stop_once() -> None:
        stop.set()
        for number in signals:
            loop.remove_signal_handler(number)

    for number in signals:
        loop.add_signal_handler(number, stop_once)


def _parser(
    program: str, description: str, sections: Sequence[Section[object]]
) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program, description=description, argument_default=argparse.SUPPRESS
    )
    parser.add_argument("--config", metavar="FILE", default="", help="TOML file with settings")
    parser.add_argument(
        "--print-config",
        action="store_true",
        default=False,
        help="print all settings and where each comes from, then exit",
    )
    for section in sections:
        group = parser.add_argument_group(
            f"[{section.name}]",
            f"also as {variable_name(section.name, 'field')[:-5]}... in the environment",
        )
        texts = _field_texts(section.settings_type)
        for name in get_type_hints(section.settings_type):
            group.add_argument(
                flag_name(name), metavar="VALUE", help=texts.get(name, "").replace("%", "%%")
            )
    return parser


def _field_texts(settings_type: type[object]) -> Mapping[str, str]:
    """The docstrings under the fields of a dataclass; none where its source is not at hand."""
    try:
        source = textwrap.dedent(inspect.getsource(settings_type))
    except OSError:
        return {}
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)
    texts = {}
    for field, text in zip(definition.body, definition.body[1:], strict=False):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                value=ast.Constant(value=str(words))
            ):
                texts[name] = " ".join(words.split())
    return texts
