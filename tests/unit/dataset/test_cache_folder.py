"""The folder of prepared rows in a cache: who takes room for its files, and who keeps them."""

import contextlib
import fcntl
import gc
import os
import threading

import pytest

from fastload import Cache
from fastload.dataset.preparing.cache_folder import CacheFolder, PreparedTier
from fastload.dataset.preparing.errors import UnpreparableError
from fastload.runtime.disk.entries import USED_BY, make_room

KEY, NAME = "ab" * 16, "part-00000.parquet"


@pytest.fixture
def tier(tmp_path):
    return PreparedTier(Cache(tmp_path / "cache"))


def write(folder, data):
    with folder.claimed(NAME) as mine, folder.publish(NAME) as file:
        assert mine
        file.write(data)


def test_room_is_taken_for_each_byte(tier, monkeypatch):
    taken = []
    monkeypatch.setattr(PreparedTier, "take_room", lambda _, nbytes: taken.append(nbytes))
    folder = CacheFolder(tier, KEY, {})
    write(folder, b"rows")
    assert sum(taken) == os.stat(os.path.join(folder.path, NAME)).st_size == 4


def test_without_room_nothing_is_written(tier, monkeypatch):
    def refuse(_, nbytes):
        raise UnpreparableError(f"no room for {nbytes}")

    monkeypatch.setattr(PreparedTier, "take_room", refuse)
    folder = CacheFolder(tier, KEY, {})
    with pytest.raises(UnpreparableError, match="no room for 4"):
        write(folder, b"rows")
    assert sorted(os.listdir(folder.path)) == ["object.json", USED_BY]


def test_a_folder_in_use_stays_also_without_files(tier):
    folder = CacheFolder(tier, KEY, {})
    make_room([tier.directory], 0)
    assert sorted(os.listdir(folder.path)) == ["object.json", USED_BY]
    write(folder, b"rows")
    make_room([tier.directory], 0)
    assert folder.has(NAME)
    folder.close()
    make_room([tier.directory], 0)
    assert not os.path.exists(folder.path)


def test_a_process_that_looks_for_users_for_a_moment_is_waited_for(tier):
    CacheFolder(tier, KEY, {}).close()
    other = os.open(os.path.join(tier.path(KEY), USED_BY), os.O_RDWR)
    fcntl.flock(other, fcntl.LOCK_EX)
    looking = threading.Timer(0.1, os.close, [other])
    looking.start()
    folder = CacheFolder(tier, KEY, {})
    looking.join()
    write(folder, b"rows")
    make_room([tier.directory], 0)
    assert folder.has(NAME)


def in_use(tier):
    """Return the open descriptors of files in the tier's directory."""
    links = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the descriptor of the listing itself
            links.append(os.readlink(f"/proc/self/fd/{number}"))
    return [link for link in links if link.startswith(os.path.realpath(tier.directory))]


def test_a_folder_that_is_dropped_is_no_longer_in_use(tier):
    folder = CacheFolder(tier, KEY, {})
    write(folder, b"rows")
    assert in_use(tier)
    del folder
    gc.collect()
    assert not in_use(tier)
    make_room([tier.directory], 0)
    assert not os.path.exists(tier.path(KEY))
