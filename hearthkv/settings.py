"""
Layered settings: defaults, then a TOML file, then environment variables, then flags.

`load` builds one frozen dataclass a process. Each field may come from another layer, and the
answer says from which, for `--print-config`. The environment is handed in by `__main__`.
"""

import dataclasses
import difflib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Generic, TypeVar, get_args, get_origin, get_type_hints

from hearthkv.core.errors import SettingsError

Settings = TypeVar("Settings")
Settings_co = TypeVar("Settings_co", covariant=True)
_PASSWORD = re.compile(r"(://[^/@\s]*:)[^@\s]*@")
"""The password in a URL, after what stands before it."""

_MISSPELT = 0.9
"""Likeness, 0 to 1, from which on an unknown variable is taken for a misspelt one."""

Scalar = bool | int | float | str | list[str] | tuple[str, ...]


SECTION_NAMES = ("kv_cache", "router", "cachenode", "engine")
"""All sections there are: one file may serve a whole cluster, and each process reads its own."""


@dataclass(frozen=True, slots=True)
class Section(Generic[Settings_co]):
    """One table of the TOML file and the dataclass that it fills."""

    name: str
    """Name of the table, for instance `kv_cache`."""

    settings_type: type[Settings_co]


@dataclass(frozen=True, slots=True)
class Loaded(Generic[Settings]):
    """Settings, and where each field came from."""

    settings: Settings
    sources: Mapping[str, str]
    """Field name to `default`, `FILE`, `$VARIABLE` or `--flag`."""


def variable_name(section: str, field: str) -> str:
    """Return the environment variable of a field: HEARTHKV_SECTION_FIELD."""
    return f"HEARTHKV_{section}_{field}".upper()


def flag_name(field: str) -> str:
    """Return the command-line flag of a field."""
    return "--" + field.replace("_", "-")


