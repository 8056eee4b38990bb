"""Selections on disk: shared, never trusted blindly, never in the way."""

import errno
import multiprocessing
import os
import pickle
import shutil
import signal
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from fastload import FastParquetDataset
from fastload.plan.kept_rows import FileRows, pack_rows
from fastload.rows import selection
from fastload.rows.finder import RowFinder
from fastload.rows.selection import SelectionCache
from fastload.runtime.disk.private_directory import (
    remove_abandoned_once,
    remove_unused_once,
)
from fastload.source.source import Source
from fastload.source.tables.table import Table, TableColumns

FILTERS = (pc.field("a") < 50) | (pc.field("a") > 940)
KEPT = [*range(50), *range(941, 1000)]


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": np.arange(1000)}), path, row_group_size=300)
    return path


def kept(source):
    dataset = FastParquetDataset(source, filters=FILTERS)
    return [v for batch in dataset for v in batch["a"].tolist()]


def entries(home):
    return sorted(home.glob("selections/*/*"))


@pytest.fixture
def scans(monkeypatch):
    """How many files rows have been looked for in."""
    count = []
    real = RowFinder.files

    def counted(self, indices):
        count.extend(indices)
        return real(self, indices)

    monkeypatch.setattr(RowFinder, "files", counted)
    return count


def test_rows_that_nobody_asked_for_in_a_month_are_removed(home, source):
    kept(source)
    [asked] = entries(home)
    FastParquetDataset(source, filters=("a", "<", 7)).num_rows  # noqa: B018
    [unasked] = set(entries(home)) - {asked}
    month_ago = time.time() - 31 * 24 * 3600
    for entry in (asked, unasked):
        os.utime(entry, (month_ago, month_ago))
    remove_unused_once.cache_clear()  # as in the next process
    kept(source)
    FastParquetDataset(source, filters=("a", "<", 8)).num_rows  # noqa: B018
    assert asked in entries(home)
    assert unasked not in entries(home)
    assert len(entries(home)) == 2


def test_files_of_killed_writers_are_removed(home, source):
    kept(source)
    [entry] = entries(home)
    left = entry.with_name(".new-left")
    left.write_bytes(b"half")
    os.utime(left, (0, 0))
    entry.unlink()
    remove_abandoned_once.cache_clear()  # as in the next process
    kept(source)
    assert entries(home) == [entry]


def test_rows_of_a_table_are_kept_by_its_constants(source):
    """Of a table without lists of deleted rows, too, whose files have no `uri`."""
    columns = TableColumns.of("t", pa.schema({"a": pa.int64(), "p": pa.int64()}), {})
    plain = Source.open(source)

    def key_with(constant):
        file = replace(plain.files[0], constants=((("p",), pa.scalar(constant)),))
        table = Table(columns, "version 0", "t 0", ())
        return selection.key_of_file("asked", replace(plain, files=(file,), table=table), 0)

    assert key_with(1) != key_with(2)
    assert key_with(1) == key_with(1) != ""


def test_counted_once_per_version(home, source, scans):
    assert kept(source) == KEPT
    assert kept(source) == KEPT
    assert len(scans) == 1
    assert len(entries(home)) == 1
    FastParquetDataset(source, filters=pc.field("a") < 51)
    assert len(scans) == 2
    os.utime(source, ns=(1, 1))
    assert kept(source) == KEPT
    assert len(scans) == 3


