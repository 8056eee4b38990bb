"""Blocks that are damaged, cut, taken away, or can't be written."""

from __future__ import annotations

import itertools
import os
import resource
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastload import Cache, CacheError, CorruptFileError, FastParquetDataset
from fastload.engine.cache.entry_writer import EntryWriter
from fastload.engine.cache.store import BlockStore
from fastload.runtime._core import check_block
from fastload.runtime.disk import cache as cache_module
from fastload.runtime.disk.cache import DECODED
from fastload.runtime.disk.entries import entries_of, remove_all, used_bytes
from fastload.source.stores.io import IO
from support.damage import flip

ROWS, GROUP_ROWS = 8_000, 1_000


def plus(block):
    return {"y": block["i"] + 1}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("faults") / "a.parquet"
    table = pa.table({"i": np.arange(ROWS), "s": [f"word {i % 99}" for i in range(ROWS)]})
    pq.write_table(table, path, row_group_size=GROUP_ROWS)
    return path


def read(path, cache, **options):
    """All rows; how many blocks were made."""
    before = {entry.path: identity(entry) for entry in blocks(cache)}
    with FastParquetDataset(path, preprocess=plus, cache=cache, **options) as dataset:
        batches = list(dataset)
    rows = sorted(itertools.chain.from_iterable(batch["i"].tolist() for batch in batches))
    assert all((batch["y"] == batch["i"] + 1).all() for batch in batches)
    for batch in batches:
        assert batch["s"].tolist() == [f"word {i % 99}" for i in batch["i"].tolist()]
    made = [entry for entry in blocks(cache) if before.get(entry.path) != identity(entry)]
    return rows, len(made)


def blocks(cache):
    directory = cache.path if isinstance(cache, Cache) else Path(cache)
    return sorted(entries_of(directory / DECODED), key=lambda entry: int(entry.name.split("-")[0]))


def identity(entry):
    status = os.stat(entry.path)
    return status.st_ino, status.st_ctime_ns


