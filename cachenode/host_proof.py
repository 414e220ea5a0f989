"""
A secret that whoever can read the node's files can show, and nobody elsewhere.

It is made anew at every start, lies in a folder of mode 0700 in a file of mode 0600, and opens
the node's stores to a client. So it never appears in a log line or in an error.
"""

import errno
import hmac
import os
import secrets
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from hearthkv.core.direct_path import PROOF_BYTES, PROOF_NAME
from hearthkv.core.errors import StaleProofError, StartupError

FOLDER_NAME: Final = "host-proof"

_FOLDER_MODE, _FILE_MODE = 0o700, 0o600


class HostProof:
    """
    The secret of one start of a node. Its folder belongs to this node alone while it runs.

    Args:
        folder: Made if need be, for its owner only. It is no link, and nobody else's.

    Raises:
        StartupError: If the folder is not like that, or can't be written.
    """

    def __init__(self, folder: Path) -> None:
        self._secret = secrets.token_bytes(PROOF_BYTES)
        self._folder = folder.absolute()
        self.path: Final = str(self._folder / PROOF_NAME)
        """Where a client finds it; not a secret by itself."""

        try:
            self._write()
        except OSError as error:
            raise StartupError(
                f"host proof can't be kept in {self._folder} ({error.strerror}): make that a "
                f"folder which the node's user owns, or switch off direct_path"
            ) from error

    def check(self, shown: bytes) -> None:
        """
        Compare what a client shows with the secret, in a time that tells nothing.

        Raises:
            StaleProofError: If it is not that of this start.
        """
        if not hmac.compare_digest(shown, self._secret):
            raise StaleProofError(
                f"proof of {len(shown)} bytes is not that of this start of the node, must be "
                f"what {self.path} holds now"
            )

    def remove(self) -> None:
        """Remove the file, and the folder where nothing else is in it. Trouble is no matter."""
        with suppress(OSError):
            Path(self.path).unlink(missing_ok=True)
            self._folder.rmdir()

    def _write(self) -> None:
        """Put the secret in place in one step, so that nobody reads a half of it."""
        self._folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        # All else goes by the open folder: what is put in its place afterwards is not followed.
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if os.fstat(folder).st_uid != os.geteuid():
                raise PermissionError(errno.EPERM, "it belongs to another user")
            os.fchmod(folder, _FOLDER_MODE)
            part = f"{PROOF_NAME}.part"
            with suppress(FileNotFoundError):
                os.unlink(part, dir_fd=folder)
            file = os.open(
                part,
                os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
                _FILE_MODE,
                dir_fd=folder,
            )
            with open(file, "wb", buffering=0) as unbuffered:  # noqa: PTH123  # a descriptor
                unbuffered.write(self._secret)
            os.replace(part, PROOF_NAME, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            os.close(folder)


def proof_in_private_folder() -> HostProof:
    """
    Make a proof in a temporary folder, for a node that has no folder of its own.

    Raises:
        StartupError: If there is nowhere to put it.
    """
    try:
        folder = tempfile.mkdtemp(prefix="hearthkv-")
    except OSError as error:
        raise StartupError(
            f"host proof can't be kept in {tempfile.gettempdir()} ({error.strerror}): make it "
            f"writable, or switch off direct_path"
        ) from error
    return HostProof(Path(folder))
