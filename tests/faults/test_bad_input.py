"""Each bad input: the right class, one clear sentence, and the place."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from fastload import (
    Column,
    ColumnNotFoundError,
    CorruptFileError,
    FastloadError,
    FastParquetDataset,
    SchemaError,
    SourceNotFoundError,
    Stack,
    StorageError,
    UnsupportedTypeError,
)
from support.sample_files import write_sample


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("input") / "sample.parquet", 500)


def refusal(error, source, **options):
    """The sentence that making the dataset is refused with."""
    with pytest.raises(error) as caught:
        FastParquetDataset(source, **options)
    assert caught.type is error
    sentence = str(caught.value)
    assert sentence[0].isupper(), sentence
    assert "\n" not in sentence
    assert not sentence.endswith(".")
    return sentence


def test_no_such_file(tmp_path):
    sentence = refusal(SourceNotFoundError, tmp_path / "none.parquet")
    assert sentence.endswith(f"at {tmp_path}/none.parquet")
    assert issubclass(SourceNotFoundError, FileNotFoundError)


def test_one_of_several_is_missing(path, tmp_path):
    assert "none.parquet" in refusal(SourceNotFoundError, [path, tmp_path / "none.parquet"])


def test_empty_directory(tmp_path):
    assert str(tmp_path) in refusal(SourceNotFoundError, tmp_path)


def test_glob_without_a_match(tmp_path):
    assert "x*.parquet" in refusal(SourceNotFoundError, f"{tmp_path}/x*.parquet")


def test_no_source():
    refusal(SourceNotFoundError, [])


@pytest.mark.parametrize("source", [None, 3, [None], b"x", {"a": 1}])
def test_source_of_another_type(source):
    refusal(TypeError, source)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"a,b\n1,2\n" * 99, b"PAR1" + bytes(100)])
def test_not_parquet(tmp_path, content):
    file = tmp_path / "text.parquet"
    file.write_bytes(content)
    assert str(file) in refusal(CorruptFileError, file)


@pytest.mark.parametrize("keep", [4, 11, 12, 1000, -1, -8, -9])
def test_truncated(path, tmp_path, keep):
    file = tmp_path / "cut.parquet"
    file.write_bytes(Path(path).read_bytes()[:keep])
    assert str(file) in refusal(CorruptFileError, file)


def test_footer_length_beyond_the_file(path, tmp_path):
    data = bytearray(Path(path).read_bytes())
    data[-8:-4] = (2**31 - 1).to_bytes(4, "little")
    file = tmp_path / "long.parquet"
    file.write_bytes(data)
    assert str(file) in refusal(CorruptFileError, file)


def test_encrypted_footer(path, tmp_path):
    file = tmp_path / "secret.parquet"
    file.write_bytes(Path(path).read_bytes()[:-4] + b"PARE")
    assert str(file) in refusal(UnsupportedTypeError, file)


def test_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe.parquet")
    assert "pipe.parquet" in refusal(StorageError, tmp_path / "pipe.parquet")


def batches_of(source, **options):
    with FastParquetDataset(source, threads=2, **options) as dataset:
        batches = list(dataset)
        dataset.set_epoch(0)
        assert len(dataset) == len(batches)
        return batches


@pytest.mark.parametrize("options", [{}, {"shuffle": True}, {"uneven": "pad"}])
def test_zero_rows(path, tmp_path, options):
    options = {"batch_size": 10, **options}
    write_sample(tmp_path / "0.parquet", 0)
    assert batches_of(tmp_path / "0.parquet", **options) == []
    assert batches_of(tmp_path / "0.parquet", rank=1, world_size=2, **options) == []
    assert batches_of(path, limit=0, **options) == []
    assert len(batches_of([tmp_path / "0.parquet", path], **options)) == 50


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("sizes", [[0, 3, 0, 0, 4, 0], [0], [0, 0, 9]])
def test_zero_row_row_groups(tmp_path, shuffle, sizes):
    table = pa.table({"id": np.arange(sum(sizes)), "name": [f"{k}" for k in range(sum(sizes))]})
    with pq.ParquetWriter(tmp_path / "t.parquet", table.schema) as writer:
        start = 0
        for rows in sizes:
            writer.write_table(table.slice(start, rows))
            start += rows
    assert pq.ParquetFile(tmp_path / "t.parquet").num_row_groups == len(sizes)
    batches = batches_of(tmp_path / "t.parquet", batch_size=2, shuffle=shuffle, shuffle_window=3)
    rows = [row for batch in batches for row in batch["id"].tolist()]
    assert sorted(rows) == list(range(sum(sizes)))
    assert [name for batch in batches for name in batch["name"]] == [f"{row}" for row in rows]


@pytest.mark.parametrize("columns", [["prize"], {"x": "prize"}, [Column("prize")], ["id", "prize"]])
def test_unknown_column(path, columns):
    if isinstance(columns[0] if isinstance(columns, list) else None, Column):
        columns = {"x": columns[0]}
    sentence = refusal(ColumnNotFoundError, path, columns=columns)
    assert "`prize`" in sentence
    assert "`price`" in sentence
    assert path in sentence
    assert issubclass(ColumnNotFoundError, KeyError)


def test_column_twice(path):
    assert "`id`" in refusal(ValueError, path, columns=["id", "id"])


def test_files_that_disagree(path, tmp_path):
    file = tmp_path / "other.parquet"
    pq.write_table(pa.table({"id": ["text"]}), file)
    sentence = refusal(SchemaError, [path, file], columns=["id"])
    assert path in sentence
    assert str(file) in sentence
    assert "`id`" in sentence


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"x": Column("name", torch.int64)}, SchemaError),
        ({"x": Column("id", fill="text")}, TypeError),
        ({"x": Column("label", fill=1000)}, ValueError),
        ({"x": Stack(["id", "name"])}, SchemaError),
    ],
)
def test_columns_that_do_not_fit(path, columns, error):
    assert "`" in refusal(error, path, columns=columns)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"batch_size": 0}, ValueError, "batch_size to be at least 1, got 0"),
        ({"batch_size": 1.5}, TypeError, "batch_size"),
        ({"batch_size": True}, TypeError, "batch_size"),
        ({"limit": -1}, ValueError, "limit"),
        ({"shuffle": 1}, TypeError, "shuffle"),
        ({"shuffle_window": 0}, ValueError, "shuffle_window"),
        ({"seed": "x"}, TypeError, "seed"),
        ({"rank": 2, "world_size": 2}, ValueError, "rank 2 and world_size 2"),
        ({"rank": 0}, ValueError, "rank and world_size together"),
        ({"uneven": "stretch"}, ValueError, "'wrap'"),
        ({"threads": -1}, ValueError, "threads"),
        ({"prefetch": -1}, ValueError, "prefetch"),
        ({"memory_budget": "lots"}, ValueError, "memory_budget"),
        ({"memory_budget": 0}, ValueError, "memory_budget"),
        ({"memory_budget": 1.5}, TypeError, "memory_budget"),
        ({"memory_budget": 1000}, ValueError, "memory_budget of at least"),
        ({"columns": "id"}, TypeError, "columns"),
        ({"columns": [3]}, TypeError, "column"),
        ({"columns": []}, ValueError, "at least one column"),
        ({"provenance": "yes"}, TypeError, "provenance"),
    ],
)
def test_wrong_parameter(path, options, error, said):
    assert said in refusal(error, path, **options)


def test_unknown_parameter(path):
    with pytest.raises(TypeError, match="batchsize"):
        FastParquetDataset(path, batchsize=3)


def test_window_larger_than_the_budget_names_one_that_fits(path):
    options = {"batch_size": 10, "shuffle": True, "threads": 1, "memory_budget": 15_000}
    sentence = refusal(ValueError, path, shuffle_window=500, **options)
    fits = int(sentence.split("largest shuffle_window that fits is ")[1].split()[0])
    assert 0 < fits < 500
    FastParquetDataset(path, shuffle_window=fits, **options).close()


def test_all_classes_are_one_family():
    for error in (CorruptFileError, SchemaError, SourceNotFoundError, StorageError):
        assert issubclass(error, FastloadError)
