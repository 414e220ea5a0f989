"""
Block keys: chained hashes of tokens, packed end to end. Pure.

A key stands for its block's tokens and all before them:

    key[i] = BLAKE2b-128(key[i-1] || tokens of block i as uint32 little endian)
    key[-1] = BLAKE2b-128(namespace id)

The namespace id, which holds the tenant's salt, starts the chain, so equal prompts of two
tenants share no key (I7). A cryptographic hash is used where a faster one would do for
chance collisions, because a client that could construct a collision could read the KV of
tokens that it never sent.
"""

import hashlib
import struct
import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

from hearthkv.core.errors import BadInputError, BadKeysError

KEY_WIDTH = 16
"""Bytes of the keys made here."""

KEY_WIDTH_MAX = 32
"""Bytes of the longest key that servers take."""

TOKEN_BYTES = 4

_PERSON = b"hearthkv-key-v1"
_RUN = 256
"""Keys that are unpacked at once."""

_UINT32_FORMATS = frozenset({"I", "L", "<I", "<L"} if sys.byteorder == "little" else {"I", "L"})
_INTEGER_FORMATS = frozenset("hHiIlLqQ")


class TokenBuffer(Protocol):
    """A one-dimensional buffer of integers: an `array`, a memoryview, a NumPy array."""

    def tobytes(self) -> bytes:
        """The items, laid end to end."""
        ...


Tokens = Sequence[int] | TokenBuffer
"""Token ids in 0..2**32-1: a sequence of ints or a buffer of integers, best of uint32."""


@dataclass(frozen=True, slots=True)
class PackedKeys:
    """
    A run of block keys of one width, laid end to end.

    Raises:
        BadKeysError: If `width` is not in 1..32, or does not divide the length.
    """

    packed: bytes
    width: int = KEY_WIDTH

    def __post_init__(self) -> None:
        if not 1 <= self.width <= KEY_WIDTH_MAX:
            raise BadKeysError(f"key_width is {self.width}, must be in 1..{KEY_WIDTH_MAX}")
        if len(self.packed) % self.width:
            raise BadKeysError(
                f"keys are {len(self.packed)} bytes, must be a multiple of key_width {self.width}"
            )

    def __len__(self) -> int:
        return len(self.packed) // self.width

    def __getitem__(self, index: int) -> bytes:
        if not 0 <= index < len(self):
            raise IndexError(f"block {index} of {len(self)}")
        return self.packed[index * self.width : (index + 1) * self.width]

    def __iter__(self) -> Iterator[bytes]:
        # Routers walk prompts of 14,400 keys: runs of keys take a quarter of the time of slices.
        one = f"{self.width}s"
        whole = len(self.packed) // (self.width * _RUN) * (self.width * _RUN)
        runs = struct.iter_unpack(one * _RUN, self.packed[:whole])
        rest = struct.iter_unpack(one, self.packed[whole:])
        return chain.from_iterable(chain(runs, rest))

    def slice(self, start: int, stop: int) -> "PackedKeys":
        """Keys of the blocks `start` to `stop`, the latter not included."""
        return PackedKeys(self.packed[start * self.width : stop * self.width], self.width)

    @classmethod
    def join(cls, keys: Sequence[bytes]) -> "PackedKeys":
        """
        Pack keys of one width; none at all give an empty run of the usual width.

        Raises:
            BadKeysError: If the keys differ in width.
        """
        if not keys:
            return cls(b"")
        widths = {len(key) for key in keys}
        if len(widths) > 1:
            raise BadKeysError(f"keys have widths {sorted(widths)}, must have one")
        return cls(b"".join(keys), widths.pop())


