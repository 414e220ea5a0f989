"""Write small GGUF v3 files by hand. Writes the one file it is given."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

ALIGNMENT = 32


@dataclass(frozen=True)
class Packed:
    """A metadata value given as its type number and bytes, for what Python's types don't say."""

    kind: int
    payload: bytes


@dataclass(frozen=True)
class TensorBytes:
    """A tensor as it lies in the file; `shape` is slowest dimension first."""

    kind: int
    shape: tuple[int, ...]
    payload: bytes


Value = bool | int | float | str | list[str] | list[int] | Packed


def f32(array: npt.ArrayLike) -> TensorBytes:
    """Return an F32 tensor."""
    values = np.asarray(array, np.float32)
    return TensorBytes(0, values.shape, values.tobytes())


def string(text: str | bytes) -> bytes:
    """Return a GGUF string: its length, then its bytes."""
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw


def typed(value: Value) -> tuple[int, bytes]:
    """Return the type number and the bytes of a metadata value."""
    match value:
        case Packed(kind, payload):
            return kind, payload
        case bool():
            return 7, struct.pack("<?", value)
        case int():
            return 4, struct.pack("<I", value)
        case float():
            return 6, struct.pack("<f", value)
        case str():
            return 8, string(value)
    items = [typed(item) for item in value]
    kind = items[0][0]
    return 9, struct.pack("<IQ", kind, len(items)) + b"".join(payload for _, payload in items)


def gguf_bytes(
    metadata: Mapping[str, Value],
    tensors: Mapping[str, TensorBytes] | None = None,
    *,
    magic: bytes = b"GGUF",
    version: int = 3,
) -> bytes:
    """Return a whole file."""
    tensors = tensors or {}
    parts = [magic, struct.pack("<IQQ", version, len(tensors), len(metadata))]
    for key, value in metadata.items():
        kind, payload = typed(value)
        parts.append(string(key) + struct.pack("<I", kind) + payload)
    body = b""
    for name, tensor in tensors.items():
        fastest_first = tensor.shape[::-1]
        parts.append(string(name) + struct.pack("<I", len(fastest_first)))
        parts.append(struct.pack(f"<{len(fastest_first)}Q", *fastest_first))
        parts.append(struct.pack("<IQ", tensor.kind, len(body)))
        body += padded(tensor.payload)
    return padded(b"".join(parts)) + body


def write_gguf(
    path: Path, metadata: Mapping[str, Value], tensors: Mapping[str, TensorBytes] | None = None
) -> Path:
    """Write a whole file and return its path."""
    path.write_bytes(gguf_bytes(metadata, tensors))
    return path


def padded(raw: bytes) -> bytes:
    """Return `raw`, filled up to the alignment."""
    return raw + bytes(-len(raw) % ALIGNMENT)
