"""Callers' buffers as views of plain bytes, checked for what they are to hold. Pure."""

from collections.abc import Sequence
from typing import Protocol

from hearthkv.core.errors import BlockSizeError, LayoutMismatchError


class ByteBuffer(Protocol):
    """Anything with C-contiguous memory: a bytearray, a memoryview, an array of NumPy."""

    def __len__(self) -> int:
        """Items, of whatever size."""
        ...


def writable_bytes(buffer: ByteBuffer, bytes_min: int) -> memoryview:
    """
    Return a writable view of a buffer's bytes.

    Raises:
        LayoutMismatchError: If it is read-only, has gaps, or has fewer than `bytes_min` bytes.
    """
    view = _bytes_of(buffer)
    if view.readonly:
        raise LayoutMismatchError(f"buffer of {len(view)} bytes is read-only, must be writable")
    if len(view) < bytes_min:
        raise LayoutMismatchError(f"buffer is {len(view)} bytes, must be {bytes_min} at least")
    return view


def block_payloads(payloads: Sequence[ByteBuffer], block_bytes: int) -> list[memoryview]:
    """
    Return views of the bytes of whole blocks.

    Raises:
        BlockSizeError: If one has another size than `block_bytes`.
        LayoutMismatchError: If one is no buffer, or has gaps.
    """
    views = [_bytes_of(payload) for payload in payloads]
    for place, view in enumerate(views):
        if len(view) != block_bytes:
            raise BlockSizeError(f"payload {place} is {len(view)} bytes, must be {block_bytes}")
    return views


def _bytes_of(buffer: ByteBuffer) -> memoryview:
    try:
        view = memoryview(buffer)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise LayoutMismatchError(
            f"{type(buffer).__name__} is no buffer of bytes, must be one: {error}"
        ) from error
    if not view.c_contiguous:
        raise LayoutMismatchError(
            f"buffer of shape {view.shape} has strides {view.strides}, must be C-contiguous"
        )
    # A view with a zero in its shape can't be cast.
    return view.cast("B") if view.nbytes else memoryview(bytearray())
