"""
Keys of one width in as little memory as Python can hold them, each with a number. Pure.

A dictionary takes about 110 bytes for a key of 16 bytes; this table takes 32, and 2 to 4 more
for arrays that grow ahead. An entry is a place in five arrays side by side: the key's bytes, its
number, its hash, and the next entry of its chain; `heads` has the first entry of each chain.

The table grows by linear hashing: with every key that is put in, one chain is split in two, so
there are as many chains as entries and no step is longer than another. Chains are chosen by
Python's own hash of bytes, which is seeded anew in every process: nobody outside can pick keys
that fall into one chain. Entries that were freed are used again; arrays never shrink, so a table
that is empty should be dropped.
"""

from array import array

_HASH_BITS = 0xFFFFFFFF
_NONE = 0
"""No entry: place 0 of the arrays is never used, and its number is always 0."""


class KeyTable:
    """
    The table.

    Args:
        width: Bytes of every key.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.numbers = array("I", [0])
        """By entry; 0 for new entries and for those that are free. The caller's to change."""
        self._keys = bytearray(width)
        self._hashes = array("I", [0])
        self._next = array("I", [_NONE])
        self._heads = array("I", [_NONE])
        self._mask = 0  # of the chains that this round of splitting began with
        self._wide_mask = 1  # of those that it will end with
        self._split = 0  # chains that it has split
        self._free = _NONE  # the first free entry; `_next` leads on
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def last_entry(self) -> int:
        """The last entry; between it and 0 are all that are in use, and those that are free."""
        return len(self.numbers) - 1

    def number_of(self, key: bytes) -> int:
        """Return a key's number; 0 where it is not there."""
        return self.numbers[self.find(key)]

    def find(self, key: bytes) -> int:
        """Return a key's entry; 0 where it is not there."""
        hashed = hash(key) & _HASH_BITS
        chain = hashed & self._mask
        if chain < self._split:
            chain = hashed & self._wide_mask
        entry = self._heads[chain]
        while entry:
            if self._hashes[entry] == hashed:
                width = self.width
                if self._keys[entry * width : entry * width + width] == key:
                    return entry
            entry = self._next[entry]
        return _NONE

    def put(self, key: bytes) -> int:
        """Return a key's entry, which is made with the number 0 where it is not there."""
        return self.find(key) or self._make(key)

    def remove(self, entry: int) -> None:
        """Free an entry, which must be there."""
        following = self._next
        chain = self._chain(self._hashes[entry])
        before = self._heads[chain]
        if before == entry:
            self._heads[chain] = following[entry]
        else:
            while following[before] != entry:
                before = following[before]
            following[before] = following[entry]
        self.numbers[entry] = 0
        following[entry] = self._free
        self._free = entry
        self._count -= 1

    def _make(self, key: bytes) -> int:
        hashed = hash(key) & _HASH_BITS
        chain = self._chain(hashed)
        entry, first = self._free, self._heads[chain]
        if entry:
            self._free = self._next[entry]
            self._keys[entry * self.width : (entry + 1) * self.width] = key
            self._hashes[entry] = hashed
            self._next[entry] = first
        else:
            entry = len(self.numbers)
            self._keys += key
            self._hashes.append(hashed)
            self._next.append(first)
            self.numbers.append(0)
        self._heads[chain] = entry
        self._count += 1
        if self._count > len(self._heads):
            self._split_a_chain()
        return entry

    def _chain(self, hashed: int) -> int:
        chain = hashed & self._mask
        return hashed & self._wide_mask if chain < self._split else chain

    def _split_a_chain(self) -> None:
        """Share one chain's entries between it and a new chain at the end."""
        hashes, following, bit = self._hashes, self._next, self._mask + 1
        kept = moved = _NONE
        entry = self._heads[self._split]
        while entry:
            after = following[entry]
            if hashes[entry] & bit:
                following[entry], moved = moved, entry
            else:
                following[entry], kept = kept, entry
            entry = after
        self._heads[self._split] = kept
        self._heads.append(moved)
        self._split += 1
        if self._split == bit:
            self._mask, self._wide_mask, self._split = self._wide_mask, 4 * bit - 1, 0
