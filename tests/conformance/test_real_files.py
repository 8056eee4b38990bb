"""Files from other writers: every column equals what pyarrow reads, bit for bit."""

from functools import lru_cache

import numpy as np
import pyarrow as pa
import pytest
import torch

from fastload import Column, CorruptFileError, FastParquetDataset
from fastload.batch.tensor_views import bits
from support.data_files import DIRECTORY
from support.expected_outputs import outputs_of
from support.same_rows import assert_same_rows
from support.stored_tables import StoredTables, fill_of
from support.taken_rows import assert_taken

FILES = sorted(
    str(path.relative_to(DIRECTORY))
    for part in ("real", "writers")
    for path in DIRECTORY.glob(f"{part}/*.parquet")
)
BROKEN = "real/broken/nyc_yellow_2024-01.truncated.parquet"


@lru_cache(1)
def tables_of(path):
    return StoredTables([path])


@pytest.mark.usefixtures("data_dir")
def test_there_are_files():
    assert len(FILES) >= 14


@pytest.mark.parametrize("path", FILES, indirect=True)
def test_in_order_with_fill(path):
    tables = tables_of(path)
    columns = {name: Column(name, fill=fill_of(leaf)) for name, leaf in tables.leaves.items()}
    with FastParquetDataset(path, columns=columns, batch_size=1000) as dataset:
        assert list(dataset.schema) == list(columns)
        assert_same_rows(dataset, tables.table, columns)


@pytest.mark.parametrize("path", FILES, indirect=True)
def test_shuffled_with_valid(path):
    tables = tables_of(path)
    columns = {name: Column(name, valid=True) for name in tables.leaves}
    with FastParquetDataset(
        path, columns=columns, batch_size=777, shuffle=True, shuffle_window=5000, provenance=True
    ) as dataset:
        batches = [batch.clone() for batch in dataset]
    seen = np.concatenate([tables.indices_of(batch) for batch in batches])
    assert len(seen) < 2 or not (seen == np.sort(seen)).all()
    assert (np.sort(seen) == np.arange(tables.table.num_rows)).all()
    assert_same_rows(batches, tables.table.take(pa.array(seen)), columns)


@pytest.mark.parametrize("path", FILES, indirect=True)
def test_rows_by_number(path):
    assert_taken(path, tables_of(path).table)


@pytest.mark.parametrize("nulls", ["zero", "mask"])
@pytest.mark.parametrize("path", FILES, indirect=True)
def test_one_word_opens_a_file_with_nulls(path, nulls):
    tables = tables_of(path)
    masked = {name: Column(name, valid=True) for name in tables.leaves}
    with FastParquetDataset(path, nulls=nulls, batch_size=1000) as dataset:
        masks = {name for name in dataset.schema if name.endswith("__valid")}
        batches = [batch.clone() for batch in dataset]
        head = dataset.head(3)
    expected = outputs_of(tables.table, masked)
    for name, leaf in tables.leaves.items():
        assert_equal(batches, name, expected[name])
        if f"{name}__valid" in masks:
            valid = torch.cat([batch[f"{name}__valid"] for batch in batches])
            assert valid.tolist() == leaf.valid.tolist()
        elif nulls == "mask":
            assert leaf.valid.all()
    assert (nulls == "mask") or not masks
    assert head.rows == min(3, tables.table.num_rows)


def assert_equal(batches, name, expected):
    """Assert that an output of all batches equals the expected rows, NaN for NaN."""
    start = 0
    for batch in batches:
        got = batch[name]
        assert_same_values(got, expected.rows[start : start + len(got)])
        start += len(got)


def assert_same_values(got, want):
    assert len(got) == len(want)
    if isinstance(want, torch.Tensor):
        same = torch.equal(bits(got), bits(want))
        assert same or torch.allclose(got, want, rtol=0, atol=0, equal_nan=True)
        return
    got, want = got.clone(), want.clone()  # a clone begins with its first value
    assert torch.equal(got.offsets, want.offsets)
    assert_same_values(got.values, want.values)


@pytest.mark.parametrize("path", [BROKEN], indirect=True)
def test_broken_file_is_named(path, refusal):
    sentence = r"nyc_yellow_2024-01\.truncated\.parquet"
    with refusal(CorruptFileError, sentence, "cut off: there is no footer"):
        FastParquetDataset(path)
