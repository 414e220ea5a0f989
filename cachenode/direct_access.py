"""Who is let into the node's stores: clients that prove that they share its host."""

from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final

from cachenode.host_proof import FOLDER_NAME, HostProof, proof_in_private_folder
from hearthkv.core.direct_path import Attached, Attachment
from hearthkv.datapath.redis_place import parse_place


class DirectAccess(AbstractContextManager["DirectAccess"]):
    """
    The proof of one start of a node, and what it opens. Removes the proof at its end.

    Args:
        attachment: What a client with the right proof is told; relative paths in it are those
            of this process.

    Raises:
        SettingsError: If the URL of a server can't be understood.
        StartupError: If the proof can't be put where only the node's user can read it.
    """

    def __init__(self, attachment: Attachment) -> None:
        self._attachment: Final = _with_absolute_paths(attachment)
        self._proof = (
            HostProof(Path(attachment.ssd_dir) / FOLDER_NAME)
            if attachment.ssd_dir
            else proof_in_private_folder()
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._proof.remove()

    def attach(self, shown: bytes) -> Attached:
        """
        Tell where the proof is, and, to whoever shows it, where the stores are.

        Args:
            shown: What the client has read there; empty if it has not been told yet.

        Raises:
            StaleProofError: If it is not the proof of this start.
        """
        if not shown:
            return Attached(self._proof.path, None)
        self._proof.check(shown)
        return Attached(self._proof.path, self._attachment)

    def check(self, shown: bytes) -> None:
        """
        Let a call pass that carries the proof.

        Raises:
            StaleProofError: If it is not the proof of this start.
        """
        self._proof.check(shown)


def _with_absolute_paths(attachment: Attachment) -> Attachment:
    """What clients are told: they may run in another folder than the node."""
    return replace(
        attachment,
        redis_urls=tuple(map(_absolute_url, attachment.redis_urls)),
        ssd_dir=_absolute(attachment.ssd_dir),
    )


def _absolute_url(url: str) -> str:
    place = parse_place(url)
    return replace(place, ca_file=_absolute(place.ca_file)).secret_url()


def _absolute(path: str) -> str:
    return str(Path(path).absolute()) if path else ""
