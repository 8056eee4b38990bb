"""Names that are not UTF-8: of files they are read, of columns they are a damaged file."""

from __future__ import annotations

import base64
import os
import pickle
import re
import sys
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from torch.utils.data import DataLoader

from fastload import Cache, CorruptFileError, FastParquetDataset, SourceChangedError

linux = pytest.mark.skipif(sys.platform != "linux", reason="file names are UTF-8 elsewhere")


@pytest.fixture
def directory(tmp_path):
    """A directory with a file and a partition whose names are Latin-1."""
    path = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(path)
    pq.write_table(pa.table({"x": [1, 2, 3], "s": ["a", "b", "c"]}), tmp_path / "a.parquet")
    os.rename(tmp_path / "a.parquet", path + b"/th\xe9.parquet")
    return os.fsdecode(path)


def total(source, **options):
    with FastParquetDataset(source, columns=["x"], **options) as dataset:
        return sum(int(batch["x"].sum()) for batch in dataset)


@linux
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"shuffle": True, "seed": 1},
        {"filters": [("x", ">", 0)]},
        {"filters": [("s", "in", ["a", "b", "c"])], "split": ("x", 0.0, 1.0)},
        {"on_error": "skip", "uneven": "keep", "limit": 3},
    ],
)
def test_files_of_any_name_are_read(directory, tmp_path, monkeypatch, options):
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(tmp_path / "home"))
    sources = [directory, f"{directory}/*.parquet", [f"{directory}/{os.listdir(directory)[0]}"]]
    for source in sources:
        assert total(source, **options) == 6
        for _ in range(2):
            assert total(source, cache=Cache(tmp_path / "cache"), **options) == 6


@linux
def test_files_of_any_name_go_to_workers(directory):
    with FastParquetDataset(directory, columns=["x"], provenance=True, batch_size=2) as dataset:
        again = pickle.loads(pickle.dumps(dataset))
        loader = DataLoader(again, batch_size=None, num_workers=1)
        assert sum(int(batch["x"].sum()) for batch in loader) == 6
        state = dataset.state_dict()
        dataset.load_state_dict(state)
        assert again.files == dataset.files


@linux
def test_errors_name_files_of_any_name(directory):
    with FastParquetDataset(directory) as dataset:
        path = dataset.files[0]
        os.utime(path, ns=(1, 1))
        with pytest.raises(SourceChangedError, match=r"caf\\xe9/th\\xe9\.parquet"):
            list(dataset)
    with open(path, "wb") as file:
        file.write(b"PAR1 nothing")
    with pytest.raises(CorruptFileError, match=r"caf\\xe9/th\\xe9\.parquet"):
        FastParquetDataset(directory)


def damaged(path, table, name, **options):
    """Write a file in which `name` is not UTF-8, wherever the file contains the name."""
    pq.write_table(table, path, **options)
    data = path.read_bytes()
    assert name in data
    path.write_bytes(data.replace(name, b"\xff" * len(name)))
    return path


@pytest.mark.parametrize("columns", [None, ["other"]])
@pytest.mark.parametrize("store_schema", [True, False])
@pytest.mark.parametrize(
    "kind", [pa.int64(), pa.list_(pa.int32()), pa.struct({"name_q": pa.int8()}), pa.string()]
)
def test_a_column_name_that_is_no_text_is_damage(tmp_path, columns, store_schema, kind):
    table = pa.table({"name_q": pa.nulls(2, kind), "other": [1, 2]})
    path = damaged(tmp_path / "a.parquet", table, b"name_q", store_schema=store_schema)
    with pytest.raises(CorruptFileError, match=r"UTF-8.* - at .*a\.parquet"):
        FastParquetDataset(path, columns=columns)


def test_a_time_zone_that_is_no_text_is_no_unicode_error(tmp_path):
    table = pa.table({"t": pa.array([1, 2], pa.timestamp("us", "Asia/Tokyo"))})
    pq.write_table(table, tmp_path / "a.parquet")
    data = (tmp_path / "a.parquet").read_bytes()
    # The zone is in the writer's Arrow schema, in base64.
    text = re.search(rb"ARROW:schema.{1,9}?([A-Za-z0-9+/=]{40,})", data, re.DOTALL)
    assert text is not None
    schema = base64.b64decode(text[1])
    bad = base64.b64encode(schema.replace(b"Asia/Tokyo", b"\xff" * 10))
    assert len(bad) == len(text[1])
    assert bad != text[1]
    (tmp_path / "a.parquet").write_bytes(data.replace(text[1], bad))
    with pytest.raises(CorruptFileError, match="UTF-8"):
        FastParquetDataset(tmp_path / "a.parquet")


def test_a_metadata_value_that_is_no_text_does_no_harm(tmp_path):
    table = pa.table({"x": np.arange(3)}).replace_schema_metadata({"kkkk": "vvvv"})
    path = damaged(tmp_path / "a.parquet", table, b"vvvv")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert total(path) == 3
