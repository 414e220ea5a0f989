"""Tests of hearthkv/demo/gguf_file.py."""

import struct
from pathlib import Path

import numpy as np
import pytest

from hearthkv.core.errors import ModelFileError
from hearthkv.demo.gguf_file import GgufFile
from tests.gguf_writer import Packed, TensorBytes, f32, gguf_bytes, string, write_gguf


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.gguf"


def test_metadata_of_every_kind_is_read(path: Path):
    write_gguf(
        path,
        {"count": 7, "rate": 0.5, "name": "tiny", "words": ["a", "ä"], "types": [1, 3]},
    )
    with GgufFile(path) as file:
        assert file.integer("count") == 7
        assert file.real("rate") == 0.5
        assert file.text("name") == "tiny"
        assert file.texts("words") == ["a", "ä"]
        assert file.integers("types") == [1, 3]


@pytest.mark.parametrize(
    ("kind", "layout", "value"),
    [
        pytest.param(0, "<B", 200, id="u8"),
        pytest.param(1, "<b", -3, id="i8"),
        pytest.param(2, "<H", 60_000, id="u16"),
        pytest.param(3, "<h", -30_000, id="i16"),
        pytest.param(5, "<i", -2_000_000, id="i32"),
        pytest.param(10, "<Q", 2**63, id="u64"),
        pytest.param(11, "<q", -(2**62), id="i64"),
    ],
)
def test_integers_of_every_width_are_read(path: Path, kind: int, layout: str, value: int):
    write_gguf(path, {"n": Packed(kind, struct.pack(layout, value))})
    with GgufFile(path) as file:
        assert file.integer("n") == value


def test_metadata_stays_readable_after_the_file_is_closed(path: Path):
    file = GgufFile(write_gguf(path, {"name": "tiny"}))
    file.close()
    assert file.text("name") == "tiny"


@pytest.mark.parametrize(
    ("method", "value", "expected"),
    [
        pytest.param("integer", "x", "a str, expected an integer", id="text-for-integer"),
        pytest.param("integer", True, "a bool, expected an integer", id="flag-for-integer"),
        pytest.param("real", 1, "an? int, expected a real number", id="integer-for-real"),
        pytest.param("text", 1, "an? int, expected a string", id="integer-for-text"),
        pytest.param("texts", "x", "a str, expected a list", id="text-for-list"),
        pytest.param("texts", [1], "a list, expected a list of strings", id="integers-for-texts"),
        pytest.param(
            "integers", ["x"], "a list, expected a list of integers", id="texts-for-integers"
        ),
    ],
)
def test_metadata_of_another_kind_is_refused(path: Path, method: str, value, expected: str):
    write_gguf(path, {"key": value})
    with GgufFile(path) as file, pytest.raises(ModelFileError, match=expected):
        getattr(file, method)("key")


def test_missing_metadata_is_named(path: Path):
    write_gguf(path, {})
    with GgufFile(path) as file, pytest.raises(ModelFileError, match="no metadata 'size'"):
        file.integer("size")


def test_f32_tensors_are_read_in_c_order(path: Path):
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    write_gguf(path, {}, {"first": f32([1.0]), "second": f32(values)})
    with GgufFile(path) as file:
        assert file.tensor_names == {"first", "second"}
        read = file.tensor("second", (3, 4))
    assert np.array_equal(read, values)
    read += 1  # a copy of the caller's own, alive after the file is closed


def test_q4_1_keeps_low_nibbles_before_high_ones(path: Path):
    low, high = range(16), range(15, -1, -1)
    nibbles = bytes(h << 4 | w for w, h in zip(low, high, strict=True))
    groups = [
        np.float16([0.5, -1.0]).tobytes() + nibbles,
        np.float16([2.0, 3.0]).tobytes() + nibbles,
    ]
    write_gguf(path, {}, {"w": TensorBytes(3, (2, 32), b"".join(groups))})
    with GgufFile(path) as file:
        read = file.tensor("w", (2, 32))
    codes = np.array([*low, *high])
    assert np.array_equal(read, np.stack([codes * 0.5 - 1.0, codes * 2.0 + 3.0]))
    assert read.dtype == np.float32


