"""An element of a list that does not fit, or may not be null, is told with the list's row."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from fastload import Column, FastParquetDataset, NullValueError, Pad

ROWS = 1200
ROW_GROUP_ROWS = 500
INT64_LISTS = {
    "list": pa.list_(pa.int64()),
    "nested": pa.list_(pa.list_(pa.int64())),
    "fixed": pa.list_(pa.int64(), 3),
    "fixed in lists": pa.list_(pa.list_(pa.int64(), 2)),
}


def random_value(kind: Any, rng: np.random.Generator, *, nulls: bool) -> Any:
    """A value of the type; lists hold up to 12 elements."""
    if nulls and rng.random() < 0.2:
        return None
    if not pa.types.is_nested(kind):
        return int(rng.integers(0, 100))
    fixed = pa.types.is_fixed_size_list(kind)
    length = kind.list_size if fixed else int(rng.integers(0, 13))
    return [random_value(kind.value_type, rng, nulls=nulls) for _ in range(length)]


def spoiled(kind: Any, element: Any) -> Any:
    """A value of the type with `element` in it, after another."""
    if not pa.types.is_nested(kind.value_type):
        fixed = pa.types.is_fixed_size_list(kind)
        return [1, element, 2][: kind.list_size if fixed else 3]
    return [[1, 2], spoiled(kind.value_type, element)]


def failure(path: Path, column: Any, error: type[Exception], **options: Any) -> str:
    with (
        FastParquetDataset(str(path), columns={"x": column}, batch_size=64, **options) as dataset,
        pytest.raises(error) as caught,
    ):
        for _ in dataset:
            pass
    return str(caught.value)


def write(path: Path, kind: Any, row: int, element: Any, seed: int, *, nulls: bool) -> None:
    rng = np.random.default_rng(seed)
    rows = [random_value(kind, rng, nulls=nulls) for _ in range(ROWS)]
    rows[row] = spoiled(kind, element)
    pq.write_table(
        pa.table({"l": pa.array(rows, kind)}),
        path,
        row_group_size=ROW_GROUP_ROWS,
        use_dictionary=seed % 2 == 0,
        data_page_size=(200, 4000, 1 << 20)[seed % 3],
        data_page_version="2.0" if seed % 4 < 2 else "1.0",
        write_batch_size=16,
    )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("kind", INT64_LISTS)
def test_overflow_names_value_and_row(tmp_path: Path, kind: str, nulls: bool, seed: int) -> None:
    path = tmp_path / "part.parquet"
    row = int(np.random.default_rng(seed + 100).integers(0, ROWS))
    write(path, INT64_LISTS[kind], row, 300, seed, nulls=nulls)
    fill = 0 if nulls else None
    columns: list[Any] = [Column("l", dtype=torch.int8, fill=fill)]
    if kind == "list":
        columns.append(Pad(Column("l", dtype=torch.int8, fill=fill), 4))
    for column in columns:
        for shuffle in (False, True):
            sentence = failure(path, column, ValueError, shuffle=shuffle, threads=seed % 3)
            assert re.fullmatch(
                rf"Expected a value that fits int8, got 300 - at {re.escape(str(path))}, "
                rf"row group {row // ROW_GROUP_ROWS}, column `l`, page \d+, row {row}",
                sentence,
            )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", INT64_LISTS)
def test_a_null_element_is_told_with_its_row(tmp_path: Path, kind: str, seed: int) -> None:
    path = tmp_path / "part.parquet"
    row = int(np.random.default_rng(seed + 200).integers(0, ROWS))
    write(path, INT64_LISTS[kind], row, None, seed, nulls=False)
    for shuffle in (False, True):
        sentence = failure(path, "l", NullValueError, shuffle=shuffle)
        assert "Expected no null, got one" in sentence
        assert sentence.endswith(f", row {row}")


@pytest.mark.parametrize("kind", INT64_LISTS)
def test_a_null_list_is_told_with_its_row(tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(7)
    rows = [random_value(INT64_LISTS[kind], rng, nulls=False) for _ in range(ROWS)]
    rows[777] = None
    path = tmp_path / "part.parquet"
    pq.write_table(
        pa.table({"l": pa.array(rows, INT64_LISTS[kind])}), path, row_group_size=ROW_GROUP_ROWS
    )
    sentence = failure(path, "l", NullValueError)
    assert "Expected no null list, got one" in sentence
    assert sentence.endswith(", row 777")


def test_a_null_string_in_a_list_is_told_with_its_row(tmp_path: Path) -> None:
    rows = [["a", "b"], [], ["c"]] * 300
    rows[456] = ["d", None, "e"]
    pq.write_table(pa.table({"l": rows}), tmp_path / "part.parquet")
    sentence = failure(tmp_path / "part.parquet", "l", NullValueError)
    assert sentence.endswith(", row 456")