@dataclass(frozen=True, slots=True)
class SampledKeys:
    """
    Some keys of one prompt, or all of them: enough to find who holds how much of it.

    A key stands for its block and all before, so a search over some of a prompt's keys finds a
    match that is short by less than one gap between them.

    Raises:
        BadKeysError: If there is not one position for each key, or they are below 1, or descend.
    """

    keys: PackedKeys
    positions: Sequence[int]
    """For each key the number of leading blocks that it stands for; the last one is the number
    of the prompt's full blocks."""

    def __post_init__(self) -> None:
        positions = self.positions
        if len(positions) != len(self.keys):
            raise BadKeysError(
                f"{len(self.keys)} keys have {len(positions)} positions, must be one each"
            )
        if isinstance(positions, range):
            return
        if positions and positions[0] < 1:
            raise BadKeysError(f"first key position is {positions[0]}, must be >= 1")
        # To sort what is sorted takes a quarter of comparing neighbours.
        if sorted(positions) != list(positions):
            raise BadKeysError("key positions descend, none must be below the one before")

    @classmethod
    def all_of(cls, keys: PackedKeys) -> "SampledKeys":
        """All keys of a prompt, from block 0 on."""
        return cls(keys, range(1, len(keys) + 1))

    @property
    def blocks(self) -> int:
        """Full blocks of the prompt, as far as there are keys."""
        return self.positions[-1] if self.positions else 0

    def __len__(self) -> int:
        return len(self.keys)

    def position_within(self, blocks: int) -> int:
        """The last position among the first `blocks` blocks; 0 where there is none."""
        count = bisect_right(self.positions, blocks)
        return self.positions[count - 1] if count else 0

    def tip(self, blocks: int) -> bytes:
        """The last key of the first `blocks` blocks, of which there must be one."""
        return self.keys[bisect_right(self.positions, blocks) - 1]

    def up_to(self, blocks: int) -> "SampledKeys":
        """The samples of the first `blocks` blocks."""
        count = bisect_right(self.positions, blocks)
        return SampledKeys(self.keys.slice(0, count), self.positions[:count])


def root_key(namespace_id: bytes) -> bytes:
    """Key that stands before a namespace's first blocks; never names a block itself."""
    return hashlib.blake2b(namespace_id, digest_size=KEY_WIDTH, person=_PERSON).digest()


def pack_tokens(tokens: Tokens) -> bytes:
    """
    Return token ids as uint32 little endian.

    A buffer of uint32 costs one copy, 0.3 ns a token; a list of ints or a buffer of 8-byte
    integers 13 to 20 ns a token, and of others about 40 ns, because each id is checked.

    Raises:
        BadInputError: If an id is not in 0..2**32-1, or a buffer has several dimensions or holds
            anything but integers of 2 to 8 bytes. Raw `bytes` are refused: their items are
            bytes, not tokens.
    """
    view = _buffer_of(tokens)
    if view is not None and view.itemsize == TOKEN_BYTES and view.format in _UINT32_FORMATS:
        packed = view.tobytes()
    elif view is not None and view.itemsize == 2 * TOKEN_BYTES and (low := _low_halves(view)):
        packed = low
    else:
        items: Iterable[int] = tokens if view is None else view  # type: ignore[assignment]
        try:
            packed = array("I", items).tobytes()
        except (OverflowError, TypeError) as error:
            raise BadInputError(_fault_of(items)) from error
    return packed if sys.byteorder == "little" else _swapped(packed)


def _buffer_of(tokens: object) -> memoryview | None:
    """A view of a buffer whose integers can be read; None for what is no buffer."""
    try:
        view = memoryview(tokens)  # type: ignore[arg-type]
    except (TypeError, ValueError):  # the latter where NumPy has a type that buffers have not
        return None
    if view.ndim != 1:
        raise BadInputError(f"token buffer has {view.ndim} dimensions, must have 1")
    if view.format not in _INTEGER_FORMATS | _UINT32_FORMATS:
        raise BadInputError(
            f"token buffer has items of format {view.format!r}, must be uint32, "
            "or other integers of 2 to 8 bytes in native order"
        )
    return view


