"""Values on disk."""

import os
import time

import numpy as np

from fastload.rows.values.row_values import ValueCache
from fastload.runtime.disk.private_directory import remove_abandoned_once, remove_unused_once


def test_files_of_killed_writers_are_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(tmp_path))
    cache = ValueCache("values", "Values", b"fastload", "u", (4,))
    left = tmp_path / "values" / ".new-left"
    left.parent.mkdir(mode=0o700, exist_ok=True)
    left.write_bytes(b"half")
    os.utime(left, (0, 0))
    remove_abandoned_once.cache_clear()  # as in the next process
    cache.store("key", np.arange(3, dtype=np.uint32))
    assert [path.name for path in left.parent.iterdir()] == ["key"]
    assert cache.load("key").tolist() == [0, 1, 2]


def test_values_that_nobody_asked_for_in_a_month_are_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(tmp_path))
    cache = ValueCache("values", "Values", b"fastload", "u", (4,))
    month_ago = time.time() - 31 * 24 * 3600
    for key in ("asked", "unasked"):
        cache.store(key, np.arange(3, dtype=np.uint32))
        os.utime(tmp_path / "values" / key, (month_ago, month_ago))
    assert cache.load("asked") is not None
    remove_unused_once.cache_clear()  # as in the next process
    cache.store("later", np.arange(3, dtype=np.uint32))
    assert sorted(path.name for path in (tmp_path / "values").iterdir()) == ["asked", "later"]