def test_entries_of_another_way_of_finding_rows_are_not_used(home, source, scans, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(selection, "_VERSION", "1")
        kept(source)
    assert kept(source) == KEPT
    assert len(scans) == 2
    assert len(entries(home)) == 2


@pytest.mark.parametrize("at", [0, 9, 20, 40, -1])
def test_a_damaged_entry_is_counted_again(home, source, scans, at):
    kept(source)
    (path,) = entries(home)
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[at] ^= 0x10
    path.write_bytes(damaged)
    assert kept(source) == KEPT
    assert len(scans) == 2
    assert path.read_bytes() == whole


@pytest.mark.parametrize("size", [0, 5, 32, 60])
def test_a_short_entry_is_counted_again(home, source, scans, size):
    kept(source)
    (path,) = entries(home)
    path.write_bytes(path.read_bytes()[:size])
    assert kept(source) == KEPT
    assert len(scans) == 2


def test_an_entry_stays_if_it_cannot_be_opened_now(home, source, monkeypatch):
    kept(source)
    (path,) = entries(home)
    whole = path.read_bytes()

    def too_many(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("fastload.rows.selection._read", too_many)
    assert SelectionCache().load(path.stem) is None
    assert path.read_bytes() == whole


def test_an_entry_that_is_a_directory(home, source):
    kept(source)
    (path,) = entries(home)
    path.unlink()
    path.mkdir()
    (path / "x").touch()
    with pytest.warns(UserWarning, match="Can't keep the counts of filtered rows"):
        assert kept(source) == KEPT


def test_a_home_that_cannot_be(home, source, scans):
    home.write_text("a file")
    with pytest.warns(UserWarning, match="Can't keep the counts of filtered rows"):
        assert kept(source) == KEPT


def test_a_user_without_a_cache_directory(tmp_path, source, monkeypatch):
    monkeypatch.delenv("FASTLOAD_CACHE_DIR")
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert kept(source) == KEPT


def test_a_full_disk_is_told_once(home, tmp_path, monkeypatch):
    for i in range(3):
        pq.write_table(pa.table({"a": np.arange(1000)}), tmp_path / f"{i}.parquet")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fastload.rows.selection.publish", full)
    with pytest.warns(UserWarning, match="No space left") as warned:
        assert kept([tmp_path / f"{i}.parquet" for i in range(3)]) == KEPT * 3
    assert len(warned) == 1


def big_rows():
    rng = np.random.default_rng(3)
    bits = np.packbits(rng.random(10_000_000) < 0.5, bitorder="little")
    return pack_rows([17, int(np.unpackbits(bits).sum()), 0], [None, bits, None])


def same(first: FileRows, second: FileRows):
    return all(
        np.array_equal(getattr(first, name), getattr(second, name))
        for name in ("counts", "offsets", "bits")
    )


def test_large_entries_are_mapped(home):
    rows = big_rows()
    cache = SelectionCache()
    stored = cache.store("ab" * 16, rows)
    assert stored.mapped
    assert same(stored, rows)
    assert same(SelectionCache().load("ab" * 16), rows)
    assert SelectionCache().load("cd" * 16) is None


def test_a_pickle_of_what_is_mapped(home, tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "big.parquet"
    values = (rng.random(9_000_000) < 0.3).astype(np.int8)
    pq.write_table(pa.table({"a": values}), path, use_dictionary=False)
    dataset = FastParquetDataset(path, filters=pc.field("a") == 1, batch_size=2**20)
    pickled = pickle.dumps(dataset)
    assert len(pickled) < 200_000
    shutil.rmtree(home)
    again = pickle.loads(pickled)
    assert len(again) == len(dataset) == -(-int(values.sum()) // 2**20)
    assert all((batch["a"] == 1).all() for batch in again)


def count_in_process(source, results):
    results.put(kept(source) == KEPT)


def test_processes_share_entries(home, source):
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    processes = [context.Process(target=count_in_process, args=(source, results)) for _ in range(3)]
    for process in processes:
        process.start()
    assert all(results.get(timeout=120) for _ in processes)
    for process in processes:
        process.join()
    assert len(entries(home)) == 1
    assert "tmp" not in str([path.name for path in entries(home)])


def test_a_child_forked_meanwhile_does_not_hold_the_lock(home):
    cache = SelectionCache()
    with cache.lock("00" * 16):
        child = os.fork()
        if not child:
            time.sleep(60)
            os._exit(0)
    try:
        # Polls for ever while the child holds the lock.
        thread = threading.Thread(target=lambda: cache.lock("00" * 16).__enter__(), daemon=True)
        thread.start()
        thread.join(10)
        assert not thread.is_alive()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_the_lock_dies_with_its_holder(home, source):
    cache = SelectionCache()
    with cache.lock("00" * 16):
        pass
    with cache.lock("00" * 16):
        assert sys.platform == "linux"
