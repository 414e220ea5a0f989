"""
Bugs to plant into the real code: a simulation is worth what it finds.

Each breaks one invariant, in a way in which somebody could break it. None is there unless a test
asks for it.
"""

import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pytest

import cachenode.holdings
import hearthkv.client.loader
import hearthkv.client.prefix_assembly
import hearthkv.core.block_frame
from cachenode.block import Block
from cachenode.block_tree import BlockTree
from cachenode.drain import Drain
from cachenode.event_log import Subscription
from cachenode.shelf import Shelf
from hearthkv.client.deadline import Deadline
from hearthkv.core.pulls import PullEnd
from hearthkv.core.rendezvous import Rendezvous
from hearthkv.core.routing import NodeEndpoint
from hearthkv.core.session_id import NodeId, SessionId
from router.membership import Membership
from router.prefix_index import PrefixIndex


@dataclass(frozen=True)
class PlantedBug:
    """A bug, and the invariant that it breaks."""

    invariant: str
    plant: Callable[[pytest.MonkeyPatch], None]

    @property
    def name(self) -> str:
        return self.plant.__name__


def nobody_looks_at_checksums(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hearthkv.core.block_frame, "check_parts", lambda *_: None)
    patch.setattr(hearthkv.client.prefix_assembly, "block_checksum", _AgreesWithEverything)


def what_hangs_on_a_lost_block_stays(patch: pytest.MonkeyPatch) -> None:
    def remove(tree: BlockTree, block: Block) -> None:
        block.is_held = False
        if block.parent is not None:
            block.parent.children.pop(block, None)
        del tree._namespaces[block.namespace_id].blocks[block.key]

    patch.setattr(cachenode.holdings, "subtree_leaves_first", lambda block: [block])
    patch.setattr(BlockTree, "remove_leaf", remove)


def room_is_given_away_before_it_is_empty(patch: pytest.MonkeyPatch) -> None:
    def room_bytes(shelf: Shelf) -> int:
        taken_bytes = shelf.used_bytes - shelf.condemned_bytes + shelf.reserved_bytes
        return shelf.limits.limit_bytes - taken_bytes

    patch.setattr(Shelf, "room_bytes", property(room_bytes))


def a_load_takes_the_time_it_wants(patch: pytest.MonkeyPatch) -> None:
    class Generous(Deadline):
        @classmethod
        def after(cls, now_s: float, limit_s: float) -> Deadline:
            return Deadline.after(now_s, 10 * limit_s)

    patch.setattr(hearthkv.client.loader, "Deadline", Generous)


def a_node_that_was_forgotten_is_not(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PrefixIndex, "forget", lambda *_: None)


def changes_during_a_snapshot_are_lost(patch: pytest.MonkeyPatch) -> None:
    def restart(subscription: Subscription) -> None:
        subscription._changes.clear()
        subscription.sequence = 0
        subscription.is_overrun = False
        # As if it took until now to begin behind the snapshot.
        push, dropped = subscription.push, 4

        def push_late(change: tuple[bytes, object, bytes]) -> None:
            nonlocal dropped
            dropped -= 1
            if dropped < 0:
                push(change)  # type: ignore[arg-type]

        subscription.push = push_late  # type: ignore[method-assign]

    patch.setattr(Subscription, "restart", restart)


def homes_depend_on_who_came_first(patch: pytest.MonkeyPatch) -> None:
    def endpoints(membership: Membership) -> list[NodeEndpoint]:
        return [node.endpoint for node in membership._nodes.values()]

    def prepare(homes: Rendezvous, nodes: Iterable[tuple[NodeId, float]]) -> None:
        homes._node_ids = [node_id for node_id, _ in nodes]

    def first(homes: Rendezvous, session_id: SessionId, count: int) -> list[NodeId]:
        names = homes._node_ids
        start = zlib.crc32(session_id.encode()) % max(1, len(names))
        return (names[start:] + names[:start])[:count]

    patch.setattr(Membership, "endpoints", endpoints)
    patch.setattr(Rendezvous, "__init__", prepare)
    patch.setattr(Rendezvous, "first", first)


def nothing_is_fetched_when_a_node_leaves(patch: pytest.MonkeyPatch) -> None:
    async def have_pulled(*_: object) -> PullEnd:
        return PullEnd.COMPLETE

    patch.setattr(Drain, "_have_pulled", have_pulled)


class _AgreesWithEverything:
    """Equal to any checksum."""

    def __init__(self, *_: object) -> None:
        pass

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


BUGS = [
    PlantedBug("I1", nobody_looks_at_checksums),
    PlantedBug("I2", what_hangs_on_a_lost_block_stays),
    PlantedBug("I3", room_is_given_away_before_it_is_empty),
    PlantedBug("I5", a_load_takes_the_time_it_wants),
    PlantedBug("I6", a_node_that_was_forgotten_is_not),
    PlantedBug("I6", changes_during_a_snapshot_are_lost),
    PlantedBug("I8", homes_depend_on_who_came_first),
]
