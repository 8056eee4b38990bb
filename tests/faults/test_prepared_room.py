"""Prepared rows that can't be written: a full disk, too few bytes, other processes."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from fastload import Cache, CacheError, FastParquetDataset
from fastload.runtime.disk.cache import PREPARED
from fastload.runtime.disk.entries import USED_BY, remove_all, used_bytes
from fastload.runtime.disk.entry_file import EntryFile
from fastload.tools.cli.cache_report import verify
from prepared_parts import (
    PARTS,
    ROWS,
    SLOWLY,
    assert_no_warning,
    checked,
    counted,
    garbage,
    one_warning,
    parts,
    plus,
    read,
    use_small_parts,
    write_rows,
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_rows(tmp_path_factory.mktemp("faults") / "a.parquet")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    use_small_parts(monkeypatch)
    yield
    assert_no_warning()


@contextmanager
def full_disk():
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Python would leave a cut file of the code of a module that is imported now.
    writes_code, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        sys.dont_write_bytecode = writes_code


@pytest.mark.parametrize("options", [{}, {"shuffle": True, "shuffle_window": 1500}], ids=str)
def test_a_full_disk_turns_it_off_with_one_warning(path, tmp_path, options):
    options = {"batch_size": 300, **options}
    with FastParquetDataset(path, preprocess=plus, **options) as dataset:
        expected = [checked(dataset), checked(dataset)]
    with FastParquetDataset(path, preprocess=plus, cache=tmp_path, **options) as dataset:
        with full_disk(), one_warning("File too large"):
            assert checked(dataset) == expected[0]
        assert checked(dataset) == expected[1]
        with pytest.raises(CacheError, match="got: File too large"):
            dataset.warm_cache(progress=False)
    assert not list(tmp_path.rglob("*.part*"))
    with FastParquetDataset(path, preprocess=plus, cache=tmp_path, **options) as dataset:
        dataset.warm_cache(progress=False)
    assert len(parts(tmp_path)) == PARTS
    assert read(path, tmp_path) == (list(range(ROWS)), 0)


def test_a_disk_that_fills_up_in_the_middle_of_a_pass(path, tmp_path):
    """A part that was damaged then can't be made anew."""
    with FastParquetDataset(path, preprocess=plus, cache=tmp_path, **SLOWLY) as dataset:
        batches = iter(dataset)
        rows = checked([next(batches)])
        garbage(parts(tmp_path)[2])
        with full_disk(), one_warning("File too large"):
            assert rows + checked(batches) == list(range(ROWS))


def a_directory_for_a_part(cache):
    part = parts(cache)[1]
    part.unlink()
    part.mkdir()


def a_link_for_the_mark_of_use(cache):
    mark = parts(cache)[0].with_name(USED_BY)
    mark.unlink()
    mark.symlink_to("elsewhere")


def a_file_for_the_folder(cache):
    folder = parts(cache)[0].parent
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    folder.write_text("")


@pytest.mark.parametrize(
    ("spoil", "cause"),
    [
        (a_directory_for_a_part, "Is a directory"),
        (a_link_for_the_mark_of_use, "Too many levels of symbolic links"),
        (a_file_for_the_folder, "File exists"),
    ],
)
def test_what_can_not_be_used_is_left_alone_with_one_warning(path, tmp_path, spoil, cause):
    read(path, tmp_path)
    spoil(tmp_path)
    with one_warning(cause):
        for _ in range(2):
            assert read(path, tmp_path)[0] == list(range(ROWS))


def test_a_directory_that_can_not_be_made(path, tmp_path):
    (tmp_path / "file").write_text("")
    with one_warning("Not a directory", "Can't keep more in the cache"):
        assert read(path, tmp_path / "file" / "cache") == (list(range(ROWS)), 0)


def bytes_of(path, directory):
    """The bytes on disk of all prepared rows."""
    read(path, directory)
    return used_bytes(directory / PREPARED)


def test_too_few_max_bytes(path, tmp_path):
    """Parts that fit are kept, and no more bytes are on disk at any time."""
    most = int(0.6 * bytes_of(path, tmp_path / "all"))
    some = Cache(tmp_path / "some", max_bytes=most, key="measured")
    seen = []

    def measured(block):
        seen.append(used_bytes(some.path / PREPARED))
        return plus(block)

    with one_warning(f"max_bytes={most} leave no room for all prepared rows"):
        for options in ({}, {"shuffle": True}):
            with FastParquetDataset(path, preprocess=measured, cache=some, **options) as dataset:
                assert sorted(checked(dataset)) == list(range(ROWS))
                with pytest.raises(CacheError, match=f"got: max_bytes={most} leave no room"):
                    dataset.warm_cache(progress=False)
    assert 0 < max(seen) <= most
    assert 0 < used_bytes(some.path / PREPARED) <= most
    assert not verify(some, progress=False)["damaged"]


def test_unused_rows_make_room_and_rows_in_use_do_not(path, tmp_path):
    most = int(1.5 * bytes_of(path, tmp_path / "all"))
    cache = Cache(tmp_path / "cache", max_bytes=most)

    def other(block):
        return {"y": block["i"] + 1, "z": block["i"]}

    def of_other():
        with FastParquetDataset(path, preprocess=other, columns=["i", "s"], cache=cache) as dataset:
            assert checked(dataset) == list(range(ROWS))

    with FastParquetDataset(path, preprocess=plus, cache=cache, **SLOWLY) as dataset:
        batches = iter(dataset)
        rows = checked([next(batches)])
        with one_warning(f"max_bytes={most} leave no room"), counted(cache) as made:
            of_other()
        assert len(parts(cache)) == PARTS + len(made)
        assert rows + checked(batches) == list(range(ROWS))
    with counted(cache) as made:
        of_other()
    assert made
    assert len({part.parent for part in made}) == 1
    assert len([part for part in parts(cache) if part.parent == made[0].parent]) == PARTS
    assert used_bytes(cache.path / PREPARED) <= most
    assert read(path, cache)[0] == list(range(ROWS))


def test_what_another_format_left_is_not_read(path, tmp_path):
    read(path, tmp_path)
    (tmp_path / PREPARED).rename(tmp_path / "prepared-0")
    assert read(path, tmp_path) == (list(range(ROWS)), PARTS)
    assert used_bytes(tmp_path / "prepared-0") > 0


def test_the_parts_of_a_killed_process_are_taken_over(path, tmp_path):
    """While the process lives, others wait for its parts."""
    read(path, tmp_path)
    names = parts(tmp_path)
    remove_all(tmp_path / PREPARED)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        claims = [EntryFile.claim(os.fspath(name)) for name in names[1:3]]
        os.write(claims[0]._descriptor, b"half a part")
        os.write(writer, b"x" if all(claims) else b"")
        os.close(writer)
        time.sleep(60)
        os._exit(1)
    os.close(writer)
    assert os.read(reader, 1) == b"x"
    os.close(reader)
    killed = []

    def kill():
        while len(parts(tmp_path)) < PARTS - 2:  # those that it does not hold
            time.sleep(0.01)
        killed.append(len(parts(tmp_path)))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)

    thread = threading.Thread(target=kill)
    thread.start()
    assert read(path, tmp_path) == (list(range(ROWS)), PARTS)
    thread.join()
    assert killed == [PARTS - 2]
    assert not list(tmp_path.rglob("*.part"))


def test_kills():
    program = Path(__file__).with_name("prepared_kills.py")
    run = [sys.executable, str(program), "--kills", "15"]
    subprocess.run(run, check=True, timeout=60)
