"""A bounded memory of entries that were evicted. Pure."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Memory = TypeVar("Memory")


class Ghosts(Generic[Memory]):
    """
    What a policy remembers of entries that are gone, by what identifies them when they come back.

    The latest are kept; how many, the policy says whenever it adds one.
    """

    def __init__(self) -> None:
        self._memories: OrderedDict[Hashable, Memory] = OrderedDict()

    def __len__(self) -> int:
        return len(self._memories)

    def remember(self, identity: Hashable, memory: Memory, count_max: int) -> None:
        """Remember an entry, and forget the oldest beyond `count_max`."""
        self._memories[identity] = memory
        self._memories.move_to_end(identity)
        while len(self._memories) > count_max:
            self._memories.popitem(last=False)

    def recall(self, identity: Hashable) -> Memory | None:
        """Return what is remembered of an entry that came back, and forget it; None if nothing."""
        return self._memories.pop(identity, None)
