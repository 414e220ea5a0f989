"""
The messages that carry payloads, as bytes: `ReadResponse` and `WriteRequest`. Pure.

protobuf copies a payload into a message and again into its bytes, and on the way back out of
them. Here it is copied once, into the bytes, and not at all out of them. What is written is what
protobuf writes, byte for byte. What is read is looked at in the one form that every writer of
protobuf gives it; whatever has another form is left to protobuf itself.

::

    0a <length> chunk              ReadResponse.chunk; 12 in a WriteRequest
    1a <length> chunk, chunk, ...  chunks of either, each as 0a <length> chunk

    chunk = 0a <length> header, then 12 <length> payload; either may be absent
"""

from collections.abc import Callable
from typing import Final, TypeVar

from google.protobuf.message import DecodeError

from hearthkv.codec import block, cache_node
from hearthkv.core.block_io import (
    BlockChunk,
    ReadEnd,
    ReadQuery,
    ReadStep,
    WriteAnswer,
    WriteStart,
    WriteStep,
)
from hearthkv.core.errors import BadRequestError
from hearthkv.v1 import block_pb2
from hearthkv.v1 import cache_node_pb2 as pb2

READ_METHOD: Final = "/hearthkv.v1.CacheNode/Read"
WRITE_METHOD: Final = "/hearthkv.v1.CacheNode/Write"

_READ_CHUNK: Final = 0x0A  # field 1, with a length
_WRITE_CHUNK: Final = 0x12  # field 2
_CHUNKS: Final = 0x1A  # field 3
_CHUNK: Final = 0x0A
_HEADER: Final = 0x0A
_DATA: Final = 0x12

_LENGTH_BYTES_MAX: Final = 4
"""Bytes of a length; a longer one is beyond any message, and protobuf's to refuse."""

_NOWHERE: Final = -1

_Parsed = TypeVar("_Parsed")
_Part = bytes | memoryview


def pack_read_request(query: ReadQuery) -> bytes:
    """Return what is asked for as the bytes of its message."""
    return cache_node.encode_read_request(query).SerializeToString()


def pack_read_step(step: ReadStep) -> bytes:
    """Return one step of a read as the bytes of its message; copies payloads once."""
    if isinstance(step, ReadEnd):
        return cache_node.encode_read_step(step).SerializeToString()
    return _packed(step, _READ_CHUNK)


def unpack_read_step(message: bytes) -> ReadStep:
    """
    Return one step of a read; the data of its chunks are views of `message`.

    Raises:
        BadInputError: If the bytes are no message, or one that can't be understood.
    """
    chunks = _chunks(memoryview(message), _READ_CHUNK)
    if chunks is not None:
        return chunks
    return cache_node.decode_read_step(_parsed(pb2.ReadResponse.FromString, message))


def pack_write_step(step: WriteStep) -> bytes:
    """Return one step of a write as the bytes of its message; copies payloads once."""
    if isinstance(step, WriteStart):
        return cache_node.encode_write_step(step).SerializeToString()
    return _packed(step, _WRITE_CHUNK)


def unpack_write_step(message: bytes) -> WriteStep:
    """
    Return one step of a write; the data of its chunks are views of `message`.

    Raises:
        BadInputError: If the bytes are no message, or one that can't be understood.
    """
    chunks = _chunks(memoryview(message), _WRITE_CHUNK)
    if chunks is not None:
        return chunks
    return cache_node.decode_write_step(_parsed(pb2.WriteRequest.FromString, message))


def unpack_write_response(message: bytes) -> WriteAnswer:
    """
    Return what a node says at the end of a write.

    Raises:
        BadRequestError: If the bytes are no message.
    """
    answer = _parsed(pb2.WriteResponse.FromString, message)
    return WriteAnswer(cache_node.decode_write_response(answer), answer.takes_chunks)


def _packed(chunks: tuple[BlockChunk, ...], chunk_tag: int) -> bytes:
    if len(chunks) == 1:
        return b"".join(_field(chunk_tag, _chunk_parts(chunks[0])))
    parts: list[_Part] = []
    for chunk in chunks:
        parts += _field(_CHUNK, _chunk_parts(chunk))
    return b"".join(_field(_CHUNKS, parts))


def _chunk_parts(chunk: BlockChunk) -> list[_Part]:
    parts: list[_Part] = []
    if chunk.header is not None:
        parts += _field(_HEADER, [block.encode_header(chunk.header).SerializeToString()])
    if len(chunk.data) > 0:
        parts += _field(_DATA, [chunk.data])
    return parts


def _field(tag: int, parts: list[_Part]) -> list[_Part]:
    """Put tag and length before the parts of a field."""
    length = sum(map(len, parts))
    prefix = bytearray((tag,))
    while length > 0x7F:
        prefix.append(length & 0x7F | 0x80)
        length >>= 7
    prefix.append(length)
    return [bytes(prefix), *parts]


def _chunks(message: memoryview, chunk_tag: int) -> tuple[BlockChunk, ...] | None:
    """The chunks of a message in its usual form; None for any other message."""
    tag = message[0] if message else 0
    if tag not in {chunk_tag, _CHUNKS}:
        return None
    at, end = _span(message, 0, tag)
    if end != len(message):
        return None
    if tag == chunk_tag:
        chunk = _chunk(message[at:])
        return None if chunk is None else (chunk,)
    chunks: list[BlockChunk] = []
    while at < end:
        start, at = _span(message, at, _CHUNK)
        chunk = _chunk(message[start:at]) if at != _NOWHERE else None
        if chunk is None:
            return None
        chunks.append(chunk)
    return tuple(chunks) or None


def _chunk(body: memoryview) -> BlockChunk | None:
    at = 0
    header: block_pb2.BlockHeader | None = None
    if body and body[0] == _HEADER:
        start, at = _span(body, 0, _HEADER)
        if at == _NOWHERE:
            return None
        header = _parsed(block_pb2.BlockHeader.FromString, bytes(body[start:at]))
    if at == len(body):
        return block.new_chunk(header, body[at:])
    start, end = _span(body, at, _DATA)
    if end != len(body):
        return None
    return block.new_chunk(header, body[start:])


def _span(view: memoryview, at: int, tag: int) -> tuple[int, int]:
    """Where the bytes of a field begin and end; nowhere if no whole field `tag` begins at `at`."""
    if view[at] != tag:
        return _NOWHERE, _NOWHERE
    length = shift = 0
    for start, byte in enumerate(view[at + 1 : at + 1 + _LENGTH_BYTES_MAX], at + 2):
        length |= (byte & 0x7F) << shift
        if byte <= 0x7F:
            is_whole = start + length <= len(view)
            return (start, start + length) if is_whole else (_NOWHERE, _NOWHERE)
        shift += 7
    return _NOWHERE, _NOWHERE


def _parsed(parse: Callable[[bytes], _Parsed], message: bytes) -> _Parsed:
    try:
        return parse(message)
    except DecodeError as error:
        raise BadRequestError(f"message of {len(message)} bytes is no protobuf: {error}") from error
