"""Pins: prefixes that are kept from eviction for a while. Pure."""

from dataclasses import dataclass

from cachenode.block import Block

PINS_MAX = 4096


@dataclass(slots=True)
class _Pin:
    block: Block
    expires_at: float


class Pins:
    """
    Pins prefixes by their last block.

    That is enough: eviction takes leaves only, so what is pinned keeps its ancestors (I2).
    """

    def __init__(self) -> None:
        self._pins: dict[str, _Pin] = {}
        self._pinned: dict[Block, set[str]] = {}

    def __len__(self) -> int:
        """Number of pins in force."""
        return len(self._pins)

    @property
    def is_full(self) -> bool:
        """Whether no further pin is taken."""
        return len(self._pins) >= PINS_MAX

    def add(self, pin_id: str, block: Block, expires_at: float) -> None:
        """Pin the prefix that ends with `block`."""
        assert pin_id not in self._pins
        self._pins[pin_id] = _Pin(block, expires_at)
        self._pinned.setdefault(block, set()).add(pin_id)

    def is_pinned(self, block: Block) -> bool:
        """Whether a pinned prefix ends with `block`."""
        return block in self._pinned

    def remove(self, pin_id: str) -> int:
        """End a pin and return how many blocks it kept; 0 if it is over already."""
        pin = self._pins.pop(pin_id, None)
        if pin is None:
            return 0
        pin_ids = self._pinned[pin.block]
        pin_ids.remove(pin_id)
        if not pin_ids:
            del self._pinned[pin.block]
        return pin.block.depth + 1

    def expire(self, now: float) -> int:
        """End the pins whose time is over, and return how many."""
        over = [pin_id for pin_id, pin in self._pins.items() if pin.expires_at <= now]
        for pin_id in over:
            self.remove(pin_id)
        return len(over)

    def slide(self, block: Block) -> None:
        """Let the pins of a block that goes keep what is left before it."""
        pin_ids = self._pinned.pop(block, None)
        if pin_ids is None:
            return
        for pin_id in pin_ids:
            if block.parent is None:
                del self._pins[pin_id]
            else:
                self._pins[pin_id].block = block.parent
                self._pinned.setdefault(block.parent, set()).add(pin_id)
