"""The copies in one tier's store, and their bytes to the byte. Pure."""

from collections import deque

from cachenode.block import Copy, CopyState
from cachenode.plans import TierLimits
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.tier import Tier, TierUsage

_Name = tuple[int, bytes, bytes]
"""What tells a copy from all others of its store; hashed in a third of the time of its ref."""


class Shelf:
    """
    Counts what is, or may be, in one store.

    Invariants (I3): `used_bytes + reserved_bytes <= limit_bytes`, except after a recovery under
    a limit that was lowered; `used_bytes` is the sum over stored and condemned copies, and
    `reserved_bytes` that over copies that are being written.
    """

    def __init__(self, tier: Tier, limits: TierLimits) -> None:
        self.tier = tier
        self.limits = limits
        self.used_bytes = 0
        self.reserved_bytes = 0
        self.condemned_bytes = 0
        """The part of `used_bytes` that will be free soon."""

        self.blocks = 0
        """Held blocks whose bytes are here; kept by `Holdings`."""

        self.wanted_bytes = 0
        """Room that was refused last and would fit an emptier tier; 0 once it was made."""

        self.trouble = ""
        """Why the store does not answer now; empty while it does."""

        self.fullness = ""
        """What the store said when it was full below the limit; empty while it was not. What it
        has is read and erased all the same."""

        self._copies: dict[_Name, Copy] = {}
        self._erasures: deque[Copy] = deque()

    def __len__(self) -> int:
        """Copies that are counted, in whatever state."""
        return len(self._copies)

    @property
    def room_bytes(self) -> int:
        """Bytes that may still be reserved; negative over a lowered limit."""
        return self.limits.limit_bytes - self.used_bytes - self.reserved_bytes

    @property
    def is_usable(self) -> bool:
        """Whether the store takes blocks now, room or not."""
        return self.limits.limit_bytes > 0 and not self.trouble and not self.fullness

    def usage(self) -> TierUsage:
        """The tier as the node reports it."""
        return TierUsage(
            self.tier,
            self.used_bytes,
            self.reserved_bytes,
            self.limits.limit_bytes,
            self.blocks,
            self.trouble or self.fullness,
        )

    def find(self, ref: BlockRef) -> Copy | None:
        """The copy of this name, if it is counted here."""
        return self._copies.get(_name(ref))

    def reserve(self, ref: BlockRef) -> Copy | None:
        """Reserve bytes for a copy; None, and a wish that is remembered, where there is no room."""
        stored_bytes = self.limits.stored_bytes(ref.size_bytes)
        if stored_bytes > self.room_bytes:
            if stored_bytes <= self.limits.limit_bytes:
                self.wanted_bytes = stored_bytes
            return None
        copy = self._copies[_name(ref)] = Copy(ref, stored_bytes)
        self.reserved_bytes += stored_bytes
        return copy

    def put(self, ref: BlockRef) -> Copy:
        """Count a copy that was found in the store, even over the limit."""
        stored_bytes = self.limits.stored_bytes(ref.size_bytes)
        copy = self._copies[_name(ref)] = Copy(ref, stored_bytes, CopyState.STORED)
        self.used_bytes += stored_bytes
        return copy

    def settle(self, copy: Copy) -> None:
        """Count a reserved copy as used: its bytes are in the store."""
        assert copy.state is CopyState.RESERVED
        copy.state = CopyState.STORED
        self.reserved_bytes -= copy.stored_bytes
        self.used_bytes += copy.stored_bytes

    def release(self, copy: Copy) -> None:
        """Free a reserved copy of which nothing was sent to the store."""
        assert copy.state is CopyState.RESERVED
        copy.state = CopyState.GONE
        self.reserved_bytes -= copy.stored_bytes
        del self._copies[_name(copy.ref)]

    def hold(self, copy: Copy) -> None:
        """Keep a copy from erasure while it is read."""
        copy.readers += 1

    def let_go(self, copy: Copy) -> None:
        """End a hold; a condemned copy is queued for erasure when the last one ends."""
        assert copy.readers > 0
        copy.readers -= 1
        if copy.state is CopyState.CONDEMNED and not copy.readers:
            self._erasures.append(copy)

    def condemn(self, copy: Copy) -> None:
        """Have a copy erased once nobody reads it. What is gone already stays gone."""
        if copy.state is CopyState.GONE:
            return
        if copy.state is CopyState.RESERVED:
            self.settle(copy)
        assert copy.state is CopyState.STORED
        copy.state = CopyState.CONDEMNED
        self.condemned_bytes += copy.stored_bytes
        if not copy.readers:
            self._erasures.append(copy)

    def plan_erasures(self, blocks_max: int) -> list[BlockRef]:
        """Hand out copies to erase, oldest first; none while the store is in trouble."""
        if self.trouble:
            return []
        count = min(blocks_max, len(self._erasures))
        return [self._erasures.popleft().ref for _ in range(count)]

    def commit_erase(self, ref: BlockRef) -> None:
        """
        Free the bytes of a copy that was erased.

        What was forgotten meanwhile is no matter. What a scan then found, just before it was
        erased, is held until somebody misses it.
        """
        copy = self._condemned(ref)
        if copy is None:
            return
        del self._copies[_name(ref)]
        copy.state = CopyState.GONE
        self.used_bytes -= copy.stored_bytes
        self.condemned_bytes -= copy.stored_bytes

    def abort_erase(self, ref: BlockRef) -> None:
        """Queue again a copy that the store did not erase, unless a scan found it to be held."""
        copy = self._condemned(ref)
        if copy is not None:
            self._erasures.append(copy)

    def forget(self) -> None:
        """
        Count the store as empty.

        Reservations stay, but void: a write under way may land before or after the emptying.
        """
        reserved = {}
        for name, copy in self._copies.items():
            if copy.state is CopyState.RESERVED:
                copy.is_void = True
                reserved[name] = copy
            else:
                copy.state = CopyState.GONE
        self._copies = reserved
        self._erasures.clear()
        self.used_bytes = self.condemned_bytes = 0

    def _condemned(self, ref: BlockRef) -> Copy | None:
        copy = self._copies.get(_name(ref))
        return copy if copy is not None and copy.state is CopyState.CONDEMNED else None


def _name(ref: BlockRef) -> _Name:
    return ref.sequence, ref.key, ref.namespace_id
