"""One block at a time, over the batches of a `BlockStore`."""

from cachenode.store import BlockStore, Buffer, CopyRead, CopyWrite
from hearthkv.core.block_frame import BlockFrame
from hearthkv.core.block_ref import BlockRef


async def put_one(store: BlockStore, frame: BlockFrame, payload: Buffer) -> None:
    """Store a block, and raise its outcome where it is an error."""
    (outcome,) = await store.put([CopyWrite(frame, payload)])
    if outcome is not None:
        raise outcome


async def get_one(store: BlockStore, ref: BlockRef) -> bytes:
    """Read a block, and raise its outcome where it is an error."""
    into = bytearray(ref.size_bytes)
    (outcome,) = await store.get([CopyRead(ref, memoryview(into))])
    if outcome is not None:
        raise outcome
    return bytes(into)
