"""Strings, binary and integers as categories: what the core makes of them can be recomputed."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastload.runtime.native import core
from fastload.source.source import Source
from support.xxhash64 import xxhash64

_NULL = -(2**40)
_INTEGERS = [pa.int8(), pa.uint8(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]
_ENCODINGS = {"string": "DELTA_BYTE_ARRAY", "binary": "DELTA_LENGTH_BYTE_ARRAY"}


@pytest.mark.parametrize(
    ("data", "seed", "expected"),
    [
        (b"", 0, 0xEF46DB3751D8E999),
        (b"", 2654435761, 0xAC75FDA2929B17EF),
        (b"abc", 0, 0x44BC2CF5AD770999),
    ],
)
def test_published_values(data: bytes, seed: int, expected: int) -> None:
    assert core.xxhash64(data, seed) == expected
    assert xxhash64(data, seed) == expected


@given(data=st.binary(max_size=200), seed=st.integers(0, 2**64 - 1))
@settings(max_examples=settings.default.max_examples // 2, deadline=None)
def test_hash_is_xxh64(data: bytes, seed: int) -> None:
    assert core.xxhash64(data, seed) == xxhash64(data, seed)


def read_categories(path: Path, rows: int, *, shuffled: bool = False, **spec: Any) -> np.ndarray:
    """The codes of the only column of a file, in the order of its rows."""
    (file,) = Source.open(str(path)).files
    pipeline = core.Pipeline(
        files=[file.for_core],
        columns=[
            core.ColumnSpec(
                name="key",
                leaves=[0],
                dtype="int64",
                bytes=False,
                fill=struct.pack("<q", _NULL),
                cast=False,
                unscaled=False,
                **spec,
            )
        ],
        outputs=[core.OutputSpec("column", [0])],
        threads=0,
        io_threads=0,
        batch_memory_bytes=0,
        staging_memory_bytes=0,
        fetch_memory_bytes=0,
    )
    plan = core.ReadPlan(
        batch_rows=rows,
        rows=rows,
        padding=0,
        shuffled=shuffled,
        pieces=np.array([(0, 0, 0, rows)], np.int64),
        takes=np.array([(0, rows)], np.int64),
        windows=np.array([(0, 0), (1, 1)], np.int64),
        keys=np.array([7], np.uint64),
    )
    scan = pipeline.start(
        plan,
        open_windows=1,
        fetch_bytes=1 << 20,
        segment_bytes=1 << 20,
        request_bytes=1 << 20,
        hole_bytes=0,
    )
    batch = scan.next()
    codes = np.frombuffer(batch, np.int64, rows, batch.areas[0]).copy()
    pipeline.close()
    if shuffled:
        order = codes.copy()
        codes[core.permutation(rows, 7)] = order
    return codes


@st.composite
def key_columns(draw: st.DrawFn) -> tuple[pa.Array, list[Any]]:
    """A column, and the keys that may be in it."""
    kind = draw(st.sampled_from([pa.string(), pa.binary(), pa.binary(3), *_INTEGERS]))
    if pa.types.is_integer(kind):
        bits = kind.bit_width
        signed = pa.types.is_signed_integer(kind)
        least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
        values: st.SearchStrategy[Any] = st.integers(least, most)
    elif pa.types.is_string(kind):
        values = st.text(max_size=40)
    else:
        fixed = pa.types.is_fixed_size_binary(kind)
        values = st.binary(min_size=3 if fixed else 0, max_size=3 if fixed else 40)
    keys = draw(st.lists(values, min_size=1, max_size=30, unique=True))
    repeats = draw(st.integers(1, 100))
    nulls = [None] if draw(st.booleans()) else []
    rows = draw(st.lists(st.sampled_from([*keys, *nulls]), min_size=1, max_size=40)) * repeats
    return pa.array(rows, kind), keys


def encoded(key: Any) -> bytes:
    """What is hashed of a key."""
    if isinstance(key, int):
        return (key % 2**64).to_bytes(8, "little")
    return key.encode() if isinstance(key, str) else key


@given(
    column=key_columns(),
    buckets=st.integers(1, 2**63 - 1),
    seed=st.integers(0, 2**64 - 1),
    storage=st.sampled_from(["plain", "dictionary", "other"]),
    shuffled=st.booleans(),
    data=st.data(),
)
@settings(max_examples=settings.default.max_examples // 2, deadline=None)
def test_categories_follow_from_the_keys(
    tmp_path_factory: pytest.TempPathFactory,
    column: tuple[pa.Array, list[Any]],
    buckets: int,
    seed: int,
    storage: str,
    shuffled: bool,
    data: st.DataObject,
) -> None:
    array, keys = column
    path = tmp_path_factory.getbasetemp() / "keys.parquet"
    encoding = None
    if storage == "other":
        integers = pa.types.is_integer(array.type)
        encoding = "DELTA_BINARY_PACKED" if integers else _ENCODINGS.get(str(array.type))
    pq.write_table(
        pa.table({"key": array}),
        path,
        use_dictionary=storage == "dictionary",
        column_encoding=encoding and {"key": encoding},
        data_page_size=256,
    )
    rows = array.to_pylist()

    hashed = read_categories(
        path, len(rows), shuffled=shuffled, hash_buckets=buckets, hash_seed=seed
    )
    buckets_of = {key: xxhash64(encoded(key), seed) % buckets for key in keys}
    assert hashed.tolist() == [_NULL if key is None else buckets_of[key] for key in rows]

    known = data.draw(st.lists(st.sampled_from(keys), unique=True))
    vocabulary = [key if isinstance(key, int) else encoded(key) for key in known]
    coded = read_categories(path, len(rows), shuffled=shuffled, vocabulary=vocabulary, unknown=-7)
    index_of = {key: known.index(key) if key in known else -7 for key in keys}
    assert coded.tolist() == [_NULL if key is None else index_of[key] for key in rows]


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ({"vocabulary": [1, b"a"]}, TypeError, "vocabulary of bytes or of int"),
        ({"vocabulary": [b"a", 1]}, TypeError, "vocabulary of bytes or of int"),
        ({"vocabulary": [2**64]}, ValueError, "integers of 64 bits in a vocabulary, got 1844"),
        ({"vocabulary": [5, 5]}, ValueError, "each entry of the vocabulary once"),
        ({"hash_buckets": -1}, ValueError, "hash_buckets above 0 or a vocabulary, got -1"),
        ({"hash_buckets": 2, "vocabulary": [1]}, ValueError, "got 2 and a vocabulary"),
    ],
)
def test_wrong_specs(tmp_path: Path, spec: Any, error: type[Exception], message: str) -> None:
    pq.write_table(pa.table({"key": [1]}), tmp_path / "a.parquet")
    with pytest.raises(error, match=message):
        read_categories(tmp_path / "a.parquet", 1, **spec)


def test_other_types_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"key": [1.5]}), tmp_path / "a.parquet")
    with pytest.raises(
        NotImplementedError,
        match="or decimals of scale 0 to hash",
    ):
        read_categories(tmp_path / "a.parquet", 1, hash_buckets=10)
