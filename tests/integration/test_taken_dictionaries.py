"""Decoded dictionaries stay in memory from one take to the next."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastload import Codes, Column, FastParquetDataset, Hash, SourceChangedError
from fastload.testing import assert_same_batches

ROWS = 6_000
GROUP_ROWS = 2_000


WORDS = [f"word {k}" for k in range(0, 900, 2)]


def rows(seed=0):
    rng = np.random.default_rng(seed)
    words = [f"word {k}" for k in rng.integers(0, 900, ROWS)]
    return pa.table(
        {
            "number": rng.integers(0, 1 << 40, ROWS),
            "word": words,
            "null": pa.array([None if k % 7 == 0 else k % 90 for k in range(ROWS)], pa.int16()),
            "list": [rng.integers(0, 5_000, k % 4).tolist() for k in range(ROWS)],
            "words": [words[k : k + k % 3] for k in range(ROWS)],
        }
    )


def write(path, table, **options):
    layout = {"row_group_size": GROUP_ROWS, "max_rows_per_page": 100, "write_page_index": True}
    pq.write_table(table, path, **{**layout, **options})
    return path


@pytest.fixture(scope="module", params=["snappy", "none", "zstd"])
def path(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("dictionaries")
    return write(directory / "rows.parquet", rows(), compression=request.param)


def engine_of(dataset):
    return dataset._taker._made[os.getpid()]


def read_by(dataset, indices):
    """Take the rows, and return the batch with the bytes that the call read."""
    before = 0 if dataset._taker is None else engine_of(dataset).counts()["read_bytes"]
    batch = dataset.take(indices).clone()
    return batch, engine_of(dataset).counts()["read_bytes"] - before


@pytest.mark.parametrize("column", ["number", "word", "list", "words"])
def test_a_dictionary_is_read_once(path, column):
    with FastParquetDataset(path, columns=[column], threads=1) as dataset:
        footer = pq.read_metadata(path).row_group(0).column(0)
        assert footer.has_dictionary_page
        asked = [5, 1999]
        first, cold = read_by(dataset, asked)
        second, warm = read_by(dataset, asked)
        assert_same_batches([second], [first])
        assert engine_of(dataset).counts()["dictionaries_served"] == 1
        # The offset index and the dictionary are not read again, in one row group.
        leaf = dataset_leaf(path, column)
        dictionary = leaf.data_page_offset - leaf.dictionary_page_offset
        assert cold - warm >= dictionary
        # Other pages of the chunk use the same dictionary, other row groups have their own.
        dataset.take([1000])
        assert engine_of(dataset).counts()["dictionaries_served"] == 2
        dataset.take([GROUP_ROWS])
        assert engine_of(dataset).counts()["dictionaries_served"] == 2


def dataset_leaf(path, column):
    group = pq.read_metadata(path).row_group(0)
    leaves = [group.column(i) for i in range(group.num_columns)]
    return next(leaf for leaf in leaves if leaf.path_in_schema.split(".")[0] == column)


def test_each_column_has_its_own_decoding(path):
    columns = {
        "number": Column("number"),
        "float": Column("number", dtype="float64"),
        "hash": Hash("word", buckets=1000),
        "word": Column("word"),
        "null": Column("null", fill=-1),
        "code": Codes("word", vocabulary=[None, *WORDS], unknown=0),
        "list": Column("list"),
    }
    table = rows()
    rng = np.random.default_rng(1)
    with FastParquetDataset(path, columns=columns, threads=2) as dataset:
        whole = dataset.take(range(ROWS)).clone()
        for count in (1, 30, 500, 4_000, 30, 1):
            asked = rng.integers(0, ROWS, count)
            with FastParquetDataset(path, columns=columns, threads=1) as cold:
                assert_same_batches([dataset.take(asked)], [cold.take(asked)])
            batch = dataset.take(asked)
            assert batch["number"].tolist() == table["number"].take(pa.array(asked)).to_pylist()
            assert batch["word"].tolist() == table["word"].take(pa.array(asked)).to_pylist()
            assert batch["list"].tolist() == table["list"].take(pa.array(asked)).to_pylist()
            assert (batch["code"] == whole["code"][asked]).all()
            assert (batch["hash"] == whole["hash"][asked]).all()
        assert engine_of(dataset).counts()["dictionaries_served"] > 0


def test_the_budget_bounds_what_is_kept(tmp_path):
    rng = np.random.default_rng(0)
    words = pa.array([f"{k:040}" for k in rng.integers(0, 1 << 40, 40_000)])
    path = write(tmp_path / "words.parquet", pa.table({"word": words}))
    with FastParquetDataset(path, threads=1, memory_budget="16MB") as dataset:
        for start in range(0, 40_000, 500):
            assert dataset.take([start, start + 7])["word"][0] == words[start].as_py()
            assert 0 < engine_of(dataset).counts()["dictionary_bytes"] <= (16 << 20) // 16


def test_a_file_that_changed_is_told(tmp_path):
    path = write(tmp_path / "rows.parquet", rows())
    with FastParquetDataset(path, columns=["word"], threads=1) as dataset:
        dataset.take([5])
        dataset.take([5])
        write(path, rows(seed=1))
        with pytest.raises(SourceChangedError):
            dataset.take([5])


def test_a_closed_dataset_keeps_no_dictionaries(path):
    with FastParquetDataset(path, columns=["word"], threads=1) as dataset:
        dataset.take([5, 1999])
        assert engine_of(dataset).counts()["dictionary_bytes"] > 0
    assert engine_of(dataset).counts()["dictionary_bytes"] == 0
