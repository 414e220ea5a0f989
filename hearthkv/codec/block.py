"""`block.proto` to core types and back. Pure."""

from collections.abc import Iterable, Iterator

from hearthkv.core.block_io import CHUNK_BYTES_MAX, BlockChunk, BlockHeader
from hearthkv.core.block_key import KEY_WIDTH_MAX, PackedKeys
from hearthkv.core.errors import BadKeysError, BadRequestError, BlockSizeError
from hearthkv.core.namespace import BLOCK_BYTES_MAX, NamespaceSpec
from hearthkv.core.tier import Tier, TierCounts, TierUsage
from hearthkv.v1 import block_pb2

_TIER = {
    Tier.HBM: block_pb2.TIER_HBM,
    Tier.DRAM: block_pb2.TIER_DRAM,
    Tier.SSD: block_pb2.TIER_SSD,
}


def decode_tier(value: int) -> Tier:
    """
    Return the tier of a message.

    Raises:
        BadRequestError: If it is unspecified or unknown.
    """
    try:
        return Tier(value)
    except ValueError:
        names = ", ".join(f"{tier.name} ({tier.value})" for tier in Tier)
        raise BadRequestError(f"tier is {value}, must be one of {names}") from None


def encode_tier(tier: Tier) -> block_pb2.Tier.ValueType:
    """Return the tier as a message carries it."""
    return _TIER[tier]


def decode_keys(message: block_pb2.PackedKeys) -> PackedKeys:
    """
    Return the keys of a message.

    Raises:
        BadKeysError: If the width is impossible or does not divide the length.
    """
    return PackedKeys(message.keys, message.key_width)


def encode_keys(keys: PackedKeys) -> block_pb2.PackedKeys:
    """Return keys as a message."""
    return block_pb2.PackedKeys(keys=keys.packed, key_width=keys.width)


def decode_spec(message: block_pb2.NamespaceSpec) -> NamespaceSpec:
    """
    Return the namespace of a message.

    Raises:
        BadNamespaceError: If a field is out of bounds.
    """
    return NamespaceSpec(message.namespace_id, message.block_size, message.block_bytes)


def encode_spec(spec: NamespaceSpec) -> block_pb2.NamespaceSpec:
    """Return a namespace as a message."""
    return block_pb2.NamespaceSpec(
        namespace_id=spec.namespace_id, block_size=spec.block_size, block_bytes=spec.block_bytes
    )


def decode_counts(messages: Iterable[block_pb2.TierBlocks]) -> TierCounts:
    """
    Return counts by tier; a tier that is named twice counts twice.

    Raises:
        BadRequestError: If a tier is unknown.
    """
    blocks = dict.fromkeys(Tier, 0)
    for message in messages:
        blocks[decode_tier(message.tier)] += message.blocks
    return TierCounts(blocks[Tier.HBM], blocks[Tier.DRAM], blocks[Tier.SSD])


def encode_counts(counts: TierCounts) -> list[block_pb2.TierBlocks]:
    """Return counts by tier, without the tiers that hold nothing."""
    by_tier = (
        (block_pb2.TIER_HBM, counts.hbm),
        (block_pb2.TIER_DRAM, counts.dram),
        (block_pb2.TIER_SSD, counts.ssd),
    )
    return [block_pb2.TierBlocks(tier=tier, blocks=blocks) for tier, blocks in by_tier if blocks]


def decode_usage(message: block_pb2.TierUsage) -> TierUsage:
    """
    Return a tier's usage.

    Raises:
        BadRequestError: If the tier is unknown.
    """
    return TierUsage(
        tier=decode_tier(message.tier),
        used_bytes=message.used_bytes,
        reserved_bytes=message.reserved_bytes,
        limit_bytes=message.limit_bytes,
        blocks=message.blocks,
        trouble=message.trouble,
    )


def encode_usage(usage: TierUsage) -> block_pb2.TierUsage:
    """Return a tier's usage as a message."""
    return block_pb2.TierUsage(
        tier=encode_tier(usage.tier),
        used_bytes=usage.used_bytes,
        reserved_bytes=usage.reserved_bytes,
        limit_bytes=usage.limit_bytes,
        blocks=usage.blocks,
        trouble=usage.trouble,
    )


