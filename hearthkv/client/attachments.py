"""
Which nodes' stores this client reaches by itself, and which it leaves alone for now. Not pure.

A client attaches once for each start of a node, when it first has a use for it:

1. `Attach` without a proof: the node names a file. One that is not there, or not ours alone, is
   on another host, or another user's.
2. `Attach` with what the file holds: the node names its Redis servers and its folder.
3. Each server is asked for the epoch that the node told, which tells a server of this node's
   from another one at the same address.

Whatever goes wrong on the way, or later, makes the node *not direct* for a while: its blocks go
through the node, which is slower and never wrong. Nobody is warned; it is a debug event.
"""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hearthkv.client.deadline import Deadline
from hearthkv.client.direct_calls import DirectCalls, is_not_served
from hearthkv.client.direct_stores import DirectStores
from hearthkv.client.events import DirectPathClosed, DirectPathOpened
from hearthkv.client.proof_file import read_proof
from hearthkv.client.read_threads import ReadThreads
from hearthkv.core.clock import Clock
from hearthkv.core.errors import (
    DirectPathError,
    HearthKVError,
    PeerTimeoutError,
    PeerUnreachableError,
)
from hearthkv.telemetry import Telemetry

RETRY_S: Final = 30.0
"""Seconds for which a node is not direct after something went wrong."""

NOT_SERVED_S: Final = 3600.0
"""The same for a node that has no direct path, or has it switched off."""

THREADS: Final = 4
"""Reads of files under way at once, over all nodes of this host."""


@dataclass(slots=True)
class _Entry:
    stores: DirectStores | None = None
    retry_at_s: float = 0.0
    is_attaching: bool = False


class Attachments:
    """
    The nodes of one client. For one event loop.

    Args:
        call: Gives the calls to the node at an address.
        is_enabled: False makes every node not direct.
        stall_s: Seconds that each step of attaching may take.
    """

    def __init__(
        self,
        call: Callable[[str], DirectCalls],
        *,
        is_enabled: bool,
        stall_s: float,
        clock: Clock,
        telemetry: Telemetry,
    ) -> None:
        self._call = call
        self._is_enabled = is_enabled
        self._stall_s = stall_s
        self._clock = clock
        self._telemetry = telemetry
        self._entries: dict[str, _Entry] = {}
        self._threads = ReadThreads(THREADS)

    async def stores(self, address: str, deadline: Deadline) -> DirectStores | None:
        """
        Return a node's stores; None where its blocks have to go through the node.

        While one caller attaches, others go through the node and do not wait.

        Raises:
            PeerUnreachableError, PeerTimeoutError: If the node itself does not answer.
        """
        if not self._is_enabled:
            return None
        entry = self._entries.setdefault(address, _Entry())
        if entry.stores is not None:
            return entry.stores
        if entry.is_attaching or self._clock.now() < entry.retry_at_s:
            return None
        entry.is_attaching = True
        try:
            stores = await self._attach(self._call(address), deadline)
        except (PeerTimeoutError, PeerUnreachableError):
            raise
        except HearthKVError as error:
            if deadline.left_s(self._clock.now()) > 0:  # else it is the caller who had no time
                self._leave_alone(address, error)
            return None
        finally:
            entry.is_attaching = False
        if address not in self._entries:  # the client was closed meanwhile
            stores.close()
            return None
        entry.stores = stores
        return stores

    def forget(self, stores: DirectStores) -> None:
        """Attach anew the next time: the node was started again."""
        if self._is_current(stores):
            del self._entries[stores.node.address]
            stores.retire()

    def refuse(self, stores: DirectStores, reason: HearthKVError) -> None:
        """Leave a node's stores alone for a while; no matter if it attached anew meanwhile."""
        if self._is_current(stores):
            stores.retire()
            self._leave_alone(stores.node.address, reason)

    def close(self) -> None:
        """Let go of all stores; a thread that hangs in a disk ends when the disk answers."""
        self._is_enabled = False
        for entry in self._entries.values():
            if entry.stores is not None:
                entry.stores.close()
        self._entries.clear()
        self._threads.close()

    def _is_current(self, stores: DirectStores) -> bool:
        entry = self._entries.get(stores.node.address)
        return entry is not None and entry.stores is stores

    def _leave_alone(self, address: str, reason: HearthKVError) -> None:
        retry_s = NOT_SERVED_S if is_not_served(reason) else RETRY_S
        self._entries[address] = _Entry(retry_at_s=self._clock.now() + retry_s)
        self._telemetry.emit(DirectPathClosed(address, str(reason), retry_s))

    async def _attach(self, node: DirectCalls, deadline: Deadline) -> DirectStores:
        asked = await node.attach(b"", deadline)
        user_id = os.geteuid()
        wait_s = deadline.wait_s(self._clock.now(), self._stall_s)
        try:
            async with asyncio.timeout(wait_s):
                proof = await self._threads.run(lambda: read_proof(asked.proof_path, user_id))
        except TimeoutError:
            raise DirectPathError(f"proof was not read within {wait_s:.3g} s") from None
        shown = await node.attach(proof, deadline)
        if shown.attachment is None:
            raise DirectPathError("node takes the proof, and does not open its stores")
        stores = DirectStores(node, proof, shown.attachment, self._threads)
        try:
            await self._check(stores, deadline)
        except BaseException:
            stores.close()
            raise
        self._telemetry.emit(DirectPathOpened(node.address, len(stores.places)))
        return stores

    async def _check(self, stores: DirectStores, deadline: Deadline) -> None:
        wait_s = deadline.wait_s(self._clock.now(), self._stall_s)
        try:
            async with asyncio.timeout(wait_s):
                await stores.check_epoch()
        except TimeoutError:
            raise DirectPathError(f"no epoch was told within {wait_s:.3g} s") from None
