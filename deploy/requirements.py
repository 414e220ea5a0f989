"""Print what an extra of pyproject.toml needs, one requirement a line. For image builds."""

import argparse
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path


def main() -> None:
    """Print the requirements of one extra."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pyproject", type=Path)
    parser.add_argument("extra")
    parser.add_argument("--without", default="", metavar="PACKAGE", help="leave this one out")
    given = parser.parse_args()
    project = tomllib.loads(given.pyproject.read_text(encoding="utf-8"))["project"]
    own = re.compile(rf"{project['name']}\[(.*)\]")
    extras = project["optional-dependencies"]
    asked = [*project["dependencies"], *_of_extra(extras, given.extra, own)]
    for requirement in dict.fromkeys(asked):
        if not given.without or not requirement.startswith(given.without):
            print(requirement)


def _of_extra(extras: dict[str, list[str]], name: str, own: re.Pattern[str]) -> Iterator[str]:
    """Yield an extra's requirements; where one is our own, those of the extras that it names."""
    for requirement in extras[name]:
        if found := own.fullmatch(requirement):
            for part in found[1].split(","):
                yield from _of_extra(extras, part, own)
        else:
            yield requirement


if __name__ == "__main__":
    main()