def decode_header(message: block_pb2.BlockHeader) -> BlockHeader:
    """
    Return what is known of a block before its bytes.

    Raises:
        BadKeysError: If a key's width is impossible or differs from its parent's.
        BlockSizeError: If the block is announced as larger than any block may be.
        BadRequestError: If the tier is unknown.
    """
    if not 1 <= len(message.key) <= KEY_WIDTH_MAX:
        raise BadKeysError(f"key is {len(message.key)} bytes, must be 1 to {KEY_WIDTH_MAX}")
    if message.parent_key and len(message.parent_key) != len(message.key):
        raise BadKeysError(
            f"parent_key is {len(message.parent_key)} bytes, must be empty or {len(message.key)}"
        )
    if message.size_bytes > BLOCK_BYTES_MAX:
        raise BlockSizeError(f"block is {message.size_bytes} bytes, must be <= {BLOCK_BYTES_MAX}")
    tier = decode_tier(message.tier) if message.tier else None
    return BlockHeader(message.key, message.parent_key, message.size_bytes, message.checksum, tier)


def encode_header(header: BlockHeader) -> block_pb2.BlockHeader:
    """Return what is known of a block before its bytes as a message."""
    return block_pb2.BlockHeader(
        key=header.key,
        parent_key=header.parent_key,
        size_bytes=header.size_bytes,
        checksum=header.checksum,
        tier=block_pb2.TIER_UNSPECIFIED if header.tier is None else encode_tier(header.tier),
    )


def new_chunk(header: block_pb2.BlockHeader | None, data: bytes | memoryview) -> BlockChunk:
    """
    Return a part of a block whose fields came in a message.

    Raises:
        BadInputError: If the part is longer than a chunk may be, or for the header's sake.
    """
    if len(data) > CHUNK_BYTES_MAX:
        raise BadRequestError(f"chunk is {len(data)} bytes, must be <= {CHUNK_BYTES_MAX}")
    return BlockChunk(None if header is None else decode_header(header), data)


def decode_chunk(message: block_pb2.BlockChunk) -> BlockChunk:
    """Return a part of a block; raises BadInputError as `new_chunk` does."""
    return new_chunk(message.header if message.HasField("header") else None, message.data)


def encode_chunk(chunk: BlockChunk) -> block_pb2.BlockChunk:
    """Return a part of a block as a message; copies the payload once."""
    header = None if chunk.header is None else encode_header(chunk.header)
    return block_pb2.BlockChunk(header=header, data=bytes(chunk.data))


def decode_chunks(message: block_pb2.BlockChunks) -> tuple[BlockChunk, ...]:
    """
    Return the parts of small blocks that came together.

    Raises:
        BadInputError: If there is none, or one of them can't be understood.
    """
    if not message.chunks:
        raise BadRequestError("message has 0 chunks, must have at least 1")
    return tuple(decode_chunk(chunk) for chunk in message.chunks)


def encode_chunks(chunks: Iterable[BlockChunk]) -> block_pb2.BlockChunks:
    """Return the parts of small blocks as one message; copies the payloads once."""
    return block_pb2.BlockChunks(chunks=[encode_chunk(chunk) for chunk in chunks])


def chunks_of(header: BlockHeader, payload: bytes | memoryview) -> Iterable[BlockChunk]:
    """Cut a block into chunks, the first with its header; an empty payload is one chunk."""
    view = memoryview(payload)
    yield BlockChunk(header, view[:CHUNK_BYTES_MAX])
    for at in range(CHUNK_BYTES_MAX, len(view), CHUNK_BYTES_MAX):
        yield BlockChunk(None, view[at : at + CHUNK_BYTES_MAX])


def messages_of(
    chunks: Iterable[BlockChunk], bytes_max: int = CHUNK_BYTES_MAX
) -> Iterator[tuple[BlockChunk, ...]]:
    """
    Gather chunks that go into one message.

    Args:
        chunks: In order; they stay in order.
        bytes_max: Payload bytes of a message with several chunks; 0 leaves every chunk alone.
    """
    gathered: list[BlockChunk] = []
    gathered_bytes = 0
    for chunk in chunks:
        if gathered and gathered_bytes + len(chunk.data) > bytes_max:
            yield tuple(gathered)
            gathered, gathered_bytes = [], 0
        gathered.append(chunk)
        gathered_bytes += len(chunk.data)
    if gathered:
        yield tuple(gathered)
