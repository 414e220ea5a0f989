"""Which prefixes a node holds, and whose they are: what it has to hand over. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from cachenode.block import Block
from cachenode.block_tree import path
from cachenode.holdings import Holdings
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.session_id import SessionId


@dataclass(frozen=True, slots=True)
class Tip:
    """The last block of a prefix."""

    namespace_id: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class Estate:
    """The prefixes of one session, or one that belongs to nobody."""

    name: SessionId
    """The session; where it is nobody's, a name that is made of the tip."""

    tips: tuple[Tip, ...]
    """The last blocks of its prompts, at least one."""

    is_owned: bool
    """Whether there is such a session."""


def keys_to(holdings: Holdings, tip: Tip) -> PackedKeys:
    """Return the keys of the prefix that ends in a block; none where it is not held."""
    block = holdings.tree.find(tip.namespace_id, tip.key)
    keys = [] if block is None else [each.key for each in path(block)]
    keys.reverse()
    return PackedKeys.join(keys)


def estates(holdings: Holdings) -> Iterator[Estate]:
    """
    Give all that is held, by session, and then what belongs to none; the hottest first.

    Every held block lies on the way to one of the tips (I2).
    """
    for session_id, tails in holdings.tails.sessions():
        yield Estate(session_id, tuple(map(_tip_of, tails)), is_owned=True)
    for namespace_id in holdings.tree.namespace_ids():
        leaves = [
            block
            for block in holdings.tree.blocks(namespace_id)
            if not block.children and not holdings.tails.is_tail(block)
        ]
        for leaf in reversed(leaves):
            tip = _tip_of(leaf)
            yield Estate(SessionId(tip.key.hex()), (tip,), is_owned=False)


def note_owner(holdings: Holdings, session_id: SessionId, tip: Tip) -> None:
    """Learn that a session's prompt reaches to a block; one that is not held is no matter."""
    block = holdings.tree.find(tip.namespace_id, tip.key)
    if block is not None:
        holdings.tails.note(session_id, block)


def _tip_of(block: Block) -> Tip:
    return Tip(block.namespace_id, block.key)
