"""
Which nodes serve, but don't tell truly what they hold. Pure: the hour is passed in.

A node whose events do not come is not missed by its clients: it serves, and the router only
matches less there. So its heartbeats, which count its blocks, are held against the index. What
differs for a moment is under way; what differs for `ALARM_S` is trouble, and the inventory is
asked for again, now and every `REPEAT_S`.
"""

import enum
from dataclasses import dataclass
from typing import Final

from hearthkv.core.session_id import NodeId

ALARM_S: Final = 10.0
REPEAT_S: Final = 60.0
BLOCKS_MIN: Final = 64
"""Differences of fewer blocks are never trouble."""


class FeedTrouble(enum.Enum):
    """What is wrong with what a node says of its blocks."""

    AWAITED = "awaited"
    """Its inventory does not come, or not to its end."""

    MUTE = "mute"
    """Its heartbeats show changes that no event tells of."""

    SHORT = "short"
    """It says that it has far more blocks than it named."""

    STALE = "stale"
    """It named far more blocks than it says that it has."""


@dataclass(frozen=True, slots=True)
class Feed:
    """What one node said, and what came of it."""

    lag_s: float
    """Time for which its inventory has not been followed."""

    untold_s: float
    """Time for which its heartbeats have shown changes that no event told of."""

    said_blocks: int
    """Blocks that it has, by its last heartbeat."""

    indexed_blocks: int
    unindexed_blocks: int
    """Blocks that it named, and that found no room."""

    @property
    def trouble(self) -> FeedTrouble | None:
        """What is amiss at this moment; None where nothing is."""
        if self.lag_s > 0:
            return FeedTrouble.AWAITED
        named = self.indexed_blocks + self.unindexed_blocks
        if self.said_blocks - named > max(BLOCKS_MIN, self.said_blocks // 2):
            return FeedTrouble.SHORT
        if self.indexed_blocks - self.said_blocks > max(BLOCKS_MIN, self.said_blocks // 2):
            return FeedTrouble.STALE
        return FeedTrouble.MUTE if self.untold_s > 0 else None


@dataclass(slots=True)
class _Alarm:
    trouble: FeedTrouble
    since_s: float
    raised_s: float | None = None


@dataclass(frozen=True, slots=True)
class FeedJudged:
    """What follows for a node: an alarm that begins, goes on or ends."""

    is_raised: bool = False
    """Whether people should be told now."""

    is_resync_due: bool = False
    is_ended: bool = False


NOTHING = FeedJudged()


class FeedAlarms:
    """The troubles of all nodes. See the module."""

    def __init__(self) -> None:
        self._alarms: dict[NodeId, _Alarm] = {}

    def judge(self, node_id: NodeId, feed: Feed, now: float) -> FeedJudged:
        """Hold what a node says against what is known of it; call it several times a second."""
        alarm = self._alarms.get(node_id)
        trouble = feed.trouble
        if trouble is None:
            return FeedJudged(is_ended=self.forget(node_id))
        if alarm is None or (alarm.trouble is not trouble and alarm.raised_s is None):
            began_s = now - max(feed.lag_s, feed.untold_s)
            alarm = self._alarms[node_id] = _Alarm(trouble, began_s)
        if trouble is not FeedTrouble.AWAITED:  # which a raised alarm brings about itself
            alarm.trouble = trouble
        if now - alarm.since_s <= ALARM_S:
            return NOTHING
        if alarm.raised_s is not None and now - alarm.raised_s < REPEAT_S:
            return NOTHING
        is_first, alarm.raised_s = alarm.raised_s is None, now
        return FeedJudged(is_raised=is_first, is_resync_due=True)

    def forget(self, node_id: NodeId) -> bool:
        """Forget a node's troubles, as it has none or is gone; return whether one was raised."""
        alarm = self._alarms.pop(node_id, None)
        return alarm is not None and alarm.raised_s is not None

    def counts(self) -> dict[FeedTrouble, int]:
        """Return the number of nodes with each trouble, of those that were raised."""
        raised = [alarm.trouble for alarm in self._alarms.values() if alarm.raised_s is not None]
        return {trouble: raised.count(trouble) for trouble in FeedTrouble}

    def lag_s(self, now: float) -> float:
        """Return for how long the node that is worst off has been in trouble, raised or not."""
        return max((now - alarm.since_s for alarm in self._alarms.values()), default=0.0)