def test_q8_0_scales_signed_codes(path: Path):
    codes = np.arange(-16, 16, dtype=np.int8)
    payload = np.float16(0.25).tobytes() + codes.tobytes()
    write_gguf(path, {}, {"w": TensorBytes(8, (1, 32), payload)})
    with GgufFile(path) as file:
        assert np.array_equal(file.tensor("w", (1, 32))[0], codes * np.float32(0.25))


def test_a_tensor_after_a_wide_alignment_is_found(path: Path):
    raw = gguf_bytes({"general.alignment": 128}, {"w": f32([5.0])})
    end_of_header = raw.index(struct.pack("<f", 5.0))
    header = raw[:end_of_header]
    path.write_bytes(header + bytes(-len(header) % 128) + raw[end_of_header:])
    with GgufFile(path) as file:
        assert file.tensor("w", (1,))[0] == 5.0


def test_an_absent_tensor_or_another_shape_is_refused(path: Path):
    write_gguf(path, {}, {"w": f32([[1.0, 2.0]])})
    with GgufFile(path) as file:
        with pytest.raises(ModelFileError, match="no tensor 'v'"):
            file.tensor("v", (1,))
        with pytest.raises(ModelFileError, match=r"shape \(1, 2\), expected \(2, 1\)"):
            file.tensor("w", (2, 1))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(b"", "cannot read", id="empty"),
        pytest.param(b"GG", "has 2 bytes, its header needs at least 4", id="shorter-than-magic"),
        pytest.param(
            gguf_bytes({}, magic=b"GGML"), "starts with b'GGML', expected b'GGUF'", id="magic"
        ),
        pytest.param(gguf_bytes({}, version=2), "version 2, expected 3", id="version"),
        pytest.param(gguf_bytes({"k": "v"})[:30], "its header needs at least", id="cut-header"),
        pytest.param(gguf_bytes({"k": Packed(13, b"")}), "unknown type 13", id="metadata-type"),
        pytest.param(gguf_bytes({"k": Packed(8, string(b"\xff"))}), "not UTF-8", id="not-utf8"),
        pytest.param(
            gguf_bytes({"k": Packed(8, struct.pack("<Q", 2**63))}),
            "its header needs at least",
            id="impossible-length",
        ),
        pytest.param(
            gguf_bytes({"general.alignment": 0}),
            "general.alignment.* is 0, must be > 0",
            id="align",
        ),
        pytest.param(
            gguf_bytes({}, {"w": TensorBytes(2, (1, 32), bytes(18))}),
            r"'w' has type 2, readable are 0 \(F32\), 3 \(Q4_1\), 8 \(Q8_0\)",
            id="tensor-type",
        ),
        pytest.param(
            gguf_bytes({}, {"w": TensorBytes(3, (1, 31), bytes(20))}),
            "rows of 31 values, expected a multiple of 32",
            id="ragged-rows",
        ),
        pytest.param(
            gguf_bytes({}, {"w": TensorBytes(0, (1, 1, 1, 1, 1), bytes(4))}),
            "5 dimensions, allowed are 1 to 4",
            id="dimensions",
        ),
        pytest.param(
            gguf_bytes({}, {"w": f32(np.zeros(64))})[:-1],
            "bytes, its header needs",
            id="cut-tensors",
        ),
    ],
)
def test_a_broken_file_is_refused_with_its_figures(path: Path, raw: bytes, expected: str):
    path.write_bytes(raw)
    with pytest.raises(ModelFileError, match=expected):
        GgufFile(path)


def test_an_absent_file_is_refused(path: Path):
    with pytest.raises(ModelFileError, match="cannot read"):
        GgufFile(path)
