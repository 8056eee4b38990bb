"""A value that does not fit its dtype, or may not be null, is told with its row."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from fastload import Column, FastParquetDataset, NullValueError, Stack

ROWS = 3000
ROW_GROUP_ROWS = 1000
WIDE = 2345  # the row whose value does not fit


@pytest.fixture
def path(tmp_path: Path) -> str:
    """`wide` and `rare` fit int8 but for one row; `rare` has nulls; `late` has one null."""
    values = np.arange(ROWS) % 100
    values[WIDE] = 300
    present = np.arange(ROWS) % 3 != 0
    present[WIDE] = True
    file = tmp_path / "part.parquet"
    late = [None if row == WIDE else row for row in range(ROWS)]
    pq.write_table(
        pa.table(
            {
                "wide": values,
                "rare": pa.array(values, mask=~present),
                "small": np.arange(ROWS) % 100,
                "text": [f"{row}" for row in range(ROWS)],
                "late": late,
            }
        ),
        file,
        row_group_size=ROW_GROUP_ROWS,
        use_dictionary=["rare", "small"],
        data_page_size=500,
        write_statistics=False,
    )
    return str(file)


def failure(error: type[Exception], path: str, columns: Any, **options: Any) -> str:
    with (
        FastParquetDataset(path, columns=columns, batch_size=128, **options) as dataset,
        pytest.raises(error) as caught,
    ):
        for _ in dataset:
            pass
    return str(caught.value)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("threads", [0, 3])
@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("wide", {"x": Column("wide", dtype=torch.int8)}),
        ("rare", {"x": Column("rare", dtype=torch.int8, fill=0)}),
        ("rare", {"x": Column("rare", dtype=torch.int8, valid=True)}),
        ("wide", {"x": Stack(["small", "wide"], dtype=torch.int8)}),
        ("rare", {"x": Stack(["small", "rare"], dtype=torch.int8, fill=-1)}),
    ],
)
def test_overflow_names_value_and_row(
    path: str, name: str, columns: Any, shuffle: bool, threads: int
) -> None:
    sentence = failure(ValueError, path, columns, shuffle=shuffle, threads=threads)
    assert re.fullmatch(
        rf"Expected a value that fits int8, got 300 - at {re.escape(path)}, row group 2, "
        rf"column `{name}`, page \d+, row {WIDE}",
        sentence,
    )


@pytest.mark.parametrize("window", [700, 1500])
def test_overflow_in_a_window_that_begins_inside_a_row_group(path: str, window: int) -> None:
    columns = {"x": Column("rare", dtype=torch.int8, fill=0)}
    sentence = failure(ValueError, path, columns, shuffle=True, shuffle_window=window)
    assert sentence.endswith(f", row {WIDE}")


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_null_is_told_with_its_row(path: str, shuffle: bool) -> None:
    # Hidden from the footer, the null shows while iterating.
    sentence = failure(NullValueError, path, {"x": Column("late")}, shuffle=shuffle)
    assert re.fullmatch(
        rf"Expected no null, got one \(.*\) - at {re.escape(path)}, row group 2, column `late`, "
        rf"page \d+, row {WIDE}",
        sentence,
    )


def test_rows_that_are_not_read_do_not_fail(path: str) -> None:
    columns = {"x": Column("rare", dtype=torch.int8, fill=0)}
    with FastParquetDataset(path, columns=columns, batch_size=5, limit=WIDE) as dataset:
        assert sum(len(batch["x"]) for batch in dataset) == WIDE
