"""
The blocks of all nodes, as they reported them. Pure.

`block_holders` keeps them, nodes as bits; `prompt_view` answers who holds how much of a prompt.
What is decided here is how the nodes share the room.

A node that is forgotten matches nothing from then on. Its blocks stay until `sweep` comes by
them, and so does the bit that stood for it.

Bound: `keys <= keys_max`, where a block on two nodes counts twice. When the index is full, a
node that has its fair share (`keys_max // nodes`) or more gets nothing new in. For one below it
room is made: from forgotten nodes first, then from those that are furthest over their share,
never below it, and the newest blocks of a namespace first. A key for which no room is found
within a bounded number of steps stays out, and counts as missing. So one node's flood of reports
can never push another below its share, and all that a node can get wrong is its own.
"""

from heapq import heappop, heappush

from hearthkv.core.block_key import PackedKeys, SampledKeys
from hearthkv.core.session_id import NodeId
from hearthkv.core.tier import Tier
from router.block_holders import BlockHolders
from router.holder_states import bits_of
from router.prefix_matches import NodeBits
from router.prompt_view import PromptView

_ROOM_STEPS = 4_096
"""Blocks to look at for one key that wants in: half a millisecond."""

_ROOM_KEYS = 256
"""Keys that make room at once, so that choosing whose is not done for every key."""


class PrefixIndex:
    """The blocks of all nodes. See the module."""

    def __init__(self, keys_max: int) -> None:
        self.keys_max = keys_max
        self._holders = BlockHolders()
        self._nodes = NodeBits()
        self._missing_keys: dict[NodeId, int] = {}
        self._retired = 0  # the bits of forgotten nodes that some blocks still have
        self._free_bits: list[int] = []

    @property
    def keys(self) -> int:
        """Blocks of all nodes; one that two nodes hold counts twice."""
        return self._holders.keys - self.retired_keys

    @property
    def retired_keys(self) -> int:
        """Keys of nodes that were forgotten, which still take room until they are swept."""
        return sum(map(self._holders.keys_of, bits_of(self._retired)))

    def keys_of(self, node_id: NodeId) -> int:
        """Blocks that a node is known to hold."""
        return self._holders.keys_of(self._nodes.bits.get(node_id, 0))

    def missing_keys_of(self, node_id: NodeId) -> int:
        """
        Keys that a node reported since its last snapshot, and that found or kept no room.

        Some of them may be gone from the node by now.
        """
        return self._missing_keys.get(node_id, 0)

    def add(self, node_id: NodeId, namespace_id: bytes, keys: PackedKeys, tier: Tier) -> None:
        """Note that blocks are now in `tier` of a node, wherever in it they were before."""
        bit = self._nodes.bits.get(node_id) or self._open(node_id)
        name = (namespace_id, keys.width)
        if self._holders.keys + len(keys) <= self.keys_max:
            self._holders.put(bit, name, keys, tier)
            return
        for key in keys:
            if self._holders.has(bit, name, key) or self._has_room(bit):
                self._holders.put(bit, name, (key,), tier)
            else:
                self._missing_keys[node_id] = self._missing_keys.get(node_id, 0) + 1

    def remove(self, node_id: NodeId, namespace_id: bytes, keys: PackedKeys) -> None:
        """Note that a node holds blocks no more; what it was not known to hold is no matter."""
        bit = self._nodes.bits.get(node_id)
        if bit is not None:
            self._holders.remove(bit, (namespace_id, keys.width), keys)

    def forget(self, node_id: NodeId) -> None:
        """Forget a node at once. Its keys match nothing any more; `sweep` frees their memory."""
        self._missing_keys.pop(node_id, None)
        self._retired |= self._nodes.forget(node_id)
        self._free_swept_bits()

    def sweep(self, blocks: int) -> int:
        """
        Free memory of forgotten nodes.

        Args:
            blocks: Blocks to look at, whoever has them.

        Returns:
            Keys of forgotten nodes that are left.
        """
        if self._retired:
            self._holders.turn_hand(self._retired, blocks, self._holders.keys)
            self._free_swept_bits()
        return self.retired_keys

    def look_up(self, namespace_id: bytes, samples: SampledKeys) -> PromptView:
        """Return what is known of a prompt, for as long as nothing is added, removed or swept."""
        return PromptView(self._holders, self._nodes, namespace_id, samples)

    def _open(self, node_id: NodeId) -> int:
        in_use = len(self._nodes) + self._retired.bit_count()
        bit = heappop(self._free_bits) if self._free_bits else 1 << in_use
        self._nodes.name(bit, node_id)
        return bit

    def _has_room(self, bit: int) -> bool:
        """Whether one more key fits, after making room for it where the node may claim that."""
        if self._holders.keys < self.keys_max:
            return True
        if self._retired and self._holders.turn_hand(self._retired, _ROOM_STEPS, _ROOM_KEYS):
            self._free_swept_bits()
            return True
        share = self.keys_max // len(self._nodes)
        return self._holders.keys_of(bit) < share and self._take_back(share)

    def _take_back(self, share: int) -> bool:
        """Take keys from nodes that are far over their share; return whether any were found."""
        over = {
            node_id: excess
            for node_id, bit in self._nodes.bits.items()
            if (excess := self._holders.keys_of(bit) - share) > 0
        }
        # Nobody loses more than that, and who has so much to lose is over the share by it.
        keys = min(_ROOM_KEYS, (max(over.values(), default=0) + 1) // 2)
        losing = [node_id for node_id, excess in over.items() if excess >= keys]
        bits = sum(self._nodes.bits[node_id] for node_id in losing)
        before = {node_id: self.keys_of(node_id) for node_id in losing}
        self._holders.turn_hand(bits, _ROOM_STEPS, keys)
        for node_id, keys_before in before.items():
            lost = keys_before - self.keys_of(node_id)
            if lost:
                self._missing_keys[node_id] = self._missing_keys.get(node_id, 0) + lost
        return self._holders.keys < self.keys_max

    def _free_swept_bits(self) -> None:
        """Let the bits of forgotten nodes that no block has any more stand for new ones."""
        for bit in bits_of(self._retired):
            if not self._holders.keys_of(bit):
                self._retired ^= bit
                heappush(self._free_bits, bit)
