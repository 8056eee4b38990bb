"""The folders of Delta, Iceberg and Hudi tables are refused, with the files to pass instead."""

from __future__ import annotations

import os

import fsspec
import pytest

from fastload import IO, UnsupportedTypeError
from fastload.source.local_paths import find_files
from fastload.source.stores.stores import Stores

DELTA = ["_delta_log/00000000000000000000.json", "a.parquet", "k=1/b.parquet"]
HUDI = [".hoodie/hoodie.properties", "a.parquet", "k=1/.hoodie_partition_metadata", "k=1/b.parquet"]
ICEBERG = ["metadata/v1.metadata.json", "data/a.parquet", "data/k=1/b.parquet"]


def write(directory, names):
    for name in names:
        path = directory / "t" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"PAR1")


def found(source, tmp_path, storage):
    if storage == "local":
        return [file.path for file in find_files(os.path.join(tmp_path, source))]
    filesystem = fsspec.filesystem("file")
    stores = Stores(filesystem, None, IO())
    return [file.path for file in find_files(os.path.join(tmp_path, source), stores.find)]


@pytest.fixture(params=["local", "store"])
def storage(request):
    return request.param


@pytest.mark.parametrize(
    "source", [".", "t", "t/*.parquet", "t/*", "t/k=1", "t/k=*", "t/k=*/*.parquet", "**/*.parquet"]
)
def test_a_delta_table_is_refused(storage, tmp_path, source):
    write(tmp_path, DELTA)
    expected = r"Expected .*, got a Delta table, .*pass `fastload\.Delta\('.*'\)"
    with pytest.raises(UnsupportedTypeError, match=expected + r"` as the source - at .*/t$"):
        found(source, tmp_path, storage)


@pytest.mark.parametrize(
    "source", [".", "t", "t/data", "t/data/*.parquet", "t/data/k=1", "t/data/k=*/*", "t/*/*"]
)
def test_an_iceberg_table_is_refused(storage, tmp_path, source):
    write(tmp_path, ICEBERG)
    expected = r"got an Iceberg table, .*`fastload\.Iceberg\('database\.table', catalog=\.\.\.\)"
    with pytest.raises(UnsupportedTypeError, match=expected + r"` as the source, .* - at .*/t$"):
        found(source, tmp_path, storage)


@pytest.mark.parametrize(
    "source", [".", "t", "t/*.parquet", "t/*", "t/k=1", "t/k=*/*.parquet", "**/*"]
)
@pytest.mark.parametrize("marked", [True, False])
def test_a_hudi_table_is_refused(storage, tmp_path, source, marked):
    write(tmp_path, [name for name in HUDI if marked or "metadata" not in name])
    with pytest.raises(UnsupportedTypeError, match=r"got a Hudi table, .* - at .*/t(/k=1)?$"):
        found(source, tmp_path, storage)


@pytest.mark.parametrize("names", [DELTA, HUDI, ICEBERG])
def test_the_files_of_a_table_are_read(storage, tmp_path, names):
    write(tmp_path, names)
    for name in (name for name in names if name.endswith(".parquet")):
        assert found(f"t/{name}", tmp_path, storage) == [os.path.join(tmp_path, "t", name)]


def test_folders_of_similar_names_are_read(storage, tmp_path):
    write(tmp_path, ["data/a.parquet", "metadata/b.parquet", "x/data/k=1/c.parquet"])
    for source, files in [("t", 3), ("t/data", 1), ("t/x/data/k=*", 1), ("t/*/*.parquet", 2)]:
        assert len(found(source, tmp_path, storage)) == files


@pytest.mark.parametrize("source", ["t", "t/*", "t/**", "t/k=*", "**/*"])
def test_markers_of_directories_are_left_out(storage, tmp_path, source):
    write(tmp_path, ["k=1_$folder$", "k=1/a.parquet", "k=1/x_$folder$"])
    assert found(source, tmp_path, storage) == [f"{tmp_path}/t/k=1/a.parquet"]
