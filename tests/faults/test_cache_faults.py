"""A cache that is damaged, full, too small or of others' making never makes a pass wrong."""

from __future__ import annotations

import itertools
import os
import resource
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from fastload import IO, Cache, CacheError, FastParquetDataset
from fastload.runtime._core import RangeCache, check_range
from fastload.runtime.disk.cache import RAW
from fastload.runtime.disk.entries import entries_of, make_room, remove_all, used_bytes
from fastload.source.stores import raw_tier
from support.damage import flip
from support.stored_dataset import FILES, assert_same

COLUMNS = ["c3", "c14", "s"]


@pytest.fixture(scope="module")
def expected(paths):
    with FastParquetDataset([str(path) for path in paths], columns=COLUMNS) as dataset:
        return list(dataset)


def remote(server, cache, timeout_s=30.0, **options):
    cache = replace(cache if isinstance(cache, Cache) else Cache(cache), prepared=False)
    io = IO(transport="fsspec", hole_bytes=4096, timeout_s=timeout_s)
    return FastParquetDataset(
        "gs://bucket/train/", columns=COLUMNS, io=io, storage_options=server.options,
        cache=cache, **options,
    )  # fmt: skip


def read(server, cache, **options):
    """The batches, and how many requests of data they took."""
    server.reset()
    with remote(server, cache, **options) as dataset:
        batches = list(dataset)
    return batches, sum(request.range is not None for request in server.requests)


DAMAGES = {
    "a bit of the magic number": lambda path: flip(path, 0),
    "a bit of the range": lambda path: flip(path, 9),
    "a bit of the object": lambda path: flip(path, 25),
    "a bit of the checksum": lambda path: flip(path, 60),
    "the first bit": lambda path: flip(path, 64),
    "the last bit": lambda path: flip(path, -1),
    "the end is missing": lambda path: os.truncate(path, path.stat().st_size - 1),
    "all is missing": lambda path: os.truncate(path, 0),
    "more at the end": lambda path: path.write_bytes(path.read_bytes() + b"x"),
}


def test_damage_is_found_and_fetched_anew(server, expected, tmp_path):
    raw = tmp_path / RAW
    _, asked = read(server, tmp_path)
    for damage in DAMAGES.values():
        for entry in entries_of(raw):
            damage(Path(entry.path))
        batches, again = read(server, tmp_path)
        assert_same(batches, expected)
        # Segments and whole requests are cut in other ways.
        assert again >= asked / 2
        assert all(check_range(str(raw), each.object, *each.range) for each in entries_of(raw))
        batches, again = read(server, tmp_path)
        assert_same(batches, expected)
        assert again == 0
    # While it is read, too; what this process has checked it trusts.
    with remote(server, tmp_path, shuffle=True, shuffle_window=2000) as dataset:
        batches = iter(dataset)
        next(batches)
        remove_all(raw)
        assert sum(1 for _ in batches) + 1 == len(expected)


def test_an_entry_in_the_place_of_another_is_damage(server, expected, tmp_path):
    read(server, tmp_path)
    entries = [Path(entry.path) for entry in entries_of(tmp_path / RAW)]
    for one, other in itertools.pairwise(entries):
        one.write_bytes(other.read_bytes())
    batches, asked = read(server, tmp_path)
    assert_same(batches, expected)
    assert asked > 0


def test_what_another_format_left_is_not_read(server, expected, tmp_path):
    _, asked = read(server, tmp_path)
    (tmp_path / RAW).rename(tmp_path / "raw-0")
    batches, again = read(server, tmp_path)
    assert_same(batches, expected)
    assert again == asked
    assert used_bytes(tmp_path / "raw-0") > 0


def warned(record):
    return [w for w in record if "Can't keep more in the cache" in str(w.message)]