def read_toml(path: Path, sections: tuple[str, ...]) -> Mapping[str, Mapping[str, object]]:
    """
    Read a settings file.

    Raises:
        SettingsError: If it can't be read or parsed, or has a table that is not in `sections`.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: can't be read: {error.strerror}") from error
    except ValueError as error:  # of the TOML, of its UTF-8, or of a number in it
        raise SettingsError(f"{path}: is not TOML: {error}") from error
    for name, table in tables.items():
        if name not in sections:
            raise SettingsError(f"{path}: {_unknown('section', name, sections)}")
        if not isinstance(table, dict):
            raise SettingsError(f"{path}: {name} is a value, must be a section [{name}]")
    return tables


def load(
    section: Section[Settings],
    *,
    tables: Mapping[str, Mapping[str, object]],
    file_name: str,
    environment: Mapping[str, str],
    flags: Mapping[str, str],
) -> Loaded[Settings]:
    """
    Build one section's settings.

    Args:
        section: What to build.
        tables: The parsed file; may be empty.
        file_name: Name of the file, for messages.
        environment: Variables; only those of the section are looked at.
        flags: Field name to the text that was given; absent where no flag was given.

    Raises:
        SettingsError: For an unknown field, a variable whose name is almost that of a field, or an
            impossible value; names source, field and value.
    """
    hints = get_type_hints(section.settings_type)
    fields = dataclasses.fields(section.settings_type)  # type: ignore[arg-type]
    names = tuple(field.name for field in fields)
    sources = dict.fromkeys(names, "default")
    values: dict[str, Scalar] = {}
    for name, value in tables.get(section.name, {}).items():
        if name not in names:
            raise SettingsError(f"{file_name}: [{section.name}] {_unknown('field', name, names)}")
        sources[name] = file_name
        values[name] = _typed(value, hints[name], f"{file_name}: [{section.name}] {name}")
    for name in names:
        variable = variable_name(section.name, name)
        if variable in environment:
            sources[name] = f"${variable}"
            values[name] = _parsed(environment[variable], hints[name], f"${variable}")
        if name in flags:
            sources[name] = flag_name(name)
            values[name] = _parsed(flags[name], hints[name], flag_name(name))
    _check_variables(section.name, names, environment)
    missing = [field.name for field in fields if _is_required(field) and field.name not in values]
    if missing:
        raise SettingsError(f"{file_name}: [{section.name}] lacks {', '.join(missing)}")
    try:
        return Loaded(section.settings_type(**values), sources)
    except SettingsError as error:
        raise SettingsError(f"{_blamed(str(error), sources)}: [{section.name}] {error}") from error


def describe(section: str, loaded: Loaded[Settings], secret_fields: frozenset[str]) -> list[str]:
    """
    Return a line a field, in TOML, with its source as a comment.

    Fields of `secret_fields` are masked, and a field that is None is a comment as a whole,
    because TOML has no word for it.
    """
    lines = [f"[{section}]"]
    for name, source in loaded.sources.items():
        value = getattr(loaded.settings, name)
        shown = '"***"' if name in secret_fields and value else _toml(value)
        lines.append(f"# {name} is not set" if value is None else f"{name} = {shown}  # {source}")
    return lines


def _is_required(field: "dataclasses.Field[object]") -> bool:
    return field.default is field.default_factory is dataclasses.MISSING


def _unknown(kind: str, name: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    guess = f"; did you mean {near[0]!r}?" if near else ""
    return f"{kind} {name!r} is unknown, must be one of {', '.join(known)}{guess}"


def _check_variables(section: str, names: tuple[str, ...], environment: Mapping[str, str]) -> None:
    """Refuse a misspelt variable. Others are let be: Kubernetes makes some for every service."""
    known = [variable_name(section, name) for name in names]
    prefix = variable_name(section, "")
    for variable in environment:
        if variable.startswith(prefix) and variable not in known:
            near = difflib.get_close_matches(variable, known, n=1, cutoff=_MISSPELT)
            if near:
                raise SettingsError(f"${variable} is no setting; did you mean ${near[0]}?")


def _blamed(text: str, sources: Mapping[str, str]) -> str:
    """Name the sources of the fields that an error speaks of: those before its first ` is `."""
    words = set(re.findall(r"\w+", text.partition(" is ")[0]))
    named = [f"{source} ({name})" for name, source in sources.items() if name in words]
    return ", ".join(named) or "settings"


def _typed(value: object, hint: object, where: str) -> Scalar:
    wanted = _plain(hint)
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(str(value))  # a number beyond all floats becomes inf
    if wanted in {list, tuple}:
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value) if wanted is tuple else value
    elif isinstance(wanted, type) and type(value) is wanted:
        return value  # type: ignore[return-value]
    shown = _PASSWORD.sub(r"\1***@", repr(value))
    raise SettingsError(f"{where} is {shown}, must be {_type_name(wanted)}")


def _parsed(text: str, hint: object, where: str) -> Scalar:
    wanted = _plain(hint)
    if wanted is bool:
        try:
            return {"true": True, "1": True, "false": False, "0": False}[text.strip().lower()]
        except KeyError:
            raise SettingsError(f"{where} is {text!r}, must be true or false") from None
    if wanted in {list, tuple}:
        items = [item.strip() for item in text.split(",") if item.strip()]
        return tuple(items) if wanted is tuple else items
    try:
        return wanted(text)  # type: ignore[operator, no-any-return]
    except ValueError:
        raise SettingsError(f"{where} is {text!r}, must be {_type_name(wanted)}") from None


def _plain(hint: object) -> object:
    """The type inside an optional or a list."""
    if isinstance(hint, UnionType):
        hint = next(arg for arg in get_args(hint) if arg is not type(None))
    return get_origin(hint) or hint


def _type_name(wanted: object) -> str:
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
    return names.get(wanted, "a list of texts")  # type: ignore[call-overload, no-any-return]


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # The escapes of JSON are those of TOML, which also wants DEL escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return str(value)
