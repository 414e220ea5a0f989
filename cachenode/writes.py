"""Writes that are planned and not yet ended. Pure."""

from dataclasses import dataclass

from cachenode.block import Block, Copy
from cachenode.holdings import Holdings
from cachenode.plans import WriteTicket
from hearthkv.core.block_io import WriteStatus
from hearthkv.core.errors import BlockSizeError
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.session_id import SessionId
from hearthkv.core.tier import Tier


@dataclass(eq=False, slots=True)
class _WriteUnderWay:
    copy: Copy
    parent: Block | None
    """Its held parent, kept from eviction; None for a first block, or while that is written."""

    def hang_on(self, parent: Block) -> None:
        """Keep a parent from eviction until this write ends."""
        self.parent = parent
        parent.pending_children += 1


class Writes:
    """
    Plans writes, reserves their room, and decides at their commit.

    A parent that is still being written counts as there when a write is planned, so that a
    stream may have several blocks under way; it is at the commit that it must be held. Of two
    writes of one block both are carried out: the first commit wins, and the second finds the
    block held. So nobody waits for somebody else's write, and what is acknowledged is stored.
    """

    def __init__(self, holdings: Holdings) -> None:
        self.written_bytes = 0
        """Payload bytes of all blocks that were stored."""

        self._holdings = holdings
        self._tree = holdings.tree
        self._open: dict[WriteTicket, _WriteUnderWay] = {}
        self._keys: dict[tuple[bytes, bytes], int] = {}
        """Writes under way by namespace and key."""

        self._waiting: dict[tuple[bytes, bytes], set[_WriteUnderWay]] = {}
        """Writes whose parent is not held yet, by that parent."""

    def plan(
        self,
        spec: NamespaceSpec,
        *,
        key: bytes,
        parent_key: bytes,
        size_bytes: int,
        checksum: int,
        session_id: SessionId | None,
    ) -> WriteTicket | WriteStatus:
        """
        Reserve room for a block, in DRAM if that has any, else on the SSD.

        Raises:
            BlockSizeError: If the payload or the namespace has another size than is known.
        """
        self._tree.check(spec)
        if size_bytes != spec.block_bytes:
            raise BlockSizeError(
                f"block is {size_bytes} bytes, the namespace's blocks have {spec.block_bytes}"
            )
        held = self._tree.find(spec.namespace_id, key)
        if held is not None:
            self._note(session_id, held)
            return WriteStatus.ALREADY_HELD
        parent = self._tree.find(spec.namespace_id, parent_key)
        if parent_key and parent is None and (spec.namespace_id, parent_key) not in self._keys:
            return WriteStatus.PARENT_MISSING
        copy = self._reserve(spec, key, parent_key, checksum)
        if copy is None:
            return self._refusal()
        return self._begin(WriteTicket(spec, copy.ref, session_id), copy, parent)

    def commit(self, ticket: WriteTicket) -> WriteStatus:
        """Hold the block, whose bytes are stored now; where it can't be, have them erased."""
        copy = self._end(ticket)
        status = self._verdict(copy)
        if status is WriteStatus.STORED:
            self.written_bytes += copy.ref.size_bytes
            self._holdings.shelf_of(copy).settle(copy)
            block = self._holdings.admit(ticket.spec, copy)
            for child in self._waiting.pop((block.namespace_id, block.key), ()):
                child.hang_on(block)
        else:
            self._holdings.condemn(copy)
        # The namespace is let go last: it must not vanish before its block is in.
        self._tree.end_write(ticket.spec.namespace_id)
        held = self._tree.find(ticket.spec.namespace_id, ticket.target.key)
        if held is not None:
            self._note(ticket.session_id, held)
        return status

    def abort(self, ticket: WriteTicket) -> None:
        """Give a write up; its bytes may be in the store, and are counted until erased."""
        self._holdings.condemn(self._end(ticket))
        self._tree.end_write(ticket.spec.namespace_id)

    def cancel(self, ticket: WriteTicket) -> None:
        """Give a write up of which nothing was sent to the store, and free its room at once."""
        copy = self._end(ticket)
        self._holdings.shelf_of(copy).release(copy)
        self._tree.end_write(ticket.spec.namespace_id)

    def _reserve(
        self, spec: NamespaceSpec, key: bytes, parent_key: bytes, checksum: int
    ) -> Copy | None:
        for tier in (Tier.DRAM, Tier.SSD):
            if not self._holdings.shelves[tier].is_usable:
                continue
            copy = self._holdings.reserve(
                tier,
                namespace_id=spec.namespace_id,
                key=key,
                parent_key=parent_key,
                checksum=checksum,
                size_bytes=spec.block_bytes,
            )
            if copy is not None:
                return copy
        return None

    def _refusal(self) -> WriteStatus:
        shelves = self._holdings.shelves.values()
        is_down = not any(shelf.is_usable for shelf in shelves) and any(
            shelf.trouble or shelf.fullness for shelf in shelves
        )
        return WriteStatus.UNAVAILABLE if is_down else WriteStatus.NO_ROOM

    def _begin(self, ticket: WriteTicket, copy: Copy, parent: Block | None) -> WriteTicket:
        self._tree.begin_write(ticket.spec)
        under_way = self._open[ticket] = _WriteUnderWay(copy, None)
        name = (ticket.spec.namespace_id, ticket.target.key)
        self._keys[name] = self._keys.get(name, 0) + 1
        if parent is not None:
            under_way.hang_on(parent)
        elif copy.ref.parent_key:
            self._waiting.setdefault(_parent_name(copy), set()).add(under_way)
        return ticket

    def _end(self, ticket: WriteTicket) -> Copy:
        under_way = self._open.pop(ticket)
        name = (ticket.spec.namespace_id, ticket.target.key)
        self._keys[name] -= 1
        if not self._keys[name]:
            del self._keys[name]
        if under_way.parent is not None:
            under_way.parent.pending_children -= 1
        elif under_way.copy.ref.parent_key:
            siblings = self._waiting[_parent_name(under_way.copy)]
            siblings.remove(under_way)
            if not siblings:
                del self._waiting[_parent_name(under_way.copy)]
        return under_way.copy

    def _verdict(self, copy: Copy) -> WriteStatus:
        ref = copy.ref
        if self._tree.find(ref.namespace_id, ref.key) is not None:
            return WriteStatus.ALREADY_HELD
        if copy.is_void:
            return WriteStatus.UNAVAILABLE
        if ref.parent_key and self._tree.find(ref.namespace_id, ref.parent_key) is None:
            return WriteStatus.PARENT_MISSING
        return WriteStatus.STORED

    def _note(self, session_id: SessionId | None, block: Block) -> None:
        if session_id is not None:
            self._holdings.tails.note(session_id, block)


def _parent_name(copy: Copy) -> tuple[bytes, bytes]:
    return copy.ref.namespace_id, copy.ref.parent_key
