"""URLs that fsspec reads: chains, URLs with a host, and globs in any filesystem."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.tar import TarFileSystem

from fastload import FastParquetDataset, StorageError
from fastload.source.stores.fsspec_urls import split_url
from fastload.source.stores.store import shown


@pytest.fixture
def directory(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [1, 2, 3]}), path)
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.write(path, "a.parquet")
        archive.write(path, "d/b.parquet")
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        archive.add(path, "a.parquet")
        archive.add(path, "d/b.parquet")
    memory = fsspec.filesystem("memory")
    memory.pipe("/fsspec_urls/a.parquet", path.read_bytes())
    memory.pipe("/fsspec_urls/d/b.parquet", path.read_bytes())
    yield tmp_path
    memory.rm("/fsspec_urls", recursive=True)


def rows(source, **options):
    with FastParquetDataset(source, **options) as dataset:
        return sum(len(batch["x"]) for batch in dataset)


@pytest.mark.parametrize(
    ("url", "files"),
    [
        ("zip://a.parquet::{}/x.zip", 1),
        ("zip://*.parquet::{}/x.zip", 1),
        ("zip://::file://{}/x.zip", 2),
        ("zip://d::{}/x.zip", 1),
        ("tar://**/*.parquet::{}/x.tar", 2),
        ("dir://a.parquet::file://{}", 1),
        ("simplecache::file://{}/a.parquet", 1),
        ("simplecache::{}/a.parquet", 1),
        ("simplecache::memory://fsspec_urls", 2),
        ("filecache::zip://d/*::{}/x.zip", 1),
        ("memory://fsspec_urls/*.parquet", 1),
        ("memory:///fsspec_urls/*", 2),
        ("memory://fsspec_urls/", 2),
        ("local://{}/*.parquet", 1),
    ],
)
def test_urls_are_read(directory, url, files):
    assert rows(url.format(directory)) == 3 * files


@pytest.mark.usefixtures("often_switched")
@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_an_archive_is_read_by_many_threads(directory, kind):
    path = directory / f"many.{kind}"
    with tarfile.open(path, "w") if kind == "tar" else zipfile.ZipFile(path, "w") as archive:
        add = archive.add if kind == "tar" else archive.write
        for number in range(100):
            add(directory / "a.parquet", f"{number}.parquet")
    for _ in range(3):
        assert rows(f"{kind}://*.parquet::{path}", shuffle=True) == 300


def fixed(values):
    """Return the bytes of a Parquet file, which has the same footer whatever the values are."""
    opened = io.BytesIO()
    plain = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    pq.write_table(pa.table({"x": pa.array(values, pa.int64())}), opened, **plain)
    return opened.getvalue()


def values(source, **options):
    with FastParquetDataset(source, **options) as dataset:
        return [x for batch in dataset for x in batch["x"].tolist()]


@pytest.mark.parametrize("by_url", [True, False])
def test_the_cache_tells_archives_apart(tmp_path, by_url):
    for wanted in ([1, 2], [3, 4]):
        data = fixed(wanted)
        with tarfile.open(tmp_path / "x.tar", "w") as archive:
            member = tarfile.TarInfo("a.parquet")
            member.size, member.mtime = len(data), 1
            archive.addfile(member, io.BytesIO(data))
        source, options = f"tar://a.parquet::{tmp_path}/x.tar", {}
        if not by_url:
            source, options = "a.parquet", {"filesystem": TarFileSystem(str(tmp_path / "x.tar"))}
        assert values(source, cache=tmp_path / "cache", **options) == wanted


def test_the_cache_tells_directories_of_a_filesystem_apart(tmp_path):
    for name, wanted in (("a", [1, 2]), ("b", [3, 4])):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.parquet").write_bytes(fixed(wanted))
        os.utime(tmp_path / name / "x.parquet", (1, 1))
    for name, wanted in (("a", [1, 2]), ("b", [3, 4])):
        filesystem = DirFileSystem(tmp_path / name, fsspec.filesystem("file"))
        for source in ("x.parquet", "*.parquet", ""):
            found = values(source or "./", filesystem=filesystem, cache=tmp_path / "cache")
            assert found == wanted


@pytest.mark.parametrize("source", ["d/x.parquet", "d/*.parquet", "d/", "./"])
@pytest.mark.parametrize("nested", [False, True])
def test_files_of_a_directory_have_their_names_in_the_directory(
    tmp_path, monkeypatch, source, nested
):
    """Though older fsspec tells the names that the files have in the filesystem below."""

    def info(self, path, **options):
        return self.fs.info(self._join(path), **options)

    def find(self, path, **options):
        found = self.fs.find(self._join(path), **options)
        return {self._relpath(name): entry for name, entry in found.items()}

    monkeypatch.setattr(DirFileSystem, "info", info)
    monkeypatch.setattr(DirFileSystem, "find", find)
    (tmp_path / "a" / "b" / "d").mkdir(parents=True)
    (tmp_path / "a" / "b" / "d" / "x.parquet").write_bytes(fixed([1, 2]))
    local = fsspec.filesystem("file")
    filesystem = DirFileSystem(tmp_path / "a" / "b", local)
    if nested:
        filesystem = DirFileSystem("b", DirFileSystem(tmp_path / "a", local))
    assert values(source, filesystem=filesystem) == [1, 2]


def test_rows_of_a_filter_are_kept_for_files_with_versions_only(directory):
    memory = fsspec.filesystem("memory")
    for written, wanted in (([1, 2, 3, 4], [3, 4]), ([4, 3, 2, 1], [4, 3])):
        memory.pipe("/fsspec_urls/d/b.parquet", fixed(written))
        assert values("memory://fsspec_urls/d", filters=[("x", ">", 2)]) == wanted


@pytest.mark.parametrize("pattern", ["fsspec_urls/*.parquet", "/fsspec_urls/*.parquet"])
def test_globs_of_filesystems_are_read(directory, pattern):
    assert rows(pattern, filesystem=fsspec.filesystem("memory")) == 3


def test_a_local_path_may_look_like_a_chain(directory, monkeypatch):
    monkeypatch.chdir(directory)
    for name in ("zip::x", "other::x"):
        (directory / name).mkdir()
        os.link(directory / "a.parquet", directory / name / "b.parquet")
        assert rows(name) == 3
    assert rows("other::*") == 3


@pytest.mark.parametrize(
    ("url", "kind", "path"),
    [
        ("ftp://user:secret@host:21/d/a.parquet", "ftp://user:secret@host:21", "/d/a.parquet"),
        ("webhdfs://host:50070/d/*", "webhdfs://host:50070", "/d/*"),
        ("hdfs://host/d/", "hdfs://host", "/d/"),
        ("github://org:repo@main/d/a.parquet", "github://org:repo@main", "d/a.parquet"),
        ("simplecache::gs://bucket/a", "simplecache::gs://", "bucket/a"),
        ("zip://a::ftp://host/x.zip", "zip://::ftp://host/x.zip", "a"),
        ("memory://m/a", "memory", "/m/a"),
    ],
)
def test_the_host_or_chain_is_the_kind(url, kind, path):
    assert split_url(url) == (kind, path)


@pytest.mark.parametrize("url", ["gs://b/a", "s3://b/a?versionId=1", "http://h/a", "/d/a", "d::a"])
def test_other_paths_are_left_to_others(url):
    assert split_url(url) is None


def test_errors_tell_no_password():
    assert shown("ftp://user:secret@host", "/d/a.parquet") == "ftp://host/d/a.parquet"
    assert shown("zip://::ftp://u:secret@host/x.zip", "a") == "zip://a::ftp://host/x.zip"


@pytest.mark.parametrize(
    ("url", "cause"),
    [
        ("zip://a.parquet::{}", "IsADirectoryError"),
        ("zip://a.parquet::{}/a.parquet", "BadZipFile"),
    ],
)
def test_a_permanent_error_is_not_tried_again(directory, url, cause):
    with pytest.raises(StorageError, match=f"got {cause}: ") as caught:
        rows(url.format(directory))
    assert " tries" not in str(caught.value)
