"""The command line of `hearthkv`: what was asked for, as values. Reads no files."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

TOKENS_RANGE = (2000, 8000)
TOKENS_DEFAULT = 2500
ROUNDS_RANGE = (2, 10)
ROUNDS_DEFAULT = 10
NODES_MAX = 16
NODES_DEFAULT = 3
ROUTER_DEFAULT = "127.0.0.1:7400"
PORT_DEFAULT = 7400
PORT_MAX = 65_535
CAPACITY_GB_DEFAULT = 4.0

DEMO_NODES_MIN = 2
"""One node dies in the demo, and another one must be there to go on."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What `hearthkv demo` was asked for."""

    tokens: int
    rounds: int
    nodes: int
    output: Path
    json: Path | None
    """None: `demo.json` in `output`."""

    router: str | None = None
    """Address of a cluster that runs already; None: start one, and let misfortunes befall it."""


@dataclass(frozen=True, slots=True)
class UpOptions:
    """What `hearthkv up` was asked for."""

    nodes: int
    port: int
    capacity_gb: float


@dataclass(frozen=True, slots=True)
class StatusOptions:
    """What `hearthkv status` was asked for."""

    router: str


@dataclass(frozen=True, slots=True)
class DrainOptions:
    """What `hearthkv drain` was asked for."""

    node: str
    router: str
    cancel: bool
    """Whether the node shall stay after all."""

    wait: bool
    """Whether to go on until no session is left on the node."""


Options = DemoOptions | UpOptions | StatusOptions | DrainOptions


def parse(arguments: Sequence[str], version: str) -> Options:
    """
    Return what was asked for.

    Raises:
        SystemExit: If the arguments can't be used, or ask for help or the version.
    """
    given = _parser(version).parse_args(arguments)
    if given.command == "demo":
        nodes = given.nodes or NODES_DEFAULT
        return DemoOptions(
            given.tokens, given.rounds, nodes, given.output, given.json, given.router
        )
    if given.command == "up":
        return UpOptions(given.nodes or NODES_DEFAULT, given.port, given.capacity_gb)
    if given.command == "drain":
        return DrainOptions(given.node, given.router, given.cancel, given.wait)
    return StatusOptions(given.router)


def _parser(version: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hearthkv", description="Start, show and try a HearthKV cluster."
    )
    parser.add_argument("--version", action="version", version=f"hearthkv {version}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_demo(commands.add_parser("demo", help="play an agent's session, with and without cache"))
    _add_up(commands.add_parser("up", help="keep a cluster running on this machine"))
    _add_status(commands.add_parser("status", help="show the nodes and sessions of a router"))
    _add_drain(commands.add_parser("drain", help="have a node hand its sessions over and leave"))
    return parser


def _add_demo(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Start a cluster on this machine and play an agent's session before it: without the "
        "cache, with it, and on through a restart and a failure. Takes three to six minutes. With "
        "--router it plays before a cluster that runs already, and leaves its servers alone."
    )
    parser.add_argument(
        "--tokens",
        type=_Whole(*TOKENS_RANGE),
        default=TOKENS_DEFAULT,
        metavar="N",
        help="length of the last prompt, {}..{} (default %(default)s)".format(*TOKENS_RANGE),
    )
    parser.add_argument(
        "--rounds",
        type=_Whole(*ROUNDS_RANGE),
        default=ROUNDS_DEFAULT,
        metavar="N",
        help="rounds of the session, {}..{} (default %(default)s)".format(*ROUNDS_RANGE),
    )
    cluster = parser.add_mutually_exclusive_group()
    _add_nodes(cluster.add_argument, DEMO_NODES_MIN)
    cluster.add_argument(
        "--router", metavar="HOST:PORT", help="router of a cluster that runs already"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("out/demo"),
        metavar="DIR",
        help="folder for demo.png and demo.json (default %(default)s)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the JSON here instead")


def _add_up(parser: argparse.ArgumentParser) -> None:
    parser.description = "Start a cluster on this machine and keep it running until Ctrl-C."
    _add_nodes(parser.add_argument, 1)
    parser.add_argument(
        "--port",
        type=_Whole(0, PORT_MAX),
        default=PORT_DEFAULT,
        metavar="N",
        help="port of the router (default %(default)s); 0: any that is free",
    )
    parser.add_argument(
        "--capacity-gb",
        type=_positive,
        default=CAPACITY_GB_DEFAULT,
        metavar="GB",
        help="cache of each node, all tiers together (default %(default)s)",
    )


def _add_status(parser: argparse.ArgumentParser) -> None:
    parser.description = "Show the nodes of a router, how full they are, and its last sessions."
    _add_router(parser)


def _add_drain(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Have a node leave: it gets no new session, and its sessions move to other nodes with "
        "their blocks. It goes on serving until it is stopped."
    )
    parser.add_argument("node", metavar="NODE", help="name of the node, as `status` shows it")
    _add_router(parser)
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--cancel", action="store_true", help="have the node stay after all")
    choice.add_argument(
        "--wait", action="store_true", help="go on until no session is left on the node"
    )


def _add_router(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--router",
        default=ROUTER_DEFAULT,
        metavar="HOST:PORT",
        help="address of the router (default %(default)s)",
    )


def _add_nodes(add_argument: Callable[..., object], least: int) -> None:
    add_argument(
        "--nodes",
        type=_Whole(least, NODES_MAX),
        metavar="N",  # no default: a flag that names the default would not count as given
        help=f"cache nodes, {least}..{NODES_MAX} (default {NODES_DEFAULT})",
    )


class _Whole:
    """Parses a whole number within bounds, both included."""

    def __init__(self, least: int, most: int) -> None:
        self._least = least
        self._most = most

    def __call__(self, text: str) -> int:
        if not text.isdecimal() or not self._least <= int(text) <= self._most:
            raise argparse.ArgumentTypeError(
                f"{text!r} must be a whole number in {self._least}..{self._most}"
            )
        return int(text)


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} must be a number > 0")
    return number