def test_a_full_disk_turns_it_off_with_one_warning(server, expected, tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        resource.setrlimit(resource.RLIMIT_FSIZE, (16_000, limits[1]))
        try:
            batches, _ = read(server, tmp_path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert_same(batches, expected)
    assert len(warned(record)) == 1
    assert "File too large" in str(warned(record)[0].message)
    assert warned(record)[0].filename == raw_tier.__file__  # a thread of the tier has no caller
    # No half of an entry is left, and what there is can be gone on with.
    assert not list(tmp_path.rglob("*.part"))
    assert_same(read(server, tmp_path)[0], expected)
    assert read(server, tmp_path)[1] == 0


def test_warming_again_after_a_full_disk_names_the_failure(server, tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with remote(server, tmp_path) as dataset:
        dataset._source.storage.flush()  # what a thread has yet to write of the files' footers
        resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, limits[1]))
        try:
            with (
                pytest.warns(UserWarning, match="Can't keep more in the cache"),
                pytest.raises(CacheError, match="got less: see the warning"),
            ):
                dataset.warm_cache(progress=False)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        with pytest.raises(CacheError, match=r"^Can't keep more in the cache: File too large"):
            dataset.warm_cache(progress=False)


def test_no_directory_turns_it_off_with_one_warning(server, expected, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.warns(UserWarning, match="Can't keep more in the cache") as record:
        batches, asked = read(server, tmp_path / "file" / "cache")
    assert_same(batches, expected)
    assert len(warned(record)) == 1
    assert asked > 0


def test_it_keeps_to_its_bytes(server, expected, tmp_path):
    read(server, tmp_path / "all")
    every = used_bytes(tmp_path / "all" / RAW)
    most = int(0.6 * every)
    cache = Cache(tmp_path / "some", max_bytes=most)
    for _ in range(3):
        batches, asked = read(server, cache, shuffle=True, shuffle_window=2000)
        assert len(batches) == len(expected)
        assert 0 < used_bytes(cache.path / RAW) <= most
        assert asked > 0
    tiny = Cache(tmp_path / "tiny", max_bytes=4096)
    assert_same(read(server, tiny)[0], expected)
    assert used_bytes(tiny.path / RAW) <= (1 + 2 * FILES) * 4096  # its directories
    assert not list(entries_of(tiny.path / RAW))


def publish(ranges, start, stop, name="ab/" + "0" * 32):
    claim = ranges.claim(name, start, stop)
    assert claim is not None
    return claim.publish(bytes(stop - start))


def test_what_was_not_used_for_longest_makes_room(tmp_path):
    ranges = RangeCache(str(tmp_path))
    name = "ab/" + "0" * 32
    sizes = [publish(ranges, i * 10_000, (i + 1) * 10_000) for i in range(6)]
    (tmp_path / name / "notes").write_text("of the user")
    for number, entry in enumerate(sorted(entries_of(tmp_path), key=lambda each: each.range)):
        os.utime(entry.path, ns=(0, number))
    # To ask for it is to use it, by whichever process.
    assert RangeCache(str(tmp_path)).covers(name, 0, 10_000)
    before = used_bytes(tmp_path)
    left, removed = make_room([tmp_path], before - sum(sizes[:3]))
    assert (left, len(removed)) == (before - sum(sizes[:3]), 3)
    kept = sorted(entry.range[0] // 10_000 for entry in entries_of(tmp_path))
    assert kept == [0, 4, 5]
    assert remove_all(tmp_path) == 3
    assert (tmp_path / name / "notes").exists()


def test_a_killed_filler_is_followed_by_another(tmp_path):
    """A live one is waited for, and not for ever."""
    script = (
        "import sys, time; from fastload.runtime._core import RangeCache\n"
        "claim = RangeCache(sys.argv[1]).claim('ab/' + '0' * 32, 0, 100)\n"
        "print(claim is not None, flush=True); time.sleep(60)"
    )
    arguments = [sys.executable, "-c", script, str(tmp_path)]
    ranges = RangeCache(str(tmp_path))
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "True\n"
        assert ranges.claim("ab/" + "0" * 32, 0, 100) is None
        assert ranges.claim("ab/" + "0" * 32, 0, 101) is not None
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    publish(ranges, 0, 100)
    assert ranges.claim("ab/" + "0" * 32, 0, 100) is None
    assert ranges.read("ab/" + "0" * 32, 20, 100) == bytes(80)


def test_a_filler_that_hangs_is_not_waited_for(server, expected, tmp_path):
    read(server, tmp_path)
    entries = list(entries_of(tmp_path / RAW))
    remove_all(tmp_path / RAW)
    ranges = RangeCache(str(tmp_path / RAW))
    held = [ranges.claim(each.object, *each.range) for each in entries]
    assert all(held)
    start = time.monotonic()
    batches, asked = read(server, tmp_path, timeout_s=0.5)
    assert_same(batches, expected)
    assert asked > 0
    assert time.monotonic() - start < 20


@pytest.mark.parametrize("name", ["cache_kills.py", "footer_kills.py"])
def test_kills(name):
    program = Path(__file__).with_name(name)
    run = [sys.executable, str(program), "--kills", "10"]
    subprocess.run(run, check=True, timeout=60)
