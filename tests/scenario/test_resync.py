"""A router's view of one node's blocks heals by itself, whatever messages are lost."""

from hypothesis import given
from hypothesis import strategies as st

from hearthkv.core.block_key import PackedKeys
from hearthkv.core.routing import (
    BlockEvent,
    EventBatch,
    NodeLoad,
    ResyncOrder,
    SnapshotPart,
)
from hearthkv.core.tier import Tier
from router.inventory import RESYNC_EVERY_S
from router.membership import Membership
from router.outcome import BlocksChanged, InventoryCleared, StreamId
from tests.scenario.node_reports import NS, hello, inventory

ONE = StreamId(1)


class Conversation:
    """A node with its blocks, and what a router that listens to it knows of them."""

    def __init__(self):
        self.held: dict[bytes, Tier] = {}
        self.known: dict[bytes, Tier] = {}
        self.sequence = 0
        self.now = 0.0
        self.router = Membership(suspect_s=2.5, lease_s=10.0, nodes_max=1)
        self.tell(hello("a"))
        self.send_inventory()

    def change(self, key: bytes, tier: Tier | None, *, is_lost: bool) -> None:
        """Let a block come, move or go; the batch that says so may be lost."""
        self.held.pop(key, None)
        if tier is not None:
            self.held[key] = tier
        self.sequence += 1
        if not is_lost:
            event = BlockEvent(NS, PackedKeys(key), tier)
            self.tell(EventBatch(self.sequence, (event,)))

    def send_inventory(self) -> None:
        self.sequence = 0
        parts = list(self.held.items())
        if not parts:
            self.tell(inventory(0))
        for number, (key, tier) in enumerate(parts):
            is_first, is_last = number == 0, number == len(parts) - 1
            self.tell(SnapshotPart(NS, tier, PackedKeys(key), is_first, is_last))

    def tell(self, message) -> None:
        self.now += RESYNC_EVERY_S
        outcome = self.router.hear(ONE, message, self.now)
        for change in outcome.changes:
            if isinstance(change, InventoryCleared):
                self.known.clear()
            elif isinstance(change, BlocksChanged):
                self.note(change.event)
        if any(isinstance(answer, ResyncOrder) for _, answer in outcome.answers):
            self.send_inventory()

    def note(self, event: BlockEvent) -> None:
        for key in event.keys:
            self.known.pop(key, None)
            if event.tier is not None:
                self.known[key] = event.tier


@given(
    st.lists(
        st.tuples(
            st.integers(0, 4).map(lambda number: bytes([number]) * 16),
            st.none() | st.sampled_from(Tier),
            st.booleans(),
            st.booleans(),
        ),
        max_size=30,
    )
)
def test_gaps_always_heal_by_resync_i6(steps):
    node = Conversation()
    for key, tier, is_lost, has_heartbeat in steps:
        node.change(key, tier, is_lost=is_lost)
        if has_heartbeat:
            node.tell(NodeLoad(sequence=node.sequence))
            assert node.known == node.held
