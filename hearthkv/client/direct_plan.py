"""
Which reads of which stores bring the located blocks of a prefix. Pure.

A node says where its blocks lie, and is trusted in nothing: a server that it did not name, a
path that leads out of its folder and an offset beyond any file are breaches of the contract.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from hearthkv.core.block_ref import BlockRef
from hearthkv.core.direct_path import LocatedBlock, RedisAddress
from hearthkv.core.errors import PeerContractError
from hearthkv.datapath.file_reads import FileRead, FileRun, runs_of
from hearthkv.datapath.redis_blocks import NamedRead
from hearthkv.datapath.redis_names import RedisNames

FILE_BYTES_MAX: Final = 2**63 - 1
"""What a file of Linux may have."""

_NAME_CHARACTERS_MAX: Final = 1024


@dataclass(frozen=True, slots=True)
class ServerRead:
    """A block to be read from a Redis server."""

    block: int
    """Its place among the located blocks."""

    read: NamedRead


@dataclass(frozen=True, slots=True)
class RunRead:
    """Blocks to be read from a file at once."""

    blocks: tuple[int, ...]
    """Place among the located blocks of each part of the run."""

    refs: tuple[BlockRef, ...]
    run: FileRun


@dataclass(frozen=True, slots=True)
class DirectPlan:
    """All reads of a prefix. Those of one store are in the order of the prompt."""

    by_server: dict[int, list[ServerRead]]
    runs: list[RunRead]


def plan_reads(
    located: Sequence[LocatedBlock],
    view: memoryview,
    names: RedisNames,
    *,
    servers: int,
    has_files: bool,
) -> DirectPlan:
    """
    Return the reads that put located blocks one behind the other.

    Args:
        located: The blocks, all of one size.
        view: Writable bytes, at least as many as the blocks have.
        names: Of the node's copies.
        servers: How many Redis servers the node named.
        has_files: Whether it named a folder.

    Raises:
        PeerContractError: If a block is said to lie where no block may.
    """
    by_server: dict[int, list[ServerRead]] = {}
    in_files: list[int] = []
    reads: list[FileRead] = []
    plain_names: set[str] = set()
    at = 0
    for block, each in enumerate(located):
        ref, address = each.ref, each.address
        into = view[at : at + ref.size_bytes]
        at += ref.size_bytes
        if isinstance(address, RedisAddress):
            if address.server >= servers:
                raise PeerContractError(
                    f"block {block} lies in server {address.server}, must be under {servers}"
                )
            named = NamedRead(names.block_of(ref), ref, into)
            by_server.setdefault(address.server, []).append(ServerRead(block, named))
        else:
            if not has_files:
                raise PeerContractError(
                    f"block {block} lies in a file, must not: there is no folder"
                )
            if address.name not in plain_names:
                _check_name(address.name)
                plain_names.add(address.name)
            if address.offset + ref.size_bytes > FILE_BYTES_MAX:
                raise PeerContractError(f"offset is {address.offset}, must lie within a file")
            in_files.append(block)
            reads.append(FileRead(address, into))
    runs = [_run_read(run, in_files, located) for run in runs_of(reads)]
    return DirectPlan(by_server, sorted(runs, key=lambda run: min(run.blocks)))


def _run_read(run: FileRun, in_files: Sequence[int], located: Sequence[LocatedBlock]) -> RunRead:
    blocks = tuple(in_files[index] for index in run.indexes)
    return RunRead(blocks, tuple(located[block].ref for block in blocks), run)


def _check_name(name: str) -> None:
    parts = PurePosixPath(name).parts
    is_plain = 0 < len(name) <= _NAME_CHARACTERS_MAX and name.isprintable()
    # PurePosixPath drops "." and doubled slashes by itself; a node has no reason to send them.
    if not is_plain or "/".join(parts) != name or ".." in parts or name.startswith("/"):
        raise PeerContractError(
            f"file is {name[:80]!r}, must be a plain path within the node's folder"
        )
