"""The lock of an entry of the decoded tier."""

import os

from fastload.engine.cache.entry_lock import EntryLock, part_of


def test_what_a_dead_process_left_is_removed(tmp_path):
    left = tmp_path / part_of("0-ab.arrow")
    left.write_bytes(b"half of a block")
    with EntryLock.of(str(tmp_path / "0-ab.arrow")):
        assert left.stat().st_size == 0
    assert not left.exists()


def test_a_new_file_is_not_truncated(tmp_path, monkeypatch):
    """ext4 would begin to write it to disk as soon as it is closed."""
    monkeypatch.setattr(os, "ftruncate", None)
    with EntryLock.of(str(tmp_path / "ab" / "0-ab.arrow")) as lock:
        assert os.fstat(lock.descriptor).st_size == 0
