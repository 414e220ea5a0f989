"""
Reads the file that proves that a node and this process share a host. Not pure; blocks.

A node names the path, and a node is trusted in nothing: nobody may use this to have some other
file of the user's read and sent. So only a file of the proof's name, size, owner and mode is read.
"""

import os
import stat
from pathlib import PurePath

from hearthkv.core.direct_path import PROOF_BYTES, PROOF_NAME
from hearthkv.core.errors import DirectPathError


def read_proof(path: str, user_id: int) -> bytes:
    """
    Return the proof that lies at a path.

    Args:
        path: What a node said.
        user_id: Who owns the file; our own user.

    Raises:
        DirectPathError: If there is none, or what is there is not like one.
    """
    if not PurePath(path).is_absolute() or PurePath(path).name != PROOF_NAME or "\0" in path:
        raise DirectPathError(f"proof is said to be at {path!r}, must be /.../{PROOF_NAME}")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _check(os.fstat(descriptor), user_id)
            proof = os.read(descriptor, PROOF_BYTES + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise DirectPathError(f"proof can't be read here: {error}") from error
    if len(proof) != PROOF_BYTES:
        raise DirectPathError(f"proof is {len(proof)} bytes, must be {PROOF_BYTES}")
    return proof


def _check(found: os.stat_result, user_id: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise DirectPathError("proof is no plain file")
    if found.st_uid != user_id or stat.S_IMODE(found.st_mode) & 0o077:
        raise DirectPathError(
            f"proof belongs to user {found.st_uid}, mode {stat.S_IMODE(found.st_mode):o}, "
            f"must be of user {user_id} alone"
        )
