"""What happened to the blocks, numbered for each router that listens; and inventories. Pure."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from hearthkv.core.block_key import PackedKeys
from hearthkv.core.routing import BlockEvent, EventBatch, SnapshotPart
from hearthkv.core.tier import Tier

CHANGES_MAX = 262_144
BATCH_KEYS_MAX = 8192
SNAPSHOT_KEYS_MAX = 65_536

Change = tuple[bytes, Tier | None, bytes]
"""Namespace, tier where the block is now (None: held no more), key."""


class Subscription:
    """One listener's place in the log. It begins overrun: an inventory comes first."""

    def __init__(self, log: "EventLog", changes_max: int) -> None:
        self.sequence = 0
        """Number of the batch that was taken last."""

        self.is_overrun = True
        """Whether changes were lost: call `restart` and send an inventory."""

        self._log = log
        self._changes: deque[Change] = deque()
        self._changes_max = changes_max

    def restart(self) -> None:
        """Begin anew behind an inventory that is taken at the same moment."""
        self._changes.clear()
        self.sequence = 0
        self.is_overrun = False

    def push(self, change: Change) -> None:
        """Keep a change until it is taken; too many of them are an overrun."""
        if self.is_overrun:
            return
        if len(self._changes) >= self._changes_max:
            self._changes.clear()
            self.is_overrun = True
            return
        self._changes.append(change)

    def take(self, keys_max: int = BATCH_KEYS_MAX) -> EventBatch | None:
        """Return the next batch; None where there is nothing new, or after an overrun."""
        if not self._changes:
            return None
        count = min(keys_max, len(self._changes))
        changes = [self._changes.popleft() for _ in range(count)]
        self.sequence += 1
        return EventBatch(self.sequence, tuple(_events(changes)))

    def close(self) -> None:
        """Listen no more."""
        self._log.unsubscribe(self)


class EventLog:
    """Hands every change to every subscription; without any it keeps nothing."""

    def __init__(self, changes_max: int = CHANGES_MAX) -> None:
        self._changes_max = changes_max
        self._subscriptions: set[Subscription] = set()

    def subscribe(self) -> Subscription:
        """Return a new subscription, which wants an inventory first."""
        subscription = Subscription(self, self._changes_max)
        self._subscriptions.add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Forget a subscription."""
        self._subscriptions.discard(subscription)

    def record(self, namespace_id: bytes, key: bytes, tier: Tier | None) -> None:
        """Note that a block is in `tier` now; None: held no more."""
        for subscription in self._subscriptions:
            subscription.push((namespace_id, tier, key))


def snapshot_parts(
    inventory: Mapping[tuple[bytes, Tier], Sequence[bytes]],
) -> Iterator[SnapshotPart]:
    """
    Cut an inventory into parts of one namespace and tier each.

    Args:
        inventory: Keys by namespace and tier; may be empty.
    """
    pieces = [
        (namespace_id, tier, keys)
        for (namespace_id, tier), all_keys in inventory.items()
        for keys in _runs(all_keys)
    ]
    if not pieces:
        yield SnapshotPart(b"", None, PackedKeys(b""), is_first=True, is_last=True)
    for index, (namespace_id, tier, keys) in enumerate(pieces):
        yield SnapshotPart(
            namespace_id,
            tier,
            PackedKeys.join(keys),
            is_first=index == 0,
            is_last=index == len(pieces) - 1,
        )


def _events(changes: Sequence[Change]) -> Iterator[BlockEvent]:
    """Join neighbours of one namespace, tier and key width; the order stays."""
    for (namespace_id, tier, _), run in groupby(changes, lambda c: (c[0], c[1], len(c[2]))):
        yield BlockEvent(namespace_id, PackedKeys.join([key for _, _, key in run]), tier)


def _runs(keys: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Cut keys into runs of one width and bounded length."""
    for _, group in groupby(sorted(keys, key=len), len):
        run = list(group)
        for at in range(0, len(run), SNAPSHOT_KEYS_MAX):
            yield run[at : at + SNAPSHOT_KEYS_MAX]
