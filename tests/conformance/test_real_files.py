"""Files from other writers: every flat column equals what pyarrow reads, bit for bit."""

import os
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from arrow_values import Tables, assert_holds
from conftest import DATA_VARIABLE, DEFAULT_DATA
from fastload import Column, CorruptFileError, FastParquetDataset

DATA = Path(os.environ.get(DATA_VARIABLE, DEFAULT_DATA))
# What integers become where they are null: no default, so that a mix-up shows.
FILL = {"b": True, "i": 77, "u": 77}


def flat_columns(path):
    schema = pq.ParquetFile(path).schema
    leaves = [schema.column(i) for i in range(len(schema))]
    return [
        leaf.path for leaf in leaves if leaf.max_repetition_level == 0 and leaf.path == leaf.name
    ]


FILES = sorted(
    str(path.relative_to(DATA))
    for part in ("real", "writers")
    for path in DATA.glob(f"{part}/*.parquet")
    if flat_columns(path)
)


@lru_cache(1)
def tables_of(path):
    return Tables([path], flat_columns(path))


def fills(tables):
    """What null values of each column are filled with; None = NaN."""
    wanted = {}
    for name, values in tables.values.items():
        if values.kind:
            wanted[name] = b"\xff none" if values.kind is bytes else "(nöne)"
        else:
            wanted[name] = FILL.get(values.dtype.kind)
    return wanted


@pytest.mark.usefixtures("data_dir")
def test_there_are_files():
    assert len(FILES) >= 14


@pytest.fixture
def path(request, data_dir):
    return str(data_dir / request.param)


@pytest.mark.parametrize("path", FILES, indirect=True)
def test_in_order_with_fill(path):
    names = flat_columns(path)
    tables = tables_of(path)
    fill = fills(tables)
    columns = {name: Column(name, fill=fill[name]) for name in names}
    rows = np.arange(tables.table.num_rows)
    with FastParquetDataset(path, columns=columns, batch_size=1000) as dataset:
        assert list(dataset.schema) == names
        start = 0
        for batch in dataset:
            part = rows[start : start + batch.rows]
            start += batch.rows
            for name in names:
                place = f"{name}, rows {part[0]} to {part[-1]}"
                assert_holds(batch[name], tables.values[name], part, fill=fill[name], place=place)
        assert start == len(rows)


@pytest.mark.parametrize("path", FILES, indirect=True)
def test_shuffled_with_valid(path):
    names = flat_columns(path)
    tables = tables_of(path)
    columns = {name: Column(name, valid=True) for name in names}
    seen = []
    with FastParquetDataset(
        path, columns=columns, batch_size=777, shuffle=True, shuffle_window=5000, provenance=True
    ) as dataset:
        for batch in dataset:
            rows = tables.indices_of(batch)
            seen.append(rows)
            for name in names:
                want = tables.values[name]
                assert (batch[f"{name}__valid"].numpy() == want.valid[rows]).all(), name
                assert_holds(batch[name], want, rows, fill=None if want.kind else 0, place=name)
    seen = np.concatenate(seen)
    assert len(seen) < 2 or not (seen == np.sort(seen)).all()
    assert (np.sort(seen) == np.arange(tables.table.num_rows)).all()


def test_broken_file_is_named(data_dir):
    path = data_dir / "real" / "broken" / "nyc_yellow_2024-01.truncated.parquet"
    with pytest.raises(CorruptFileError, match=r"nyc_yellow_2024-01\.truncated\.parquet"):
        FastParquetDataset(path)
