"""The writer of an entry of the decoded tier."""

import os

from fastload import Cache
from fastload.engine.cache.entry_writer import EntryWriter
from fastload.engine.cache.store import BlockStore

NAME = "ab/cd/0-ab.arrow"


def test_what_a_dead_process_left_is_removed(tmp_path):
    store = BlockStore(Cache(tmp_path))
    left = store.directory / "ab" / "cd" / ".0-ab.arrow.part"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half of a block")
    with EntryWriter.lock(store, NAME):
        assert left.stat().st_size == 0
        assert EntryWriter.lock(store, NAME) is None
    assert not left.exists()


def test_an_entry_that_exists_is_not_written_again(tmp_path):
    store = BlockStore(Cache(tmp_path))
    entry = store.directory / NAME
    entry.parent.mkdir(parents=True)
    entry.write_bytes(b"a block")
    assert EntryWriter.lock(store, NAME) is None
    assert os.listdir(entry.parent) == [entry.name]


def test_a_new_file_is_not_truncated(tmp_path, monkeypatch):
    """ext4 would begin to write it to disk as soon as it is closed."""
    monkeypatch.setattr(os, "ftruncate", None)
    with EntryWriter.lock(BlockStore(Cache(tmp_path)), NAME) as writer:
        assert os.fstat(writer.descriptor).st_size == 0
