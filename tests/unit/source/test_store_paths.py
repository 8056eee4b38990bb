"""Globs and directories of a store stand for the files that local ones would."""

from __future__ import annotations

import os

import fsspec
import pytest

from fastload import IO, SourceNotFoundError, StorageError
from fastload.source.local_paths import find_files
from fastload.source.stores.stores import Stores

_NAMES = [
    "a.parquet",
    "b.parquet",
    "_SUCCESS",
    ".hidden.parquet",
    "k=1/c.parquet",
    "k=1/_temporary/d.parquet",
    "k=2/l=x/e.parquet",
    "k=2/f.txt",
    "part[1].parquet",
    "part1.parquet",
    "m[1]/a.parquet",
    "m1/a.parquet",
]


@pytest.fixture(params=["fsspec", "pyarrow"])
def storage(request, tmp_path):
    for name in _NAMES:
        path = tmp_path / "d" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"PAR1")
    if request.param == "fsspec":
        return Stores(fsspec.filesystem("file"), None, IO())
    from pyarrow.fs import LocalFileSystem

    return Stores(LocalFileSystem(), None, IO())


@pytest.mark.parametrize(
    "pattern",
    [
        "d",
        "d/a.parquet",
        "d/*",
        "d/*.parquet",
        "d/?.parquet",
        "d/[ab].parquet",
        "d/[!a].parquet",
        "d/**",
        "d/**/*.parquet",
        "d/k=*",
        "d/k=*/",
        "d/k=*/*.parquet",
        "d/**.parquet",
        "d/[a-b].parquet",
        "d/[^a].parquet",
        "d/*/*/*",
        "d/_*",
        "d/.*",
        "d/part[1].parquet",
        "d/m[1]",
        "d/m[1]/",
        "d/m[1]/a.parquet",
        "d/m[1]/*",
        "d/**/_*/*",
    ],
)
def test_as_local(storage, tmp_path, pattern):
    path = os.path.join(tmp_path, pattern)
    local = [(file.path, file.folders) for file in find_files(path)]
    found = [(file.path, file.folders) for file in find_files(path, storage.find)]
    assert found == local


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("d/none", "Expected a file or directory, found none - at "),
        ("d/none*", "Expected files that match the glob, found none - at "),
        ("empty", "Expected a directory with files"),
    ],
)
def test_none(storage, tmp_path, pattern, message):
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceNotFoundError, match=message):
        find_files(os.path.join(tmp_path, pattern), storage.find)


def test_a_package_that_is_missing_is_named():
    storage = Stores(None, None, IO())
    with pytest.raises(StorageError, match=r"ossfs.* - at oss://bucket/x"):
        find_files("oss://bucket/x", storage.find)


@pytest.mark.parametrize(
    ("filesystem", "options", "io", "error"),
    [
        (object(), None, IO(), TypeError),
        (None, [], IO(), TypeError),
        (fsspec.filesystem("file"), {"a": 1}, IO(), ValueError),
        (fsspec.filesystem("file"), None, IO(transport="native"), ValueError),
    ],
)
def test_wrong_arguments(filesystem, options, io, error):
    with pytest.raises(error, match="Expected"):
        Stores(filesystem, options, io)
