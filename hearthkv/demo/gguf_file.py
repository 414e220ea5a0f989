"""Read GGUF v3 model files: metadata, and tensors as float32. Reads the one file it is given."""

import math
import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

import numpy as np
import numpy.typing as npt

from hearthkv.core.errors import ModelFileError
from hearthkv.demo.model_shape import Float32Array

MetadataScalar: TypeAlias = bool | int | float | str
MetadataValue: TypeAlias = MetadataScalar | list[MetadataScalar]

MAGIC = b"GGUF"
VERSION = 3

_SCALARS = {
    kind: struct.Struct(layout)
    for kind, layout in {
        0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i",
        6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d",
    }.items()
}  # fmt: skip
_U32, _U64, _STRING, _ARRAY = 4, 10, 8, 9

_ALIGNMENT_DEFAULT = 32
_DIMENSIONS_MAX = 4
_GROUP = 32  # values that share one scale, in Q4_1 and in Q8_0

_F32_RECORD = np.dtype([("value", "<f4")])
_Q4_1_RECORD = np.dtype([("scale", "<f2"), ("minimum", "<f2"), ("nibbles", "u1", (_GROUP // 2,))])
_Q8_0_RECORD = np.dtype([("scale", "<f2"), ("codes", "i1", (_GROUP,))])


def _decode_f32(records: npt.NDArray[np.void]) -> Float32Array:
    return records["value"].astype(np.float32)


def _decode_q4_1(records: npt.NDArray[np.void]) -> Float32Array:
    values = np.empty((len(records), _GROUP), np.float32)
    # The low nibbles are the first half of a group, the high ones the second.
    np.bitwise_and(records["nibbles"], 0x0F, out=values[:, : _GROUP // 2], casting="unsafe")
    np.right_shift(records["nibbles"], 4, out=values[:, _GROUP // 2 :], casting="unsafe")
    values *= records["scale"].astype(np.float32)[:, None]
    values += records["minimum"].astype(np.float32)[:, None]
    return values


def _decode_q8_0(records: npt.NDArray[np.void]) -> Float32Array:
    values = records["codes"].astype(np.float32)
    values *= records["scale"].astype(np.float32)[:, None]
    return values


@dataclass(frozen=True, slots=True)
class _Encoding:
    """How the values of one tensor type lie in the file."""

    record: np.dtype[np.void]
    values_per_record: int
    decode: Callable[[npt.NDArray[np.void]], Float32Array]


_ENCODINGS = {
    0: _Encoding(_F32_RECORD, 1, _decode_f32),
    3: _Encoding(_Q4_1_RECORD, _GROUP, _decode_q4_1),
    8: _Encoding(_Q8_0_RECORD, _GROUP, _decode_q8_0),
}


@dataclass(frozen=True, slots=True)
class _TensorPlace:
    """Where one tensor lies."""

    encoding: _Encoding
    shape: tuple[int, ...]  # slowest dimension first, as numpy has it
    offset: int  # bytes from the start of the tensor section

    @property
    def record_count(self) -> int:
        return math.prod(self.shape) // self.encoding.values_per_record

    @property
    def end(self) -> int:
        return self.offset + self.record_count * self.encoding.record.itemsize


class GgufFile:
    """One GGUF file, mapped into memory until `close`. Arrays that it returns are copies."""

    def __init__(self, path: Path) -> None:
        """
        Map the file and read its header.

        Raises:
            ModelFileError: If the file can't be read, or isn't a whole GGUF v3 file.
        """
        self.path = path
        try:
            with path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:  # ValueError: an empty file can't be mapped
            raise ModelFileError(f"cannot read {path}: {error}") from error
        try:
            header = _HeaderReader(self._map, path)
            tensor_count = header.tensor_count()
            self._metadata = header.metadata()
            self._places = header.places(tensor_count)
            self._tensors_start = header.aligned(self._metadata.get("general.alignment"))
            self._check_complete()
        except ModelFileError:
            self._map.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Unmap the file; metadata stays readable."""
        self._map.close()

    @property
    def tensor_names(self) -> frozenset[str]:
        """Names of all tensors in the file."""
        return frozenset(self._places)

    def integer(self, key: str) -> int:
        """
        Return the integer under `key`.

        Raises:
            ModelFileError: If there is no such key, or another kind of value under it.
        """
        value = self._value(key)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong_kind(key, value, "an integer")
        return value

    def real(self, key: str) -> float:
        """
        Return the real number under `key`.

        Raises:
            ModelFileError: If there is no such key, or another kind of value under it.
        """
        value = self._value(key)
        if not isinstance(value, float):
            raise self._wrong_kind(key, value, "a real number")
        return value

    def text(self, key: str) -> str:
        """
        Return the string under `key`.

        Raises:
            ModelFileError: If there is no such key, or another kind of value under it.
        """
        value = self._value(key)
        if not isinstance(value, str):
            raise self._wrong_kind(key, value, "a string")
        return value

    def texts(self, key: str) -> list[str]:
        """
        Return the list of strings under `key`.

        Raises:
            ModelFileError: If there is no such key, or another kind of value under it.
        """
        items = self._list(key)
        strings = [item for item in items if isinstance(item, str)]
        if len(strings) != len(items):
            raise self._wrong_kind(key, items, "a list of strings")
        return strings

    def integers(self, key: str) -> list[int]:
        """
        Return the list of integers under `key`.

        Raises:
            ModelFileError: If there is no such key, or another kind of value under it.
        """
        items = self._list(key)
        integers = [item for item in items if isinstance(item, int)]
        if len(integers) != len(items):
            raise self._wrong_kind(key, items, "a list of integers")
        return integers

    def tensor(self, name: str, shape: tuple[int, ...]) -> Float32Array:
        """
        Return one tensor as float32, C order, owned by the caller.

        `shape` is what the caller needs, slowest dimension first.

        Raises:
            ModelFileError: If there is no such tensor, or its shape is another one.
        """
        place = self._places.get(name)
        if place is None:
            raise ModelFileError(f"{self.path} has no tensor {name!r}")
        if place.shape != shape:
            raise ModelFileError(f"tensor {name!r} has shape {place.shape}, expected {shape}")
        records = np.frombuffer(
            self._map,
            place.encoding.record,
            count=place.record_count,
            offset=self._tensors_start + place.offset,
        )
        return place.encoding.decode(records).reshape(shape)

    def _value(self, key: str) -> MetadataValue:
        value = self._metadata.get(key)
        if value is None:
            raise ModelFileError(f"{self.path} has no metadata {key!r}")
        return value

    def _list(self, key: str) -> list[MetadataScalar]:
        value = self._value(key)
        if not isinstance(value, list):
            raise self._wrong_kind(key, value, "a list")
        return value

    def _wrong_kind(self, key: str, value: MetadataValue, expected: str) -> ModelFileError:
        found = type(value).__name__
        return ModelFileError(f"metadata {key!r} of {self.path} is a {found}, expected {expected}")

    def _check_complete(self) -> None:
        """Refuse a file that ends before its last tensor, as a cut download does."""
        last = max((place.end for place in self._places.values()), default=0)
        expected_bytes = self._tensors_start + last
        if len(self._map) < expected_bytes:
            raise ModelFileError(
                f"{self.path} has {len(self._map)} bytes, its header needs {expected_bytes}"
            )


class _HeaderReader:
    """A cursor over the header. Every length is checked before it is believed."""

    def __init__(self, buffer: mmap.mmap, path: Path) -> None:
        self._buffer = buffer
        self._path = path
        self._position = 0
        magic = self._take(len(MAGIC))
        if magic != MAGIC:
            raise ModelFileError(f"{path} starts with {magic!r}, expected {MAGIC!r}")
        version = self._unsigned(_U32)
        if version != VERSION:
            raise ModelFileError(f"{path} is GGUF version {version}, expected {VERSION}")

    def tensor_count(self) -> int:
        return self._unsigned(_U64)

    def metadata(self) -> dict[str, MetadataValue]:
        entry_count = self._unsigned(_U64)
        entries: dict[str, MetadataValue] = {}
        for _ in range(entry_count):
            key = self._string()
            kind = self._unsigned(_U32)
            entries[key] = self._array() if kind == _ARRAY else self._scalar(kind)
        return entries

    def places(self, tensor_count: int) -> dict[str, _TensorPlace]:
        return dict(self._place() for _ in range(tensor_count))

    def aligned(self, alignment: MetadataValue | None) -> int:
        """Return where the tensors start: the end of the header, rounded up."""
        step = _ALIGNMENT_DEFAULT if alignment is None else alignment
        if not isinstance(step, int) or step <= 0:
            raise ModelFileError(f"general.alignment of {self._path} is {step!r}, must be > 0")
        return -(-self._position // step) * step

    def _place(self) -> tuple[str, _TensorPlace]:
        name = self._string()
        dimension_count = self._unsigned(_U32)
        if not 1 <= dimension_count <= _DIMENSIONS_MAX:
            raise ModelFileError(
                f"tensor {name!r} has {dimension_count} dimensions, allowed are 1 to 4"
            )
        # The file names the fastest dimension first.
        shape = tuple(self._unsigned(_U64) for _ in range(dimension_count))[::-1]
        kind = self._unsigned(_U32)
        encoding = _ENCODINGS.get(kind)
        if encoding is None:
            raise ModelFileError(
                f"tensor {name!r} has type {kind}, readable are 0 (F32), 3 (Q4_1), 8 (Q8_0)"
            )
        if shape[-1] % encoding.values_per_record:
            raise ModelFileError(
                f"tensor {name!r} has rows of {shape[-1]} values, "
                f"expected a multiple of {encoding.values_per_record}"
            )
        return name, _TensorPlace(encoding, shape, offset=self._unsigned(_U64))

    def _array(self) -> list[MetadataScalar]:
        kind = self._unsigned(_U32)
        count = self._unsigned(_U64)
        return [self._scalar(kind) for _ in range(count)]

    def _scalar(self, kind: int) -> MetadataScalar:
        if kind == _STRING:
            return self._string()
        layout = _SCALARS.get(kind)
        if layout is None:
            raise ModelFileError(f"{self._path} has metadata of unknown type {kind}")
        value: MetadataScalar = layout.unpack(self._take(layout.size))[0]
        return value

    def _unsigned(self, kind: int) -> int:
        layout = _SCALARS[kind]
        value: int = layout.unpack(self._take(layout.size))[0]
        return value

    def _string(self) -> str:
        size_bytes = self._unsigned(_U64)
        try:
            return self._take(size_bytes).decode()
        except UnicodeDecodeError as error:
            raise ModelFileError(f"{self._path} has a string that is not UTF-8") from error

    def _take(self, size_bytes: int) -> bytes:
        end = self._position + size_bytes
        if end > len(self._buffer):
            raise ModelFileError(
                f"{self._path} has {len(self._buffer)} bytes, its header needs at least {end}"
            )
        taken = self._buffer[self._position : end]
        self._position = end
        return taken
