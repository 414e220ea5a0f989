"""
Which keys of a prompt a router is told. Pure.

All of them, up to 1,024 blocks. Of a longer prompt it is told those on a grid, whose step is the
smallest power of two that leaves at most 128 of them, and all keys in a window of 128 around the
place up to which the session's last prompt was the same: there its own node's match ends. The
grid begins at the start of the prompt whatever its length, so equal prefixes have keys in common.

A match is then short by less than one step where it does not end in the window, and exact where
it does. Who reads the blocks asks the node for the rest of that step: `gap_after` says how much.
"""

from bisect import bisect_right
from typing import Final

from hearthkv.core.block_key import PackedKeys, SampledKeys

WHOLE_BLOCKS_MAX: Final = 1024
GRID_KEYS_MAX: Final = 128
WINDOW_BEFORE: Final = 96
"""Keys before the end of what is shared with the last prompt: the end of it may be lost."""

WINDOW_AFTER: Final = 32


def sample(keys: PackedKeys, settled_blocks: int) -> SampledKeys:
    """
    Choose the keys of a prompt that a router is told.

    Args:
        keys: All of them.
        settled_blocks: Leading blocks that the session's last prompt had too; 0 for a new one.
    """
    blocks = len(keys)
    if blocks <= WHOLE_BLOCKS_MAX:
        return SampledKeys.all_of(keys)
    step = _step(blocks)
    start = max(0, settled_blocks - WINDOW_BEFORE)
    stop = min(blocks, settled_blocks + WINDOW_AFTER)
    positions = [
        *range(step, start + 1, step),
        *range(start + 1, stop + 1),
        *range((stop // step + 1) * step, blocks + 1, step),
    ]
    if positions[-1] < blocks:
        positions.append(blocks)
    packed, width = keys.packed, keys.width
    sampled = b"".join([packed[(at - 1) * width : at * width] for at in positions])
    return SampledKeys(PackedKeys(sampled, width), positions)


def gap_after(samples: SampledKeys, blocks: int) -> int:
    """
    Return how many blocks a match of `blocks` blocks may be short by.

    Args:
        samples: The keys that the match was found by.
        blocks: The match: a position of theirs, or 0.
    """
    following = bisect_right(samples.positions, blocks)
    if following == len(samples):
        return 0
    return samples.positions[following] - blocks - 1


def _step(blocks: int) -> int:
    step = 1
    while blocks > GRID_KEYS_MAX * step:
        step *= 2
    return step
