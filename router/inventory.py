"""
What one node says of its blocks, and what it is expected to say next. Pure: the hour is passed in.

::

    AWAITED --first part--> ARRIVING --last part--> FOLLOWED --number missing--> AWAITED

Whatever is out of order in a followed inventory ends in a resync, so the view heals by itself
(I6); while a snapshot is awaited, events are passed over, because the snapshot contains them.
An order that was not followed is given again after a while, and never more often than once a
second, so that a node which lies about its numbers costs the router no more than that.
"""

import enum
from dataclasses import dataclass
from typing import Final

from hearthkv.core.routing import (
    BlockEvent,
    EventBatch,
    EventsAck,
    NodeLoad,
    ResyncOrder,
    SnapshotPart,
)
from hearthkv.core.tier import TierUsage

RESYNC_EVERY_S: Final = 1.0
"""Least time between two orders to one node."""

RESYNC_AGAIN_S: Final = 10.0
"""Time without a sign of a snapshot after which it is asked for again. Of a large inventory the
first part comes after a second or two."""

SNAPSHOT_S_MAX: Final = 120.0
"""Time that a whole snapshot may take; one of 10 million blocks takes about half of it."""


class InventoryState(enum.Enum):
    """What a node is expected to say about its blocks."""

    AWAITED = enum.auto()
    ARRIVING = enum.auto()
    FOLLOWED = enum.auto()


@dataclass(frozen=True, slots=True)
class News:
    """What follows from a message."""

    is_void: bool = False
    """Whether what was known of the node's blocks before is void."""

    events: tuple[BlockEvent, ...] = ()
    answer: EventsAck | ResyncOrder | None = None


NO_NEWS = News()


class Inventory:
    """
    What one node says of its blocks. See the module.

    Args:
        now: The hour at which its stream began.
    """

    def __init__(self, now: float) -> None:
        self.state = InventoryState.AWAITED
        self.next_sequence = 1
        self._awaited_s = now  # since when it is not followed, while it is not
        self._arriving_s = now  # since when its snapshot arrives
        self._sign_s = now  # of the last part or order
        self._ordered_s: float | None = None
        self._received_sequence: int | None = None  # of what an order is still due for
        self._usage: tuple[TierUsage, ...] = ()
        self._told_usage: tuple[TierUsage, ...] | None = None  # by the first beat after events
        self._untold_s: float | None = None

    @property
    def said_blocks(self) -> int:
        """Blocks in all tiers, by the last heartbeat."""
        return sum(tier.blocks for tier in self._usage)

    def lag_s(self, now: float) -> float:
        """Return the time for which the inventory has not been followed; 0 while it is."""
        return 0.0 if self.state is InventoryState.FOLLOWED else now - self._awaited_s

    def untold_s(self, now: float) -> float:
        """Return the time for which heartbeats have shown changes that no event told of."""
        return 0.0 if self._untold_s is None else now - self._untold_s

    def hear_snapshot(self, part: SnapshotPart, now: float) -> News:
        """Take in a part of a snapshot."""
        if part.is_first:
            self._set_awaited(now)
            self.state = InventoryState.ARRIVING
            self._arriving_s = now
            self._received_sequence = None
        elif self.state is InventoryState.AWAITED:
            return NO_NEWS  # the rest of a snapshot that was given up
        elif self.state is InventoryState.FOLLOWED:
            return self.order_resync(0, now)
        self._sign_s = now
        if part.is_last:
            self.state = InventoryState.FOLLOWED
            self.next_sequence = 1
            self._note_told()
        events = (BlockEvent(part.namespace_id, part.keys, part.tier),) if part.keys else ()
        return News(is_void=part.is_first, events=events)

    def hear_events(self, batch: EventBatch, now: float) -> News:
        """Take in a batch of events."""
        if self.state is InventoryState.AWAITED:
            return NO_NEWS
        if self.state is InventoryState.ARRIVING or batch.sequence != self.next_sequence:
            return self.order_resync(batch.sequence, now)
        self.next_sequence += 1
        self._note_told()
        return News(events=batch.events, answer=EventsAck(batch.sequence))

    def hear_load(self, load: NodeLoad, now: float) -> News:
        """Take in a heartbeat, which says how many batches there were and what the tiers hold."""
        self._usage = load.tiers
        self._note_usage(now)
        if self.state is InventoryState.FOLLOWED and load.sequence != self.next_sequence - 1:
            return self.order_resync(load.sequence, now)
        return NO_NEWS

    def order_resync(self, received_sequence: int, now: float) -> News:
        """Have the inventory sent anew: at once, or by `overdue` if it was asked for just now."""
        self._set_awaited(now)
        self._received_sequence = received_sequence
        if self._ordered_s is not None and now - self._ordered_s < RESYNC_EVERY_S:
            return NO_NEWS
        self._ordered_s = self._sign_s = now
        self._received_sequence = None
        return News(answer=ResyncOrder(self.next_sequence, received_sequence))

    def overdue(self, now: float) -> News:
        """Order what was put off, and order again what was not followed. Call it now and then."""
        if self._received_sequence is not None:
            return self.order_resync(self._received_sequence, now)
        if self.state is InventoryState.FOLLOWED:
            return NO_NEWS
        is_endless = (
            self.state is InventoryState.ARRIVING and now - self._arriving_s > SNAPSHOT_S_MAX
        )
        if is_endless or now - self._sign_s > RESYNC_AGAIN_S:
            return self.order_resync(0, now)
        return NO_NEWS

    def _set_awaited(self, now: float) -> None:
        if self.state is InventoryState.FOLLOWED:
            self._awaited_s = now
        self.state = InventoryState.AWAITED

    def _note_told(self) -> None:
        """Note that events told of all changes so far; the next heartbeat shows what is told."""
        self._told_usage = self._untold_s = None

    def _note_usage(self, now: float) -> None:
        """Note whether a heartbeat shows changes that no event told of."""
        usage = tuple(
            TierUsage(tier.tier, tier.used_bytes, 0, 0, tier.blocks) for tier in self._usage
        )
        if self._told_usage is None:
            self._told_usage = usage
        if usage == self._told_usage:
            self._untold_s = None
        elif self._untold_s is None:
            self._untold_s = now
