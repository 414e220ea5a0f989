"""The checksum that travels with a block from where it enters to where it is used. Pure."""

import xxhash


def block_checksum(namespace_id: bytes, key: bytes, payload: bytes | bytearray | memoryview) -> int:
    """
    Return the xxh3-64 of a payload, seeded with the block's identity.

    The seed makes one block's bytes fail under another block's key, so that a mix-up in any
    store is a miss (I1). It guards against accidents, not against a hostile store.
    """
    return xxhash.xxh3_64_intdigest(payload, seed=xxhash.xxh3_64_intdigest(namespace_id + key))
