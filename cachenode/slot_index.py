"""Which slot each copy lies in, and which slots lie together. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from cachenode.slab_allocator import SlotRun
from cachenode.slab_format import Slab
from hearthkv.core.block_frame import BlockFrame
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.direct_path import FileAddress

Name = tuple[bytes, bytes, int]
"""Namespace, key and sequence of a copy."""


class SlotIndex:
    """Finds copies by their names. Whoever takes a name out owns its slot until it is given up."""

    def __init__(self) -> None:
        self._places: dict[Name, tuple[Slab, int]] = {}

    def __len__(self) -> int:
        """Copies that are held."""
        return len(self._places)

    def __contains__(self, name: Name) -> bool:
        """Whether a copy is held."""
        return name in self._places

    def add(self, slab: Slab, slots: Iterable[int], names: Iterable[Name]) -> None:
        """Hold copies, each in one slot."""
        self._places.update((name, (slab, slot)) for name, slot in zip(names, slots, strict=True))

    def take(self, names: Iterable[Name]) -> dict[Slab, dict[int, Name]]:
        """Let go of copies, and return which slots of which slabs they are in."""
        taken: dict[Slab, dict[int, Name]] = defaultdict(dict)
        for name in names:
            place = self._places.pop(name, None)
            if place is not None:
                slab, slot = place
                taken[slab][slot] = name
        return taken

    def address(self, ref: BlockRef) -> FileAddress | None:
        """Return where the payload of a copy is; None if it is not held."""
        place = self._places.get(name_of(ref))
        return place and FileAddress(place[0].name, place[0].payload_offset(place[1]))


def name_of(ref: BlockRef) -> Name:
    """Return the name of a copy that the catalog knows."""
    return ref.namespace_id, ref.key, ref.sequence


def name_in(frame: BlockFrame) -> Name:
    """Return the name of a copy that has this frame."""
    return frame.spec.namespace_id, frame.key, frame.sequence


def runs_in(slab: Slab, slots: Iterable[int]) -> Iterator[SlotRun]:
    """Give slots, in any order, as far together as they lie."""
    first = end = -1
    for slot in sorted(slots):
        if slot != end:
            if first >= 0:
                yield SlotRun(slab, first, end - first)
            first = slot
        end = slot + 1
    if first >= 0:
        yield SlotRun(slab, first, end - first)
