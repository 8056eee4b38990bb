"""Filesystem objects that other threads and processes read through, too."""

from __future__ import annotations

import multiprocessing
import os
import tarfile
import threading
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.http import HTTPFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.implementations.tar import TarFileSystem
from pyarrow.fs import FSSpecHandler, LocalFileSystem, PyFileSystem, S3FileSystem, SubTreeFileSystem

from fastload import FastParquetDataset, StorageError
from fastload.source.stores.fsspec_store import of_process
from fastload.source.stores.raw_tier import store_identity


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w") as archive:
        for number in range(8):
            pq.write_table(pa.table({"x": [number] * 10}), tmp_path / "a.parquet")
            archive.add(tmp_path / "a.parquet", f"e/d/{number}.parquet")
    return str(path)


class Watched(TarFileSystem):
    """Counts the threads that read; the position of the archive's file belongs to them all."""

    busy = most = 0

    def cat_file(self, path, **options):
        type(self).busy += 1
        type(self).most = max(self.most, self.busy)
        time.sleep(0.002)
        try:
            return super().cat_file(path, **options)
        finally:
            type(self).busy -= 1


def _by_pyarrow(filesystem):
    return PyFileSystem(FSSpecHandler(filesystem))


@pytest.mark.parametrize(
    ("wrap", "source"),
    [
        (lambda fs: fs, "e/d/"),
        (lambda fs: DirFileSystem("e", fs), "d/"),
        (_by_pyarrow, "e/d/"),
    ],
)
def test_one_thread_at_a_time_reads_an_archive(archive, wrap, source):
    Watched.most = 0
    filesystem = Watched(archive)
    sums = []

    def read():
        with FastParquetDataset(source, filesystem=wrap(filesystem)) as dataset:
            sums.append(sum(int(batch["x"].sum()) for batch in dataset))

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [280, 280]
    assert Watched.most == 1


def _in_child(work):
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=lambda: sender.send(work()))
    child.start()
    child.join()
    assert child.exitcode == 0
    return receiver.recv()


def test_a_forked_process_opens_an_archive_again(archive):
    filesystem = DirFileSystem("e/d", TarFileSystem(archive))

    def read():
        found, lock = of_process(filesystem)
        with lock:
            return found.fs.fo is filesystem.fs.fo, found.cat_file("3.parquet", start=0, end=4)

    assert read() == (True, b"PAR1")
    assert _in_child(read) == (False, b"PAR1")


def test_a_forked_process_has_an_event_loop_of_its_own():
    filesystem = DirFileSystem("http://host", HTTPFileSystem())
    assert of_process(filesystem)[0] is filesystem

    def runs():
        return of_process(filesystem)[0].fs.loop.is_running()

    assert _in_child(runs)


def test_an_archive_of_an_open_file_is_not_read_by_forked_processes(archive):
    with open(archive, "rb") as file:
        filesystem = TarFileSystem(file)
        of_process(filesystem)

        def read():
            with pytest.raises(
                StorageError, match='multiprocessing_context="forkserver"'
            ) as raised:
                of_process(filesystem)
            return str(raised.value)

        assert "of an open file" in _in_child(read)


def test_what_a_filter_keeps_of_one_archive_is_not_taken_for_another(tmp_path, monkeypatch):
    """Though names, sizes, times and footers are the same, as reproducible archives have them."""
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(tmp_path / "kept"))
    for values in ([1, 2, 3], [3, 1, 2]):
        file = tmp_path / "a.parquet"
        options = {"write_statistics": False, "use_dictionary": False, "compression": "none"}
        pq.write_table(pa.table({"x": values, "y": values}), file, **options)
        os.utime(file, (1.7e9, 1.7e9))
        with tarfile.open(tmp_path / "x.tar", "w") as archive:
            archive.add(file, "d/a.parquet")
        filesystem = TarFileSystem(str(tmp_path / "x.tar"), skip_instance_cache=True)
        options = {"filesystem": filesystem, "filters": [("x", "==", 3)]}
        with FastParquetDataset("d/", **options) as dataset:
            assert [value for batch in dataset for value in batch["y"].tolist()] == [3]


class OfHost(MemoryFileSystem):
    protocol = "ofhost"

    def __init__(self, host, port=22, **options):
        super().__init__(**options)
        self.host, self.port = host, port


def test_filesystems_of_hosts_are_told_apart():
    arrow = [
        S3FileSystem(endpoint_override=host, secret_key="s3cr3t", access_key="k")
        for host in ("a", "b")
    ]
    groups = [
        [OfHost("a"), OfHost("b"), OfHost("a", port=23)],
        [DirFileSystem("d", OfHost("a")), DirFileSystem("d", OfHost("b"))],
        arrow,
        [SubTreeFileSystem("d", filesystem) for filesystem in arrow],
    ]
    for group in groups:
        found = [store_identity(filesystem, {}) for filesystem in group]
        assert len({*found}) == len(group)
        assert None not in found
        assert "s3cr3t" not in repr(found)
    assert store_identity(LocalFileSystem(), {}) is None
