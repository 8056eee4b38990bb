"""Directories that only their user may write to, and files that appear in one step."""

import contextlib
import os
import time

import pytest

from fastload.errors import CacheError
from fastload.runtime.disk.private_directory import (
    UNFINISHED,
    CacheDirectory,
    mark_used,
    open_directory,
    open_private,
    publish,
    remove_abandoned_once,
    remove_unused_once,
)


def test_a_file_appears_when_the_block_ends(tmp_path):
    path = tmp_path / "a"
    with publish(path) as file:
        file.writelines([b"1", memoryview(b"2")])
        assert not path.exists()
        assert [each.name.startswith(UNFINISHED) for each in tmp_path.iterdir()] == [True]
    assert path.read_bytes() == b"12"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_stays_as_it_was_when_the_block_raises(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with contextlib.suppress(KeyboardInterrupt), publish(path) as file:
        file.write(b"new")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_files_of_killed_writers_are_removed_after_a_day(tmp_path):
    old, fresh, other = (tmp_path / name for name in (".new-old", ".new-fresh", "old"))
    for path in (old, fresh, other):
        path.write_bytes(b"half")
    for path in (old, other):
        os.utime(path, (0, 0))
    remove_abandoned_once(tmp_path)
    assert sorted(tmp_path.iterdir()) == [fresh, other]
    old.write_bytes(b"half")
    os.utime(old, (0, 0))
    remove_abandoned_once(tmp_path)
    assert old.exists()  # a process looks once


def test_a_directory_is_made_for_its_user_alone(tmp_path):
    path = open_directory(tmp_path / "cache", "tier")
    assert path == tmp_path / "cache" / "tier"
    assert path.stat().st_mode & 0o777 == 0o700
    assert open_private(path) == path


def test_a_directory_of_others_is_refused(tmp_path, monkeypatch):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o770)
    with pytest.raises(CacheError, match=r"only its user may write to, got .*drwxrwx---.*shared"):
        open_private(shared)
    link = tmp_path / "link"
    link.symlink_to(open_private(tmp_path / "own"))
    with pytest.raises(CacheError, match="only its user may write to, got one with mode l"):
        open_private(link)
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(CacheError, match=r"of user \d+, got one of user \d+: name .* - at .*cache"):
        open_directory(tmp_path / "cache", "tier")


def test_a_home_of_others_keeps_nothing(tmp_path):
    shared = tmp_path / "footers"
    shared.mkdir()
    shared.chmod(0o777)
    message = "Can't keep footers: Expected a directory that only its user may write to, .*; again"
    with pytest.warns(UserWarning, match=message):
        assert CacheDirectory("footers", "footers", "again", tmp_path).path is None


def test_files_that_nobody_used_for_a_month_are_removed(tmp_path):
    used, unused, other = (tmp_path / "aa" / name for name in ("used.rows", "old.rows", "lock"))
    unused.parent.mkdir()
    month_ago = time.time() - 31 * 24 * 3600
    for path in (used, unused, other):
        path.write_bytes(b"rows")
        os.utime(path, (month_ago, month_ago))
    mark_used(used)
    noted = used.stat().st_mtime
    mark_used(used)
    assert used.stat().st_mtime == noted  # once a day is enough
    mark_used(tmp_path / "gone")
    remove_unused_once(tmp_path, "*/*.rows")
    assert sorted(unused.parent.iterdir()) == [other, used]