DAMAGES = {
    "magic": lambda path: flip(path, 0),
    "schema": lambda path: flip(path, 100),
    "a value": lambda path: flip(path, path.stat().st_size // 2),
    "the footer": lambda path: flip(path, -100),
    "its length": lambda path: flip(path, -8),
    "the last bit": lambda path: flip(path, -1),
    "the end is missing": lambda path: os.truncate(path, path.stat().st_size - 1),
    "half is missing": lambda path: os.truncate(path, path.stat().st_size // 2),
    "all is missing": lambda path: os.truncate(path, 0),
    "more at the end": lambda path: path.write_bytes(path.read_bytes() + b"ARROW1"),
}


def test_damage_is_found_and_made_anew(path, tmp_path):
    expected = list(range(ROWS))
    assert read(path, tmp_path) == (expected, 8)
    for damage in DAMAGES.values():
        hurt = blocks(tmp_path)
        for entry in hurt:
            data = Path(entry.path).read_bytes()
            os.unlink(entry.path)  # who has it mapped keeps it
            Path(entry.path).write_bytes(data)
            damage(Path(entry.path))
        assert read(path, tmp_path) == (expected, 8)
        assert all(check_block(e.path, f"{e.object}/{e.name}") for e in blocks(tmp_path))
        assert read(path, tmp_path, shuffle=True) == (expected, 0)


def test_every_flipped_bit_is_found(path, tmp_path):
    read(path, tmp_path)
    entry = blocks(tmp_path)[0]
    name, data = f"{entry.object}/{entry.name}", Path(entry.path).read_bytes()
    choice = np.random.default_rng(0)
    for at in {*range(0, len(data), 997), *range(len(data) - 400, len(data), 3)}:
        hurt = bytearray(data)
        hurt[at] ^= 1 << int(choice.integers(8))
        Path(entry.path).write_bytes(hurt)
        assert check_block(entry.path, name) is False, at
        assert not os.path.exists(entry.path)
    Path(entry.path).write_bytes(data)
    assert check_block(entry.path, name) is True
    assert check_block(entry.path, name + "x") is False


def test_a_block_in_the_place_of_another(path, tmp_path):
    read(path, tmp_path)
    contents = [Path(entry.path).read_bytes() for entry in blocks(tmp_path)]
    for entry, other in zip(blocks(tmp_path), contents[1:] + contents[:1], strict=True):
        os.unlink(entry.path)
        Path(entry.path).write_bytes(other)
    assert read(path, tmp_path) == (list(range(ROWS)), 8)


def test_entries_taken_away_under_a_pass(path, tmp_path):
    with FastParquetDataset(path, preprocess=plus, cache=tmp_path, batch_size=100) as dataset:
        for _ in range(2):
            batches = iter(dataset)
            rows = next(batches)["i"].tolist()
            remove_all(tmp_path / DECODED)
            for entry in blocks(tmp_path):
                os.unlink(entry.path)
            for batch in batches:
                rows += batch["i"].tolist()
            assert rows == list(range(ROWS))


@pytest.fixture
def told(monkeypatch):
    monkeypatch.setattr(cache_module, "_warned", set())


@pytest.mark.parametrize("options", [{}, {"shuffle": True, "shuffle_window": 1500}], ids=str)
def test_a_full_disk_turns_it_off_with_one_warning(path, tmp_path, told, options):
    with FastParquetDataset(path, preprocess=plus, batch_size=300, **options) as dataset:
        expected = [batch["i"].tolist() for batch in dataset]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with (
        FastParquetDataset(
            path, preprocess=plus, cache=tmp_path, batch_size=300, **options
        ) as dataset,
        warnings.catch_warnings(record=True) as record,
    ):
        warnings.simplefilter("always")
        batches = iter(dataset)
        got = [next(batches)["i"].tolist()]
        resource.setrlimit(resource.RLIMIT_FSIZE, (6_000, limits[1]))
        try:
            got += [batch["i"].tolist() for batch in batches]
            again = sum(batch.rows for batch in dataset)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (got, again) == (expected, ROWS)
    assert len(record) <= 1
    assert all("File too large" in str(each.message) for each in record)
    assert not list(tmp_path.rglob("*.part"))
    assert read(path, tmp_path)[0] == list(range(ROWS))


def test_a_full_disk_is_told_when_all_rows_were_in_memory(path, tmp_path, told):
    """The pass is over before the first write fails; closing tells the failure."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6_000, limits[1]))
    try:
        with pytest.warns(UserWarning, match="File too large") as record:
            assert read(path, tmp_path) == (list(range(ROWS)), 0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert len(record) == 1
    assert not list(tmp_path.rglob("*.part"))


def read_until_warned(dataset):
    """Rows are written behind the pass: passes may end before the first write fails."""
    while not cache_module._warned:
        assert sum(batch.rows for batch in dataset) == ROWS


def test_warming_after_a_full_disk_names_the_failure(path, tmp_path, told):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with FastParquetDataset(path, preprocess=plus, cache=tmp_path, shuffle=True) as dataset:
        resource.setrlimit(resource.RLIMIT_FSIZE, (6_000, limits[1]))
        try:
            with pytest.warns(UserWarning, match="File too large"):
                read_until_warned(dataset)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        with pytest.raises(CacheError, match=r"File too large.*make the dataset again"):
            dataset.warm_cache(progress=False)
        with FastParquetDataset(path, preprocess=plus, cache=tmp_path, shuffle=True) as again:
            again.warm_cache(progress=False)
    assert read(path, tmp_path)[0] == list(range(ROWS))


def test_a_directory_that_can_not_be_made(path, tmp_path, told):
    (tmp_path / "file").write_text("")
    with pytest.warns(UserWarning, match="Can't keep more in the cache") as record:
        rows, _ = read(path, tmp_path / "file" / "cache")
    assert rows == list(range(ROWS))
    assert len(record) == 1


def test_room_that_was_taken_is_no_part_of_a_block(path, tmp_path):
    cache = Cache(tmp_path / "limited", max_bytes="1GB")
    assert read(path, tmp_path / "all") == read(path, cache) == (list(range(ROWS)), 8)
    for one, other in zip(blocks(tmp_path / "all"), blocks(cache), strict=True):
        assert Path(one.path).read_bytes() == Path(other.path).read_bytes()


def test_no_less_is_counted_than_is_written(tmp_path):
    """Of many record batches with many columns, whose heads are not small."""
    table = pa.table({f"x{i}": np.zeros(8_000, np.float32) for i in range(500)})
    pq.write_table(table, tmp_path / "a.parquet")
    cache = Cache(tmp_path / "cache", max_bytes="1GB")
    with FastParquetDataset(tmp_path / "a.parquet", cache=cache, memory_budget="64MB") as dataset:
        assert sum(batch.rows for batch in dataset) == 8_000
    (entry,) = blocks(cache)
    with pa.memory_map(entry.path) as file:
        assert pa.ipc.open_file(file).num_record_batches > 10
    counted = int((cache.path / "used").read_text())
    assert used_bytes(cache.path / DECODED) <= counted < 1.1 * used_bytes(cache.path / DECODED)


def test_it_keeps_to_its_bytes(path, tmp_path, told):
    read(path, tmp_path / "all")
    every = used_bytes(tmp_path / "all" / DECODED)
    some = Cache(tmp_path / "some", max_bytes=int(0.6 * every))
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        for options in ({}, {"shuffle": True}, {}):
            assert read(path, some, **options)[0] == list(range(ROWS))
            assert 0 < used_bytes(some.path / DECODED) <= 0.6 * every
    assert len(record) <= 1
    # What another dataset has left makes room.
    with FastParquetDataset(path, columns=["i"], cache=some) as dataset:
        assert sum(batch.rows for batch in dataset) == ROWS
    assert used_bytes(some.path / DECODED) <= 0.6 * every


def test_what_another_format_left_is_not_read(path, tmp_path):
    read(path, tmp_path)
    (tmp_path / DECODED).rename(tmp_path / "decoded-0")
    assert read(path, tmp_path) == (list(range(ROWS)), 8)
    assert used_bytes(tmp_path / "decoded-0") > 0


def test_a_process_that_hangs_is_not_waited_for(path, tmp_path, told):
    read(path, tmp_path)
    names = [f"{entry.object}/{entry.name}" for entry in blocks(tmp_path)]
    remove_all(tmp_path / DECODED)
    store = BlockStore(Cache(tmp_path))
    held = [EntryWriter.lock(store, name) for name in names]
    assert all(held)
    with pytest.warns(UserWarning, match="another process holds"):
        rows, made = read(path, tmp_path, io=IO(timeout_s=0.3))
    assert (rows, made) == (list(range(ROWS)), 0)
    for lock in held:
        lock.__exit__()
    assert read(path, tmp_path) == (list(range(ROWS)), 8)


def test_a_process_that_holds_a_lock_for_a_moment_is_waited_for(path, tmp_path, told, monkeypatch):
    """Its file has vanished by the time of the first look: the file was published or evicted."""
    locked, seen = EntryWriter.lock, set()

    def lock(store, name):
        if name in seen:
            return locked(store, name)
        return seen.add(name)

    monkeypatch.setattr(EntryWriter, "lock", lock)
    assert read(path, tmp_path) == (list(range(ROWS)), 8)


def test_entries_that_can_not_be_opened(path, tmp_path, told):
    """A link stands for what the system refuses to open, which root can't be refused."""
    read(path, tmp_path)
    for entry in blocks(tmp_path)[4:]:
        os.rename(entry.path, entry.path + ".moved")
        os.symlink(entry.path + ".moved", entry.path)
    with pytest.warns(
        UserWarning, match="Can't keep decoded rows in the cache: Too many levels"
    ) as record:
        rows, made = read(path, tmp_path)
    assert (rows, made) == (list(range(ROWS)), 0)
    assert len(record) == 1


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_corrupt_row_group(path, tmp_path, on_error):
    hurt = tmp_path / "hurt.parquet"
    data = bytearray(path.read_bytes())
    chunk = pq.ParquetFile(path).metadata.row_group(3).column(0)
    at = chunk.dictionary_page_offset or chunk.data_page_offset
    data[at : at + 40] = b"\xff" * 40
    hurt.write_bytes(data)
    options = {"preprocess": plus, "batch_size": 250, "on_error": on_error, "uneven": "pad"}
    found = []
    for cache in (None, tmp_path / "cache"):
        with FastParquetDataset(hurt, cache=cache, **options) as dataset:
            if on_error == "raise":
                batches = iter(dataset)
                head = [next(batches)["i"].tolist() for _ in range(4)]
                with pytest.raises(CorruptFileError, match="row group 3") as raised:
                    list(batches)
                found.append((head, str(raised.value)))
            else:
                with pytest.warns(UserWarning, match="Row group 3"):
                    got = [(b["y"].tolist(), b["__valid__"].tolist()) for b in dataset]
                found.append((got, dataset.skipped))
    assert found[0] == found[1]


def test_kills():
    program = Path(__file__).with_name("decoded_kills.py")
    run = [sys.executable, str(program), "--kills", "15"]
    subprocess.run(run, check=True, timeout=60)
