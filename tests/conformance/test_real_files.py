"""Files from other writers: every column equals what pyarrow reads, bit for bit."""

from functools import lru_cache

import numpy as np
import pyarrow as pa
import pytest

from fastload import Column, CorruptFileError, FastParquetDataset
from fastload.testing import assert_same_rows
from support.data_files import DIRECTORY
from support.stored_tables import StoredTables, fill_of

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


@pytest.mark.parametrize("path", [BROKEN], indirect=True)
def test_broken_file_is_named(path, refusal):
    sentence = r"nyc_yellow_2024-01\.truncated\.parquet"
    with refusal(CorruptFileError, sentence, "cut off: there is no footer"):
        FastParquetDataset(path)