def _low_halves(view: memoryview) -> bytes:
    """The low halves of 8-byte integers; empty where a high half is not 0."""
    words = memoryview(view.tobytes()).cast("I")
    low, high = (0, 1) if sys.byteorder == "little" else (1, 0)
    is_narrow = not words[high::2].tobytes().strip(b"\0")
    return words[low::2].tobytes() if is_narrow else b""


def _fault_of(items: object) -> str:
    """Say which item kept `items` from being packed."""
    for index, item in enumerate(items if isinstance(items, Iterable) else ()):
        try:
            array("I", [item])
        except (OverflowError, TypeError):
            return f"token {index} is {repr(item)[:40]}, must be an int in 0..2**32-1"
    return f"tokens are of type {type(items).__name__}, must be a sequence of ints"


def _swapped(packed: bytes) -> bytes:
    """Turn uint32 of one byte order into the other."""
    swapped = array("I", packed)
    swapped.byteswap()
    return swapped.tobytes()


def extend_keys(parent: bytes, packed_tokens: bytes | memoryview, block_size: int) -> bytes:
    """
    Return the packed keys of the full blocks in `packed_tokens`.

    Args:
        parent: Key of the block before; `root_key` for a prompt's first block.
        packed_tokens: uint32 little endian; a partial block at the end gets no key.
        block_size: Tokens in a block.
    """
    step = block_size * TOKEN_BYTES
    # To copy a fresh state costs half of making one: 0.5 us a block of 16 tokens in all.
    fresh_state = hashlib.blake2b(digest_size=KEY_WIDTH).copy
    keys = []
    for at in range(0, len(packed_tokens) - step + 1, step):
        state = fresh_state()
        state.update(parent)
        state.update(packed_tokens[at : at + step])
        parent = state.digest()
        keys.append(parent)
    return b"".join(keys)


class KeyChain:
    """
    The keys of one growing prompt: a turn that extends the last one hashes only what is new.

    Not thread-safe; one chain a session and namespace.
    """

    def __init__(self, namespace_id: bytes, block_size: int) -> None:
        if block_size < 1:
            raise BadInputError(f"block_size is {block_size}, must be >= 1")
        self.block_size = block_size
        self.hashed_blocks = 0
        """Blocks hashed since the chain was made; what was reused is not counted."""
        self.settled_blocks = 0
        """Leading blocks that the last two prompts have in common."""
        self._root = root_key(namespace_id)
        self._tokens = b""
        self._keys = b""

    def keys_of(self, tokens: Tokens) -> PackedKeys:
        """
        Return the keys of all full blocks of a prompt.

        Raises:
            BadInputError: If a token id is out of bounds; the chain is as it was.
        """
        return self.keys_of_packed(pack_tokens(tokens))

    def extend(self, tokens: Tokens) -> PackedKeys:
        """
        Return the keys of all full blocks of the last prompt with `tokens` after it.

        Raises:
            BadInputError: If a token id is out of bounds; the chain is as it was.
        """
        return self.keys_of_packed(self._tokens + pack_tokens(tokens))

    def keys_of_packed(self, packed: bytes) -> PackedKeys:
        """Return the keys of all full blocks of a prompt that `pack_tokens` packed."""
        step = self.block_size * TOKEN_BYTES
        self.settled_blocks = settled = _shared_bytes(self._tokens, packed) // step
        kept = self._keys[: settled * KEY_WIDTH]
        parent = kept[-KEY_WIDTH:] or self._root
        fresh = extend_keys(parent, memoryview(packed)[settled * step :], self.block_size)
        self.hashed_blocks += len(fresh) // KEY_WIDTH
        self._tokens, self._keys = packed, kept + fresh
        return PackedKeys(self._keys)


def _shared_bytes(left: bytes, right: bytes) -> int:
    """Length of the common prefix; bisects with memcmp, so a long match is cheap."""
    low, high = 0, min(len(left), len(right))
    if left.startswith(right) or right.startswith(left):  # compares in place, copies nothing
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if left.startswith(right[low:middle], low):
            low = middle
        else:
            high = middle - 1
    return low
