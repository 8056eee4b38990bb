"""What a cache takes on disk stays below `max_bytes`, whoever fills it."""

from __future__ import annotations

import os
import shutil

import pytest

from fastload import Cache
from fastload.runtime._core import RangeCache
from fastload.runtime.disk.cache import RAW
from fastload.runtime.disk.entries import make_room, used_bytes
from fastload.runtime.disk.tier import Quota

PIECE = 40_000
OBJECT = "ab/" + "0" * 32


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path, max_bytes=100_000)


@pytest.fixture
def ranges(cache):
    (cache.path / RAW).mkdir(parents=True)
    return RangeCache(str(cache.path / RAW))


def claimed(ranges, number):
    claim = ranges.claim(OBJECT, number * PIECE, (number + 1) * PIECE)
    assert claim is not None
    return claim


def test_what_others_are_about_to_write_counts(cache, ranges):
    one, two, three = (claimed(ranges, number) for number in range(3))
    assert Quota(cache).take(PIECE, one.descriptor, first=False)
    # Another process counts anew, and finds nothing written.
    other = Quota(cache)
    assert os.fstat(one.descriptor).st_blocks == 0
    assert other.take(PIECE, two.descriptor, first=False)
    assert not other.take(PIECE, three.descriptor, first=False)
    assert os.fstat(three.descriptor).st_size == 0
    one.publish(bytes(PIECE))
    two.publish(bytes(PIECE))
    assert ranges.read(OBJECT, 0, 2 * PIECE) == bytes(2 * PIECE)
    assert used_bytes(cache.path / RAW) <= 100_000
    # Now one of these makes room.
    assert other.take(PIECE, three.descriptor, first=False)
    three.publish(bytes(PIECE))
    assert used_bytes(cache.path / RAW) <= 100_000
    assert ranges.read(OBJECT, 2 * PIECE, 3 * PIECE) == bytes(PIECE)


def test_processes_count_together_after_the_cache_was_removed(cache, ranges):
    old, new = Quota(cache), Quota(cache)
    assert old.take(PIECE, claimed(ranges, 0).descriptor, first=False)
    shutil.rmtree(cache.path)
    (cache.path / RAW).mkdir(parents=True)
    for number, quota in enumerate((new, old, new, old)):
        claim = claimed(ranges, number)
        assert quota.take(PIECE, claim.descriptor, first=False)
        claim.publish(bytes(PIECE))
        assert used_bytes(cache.path / RAW) <= 100_000


def test_what_was_about_to_be_written_and_was_given_up_makes_room(cache, ranges):
    quota = Quota(cache)
    for _ in range(10):
        claim = claimed(ranges, 0)
        assert quota.take(PIECE, claim.descriptor, first=False)
        claim.release()
    assert not list(cache.path.rglob("*.part"))


def test_what_a_killed_process_was_about_to_write_is_removed(cache, ranges):
    claim = claimed(ranges, 0)
    assert Quota(cache).take(PIECE, claim.descriptor, first=False)
    part = next(cache.path.rglob(".*.part"))
    claim.release()
    before = used_bytes(cache.path)
    part.write_bytes(b"")
    os.truncate(part, PIECE)
    assert used_bytes(cache.path) >= before + PIECE
    assert make_room([cache.path / RAW], 1 << 30)[0] <= before
    assert not part.exists()


def test_an_entry_that_appears_while_it_is_counted(cache, ranges, monkeypatch):
    claim = claimed(ranges, 0)
    assert Quota(cache).take(PIECE, claim.descriptor, first=False)
    before = used_bytes(cache.path)
    lstat = os.lstat

    def publish_first(path):
        if str(path).endswith(".part"):
            claim.publish(bytes(PIECE))
        return lstat(path)

    monkeypatch.setattr(os, "lstat", publish_first)
    assert used_bytes(cache.path) == before


def test_without_a_limit_nothing_is_counted(tmp_path):
    assert Quota(Cache(tmp_path)).take(1 << 60, -1, first=True)
    assert not list(tmp_path.iterdir())
