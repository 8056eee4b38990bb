"""The right to write an entry of a cache, and the entry, which appears as a whole."""

import multiprocessing
import os
import signal

import pytest

from fastload.runtime.disk.entry_file import EntryFile, is_entry

NAME, PART = "part-00000.parquet", ".part-00000.parquet.part"


@pytest.fixture
def entry(tmp_path):
    """The path of an entry, whose directory is missing."""
    return tmp_path / "ab" / "cd" / NAME


def write(claimed, data):
    with claimed.opened() as file:
        file.write(data)


def test_an_entry_appears_when_it_is_published(entry):
    claimed = EntryFile.claim(str(entry))
    assert EntryFile.claim(str(entry)) is None
    write(claimed, b"rows that are replaced")
    write(claimed, b"rows")
    assert not is_entry(entry)
    claimed.publish()
    assert entry.read_bytes() == b"rows"
    claimed.close()
    assert os.listdir(entry.parent) == [NAME]
    assert EntryFile.claim(str(entry)) is None
    assert os.listdir(entry.parent) == [NAME]


def test_a_file_that_is_not_published_is_removed(entry):
    claimed = EntryFile.claim(str(entry))
    write(claimed, b"rows")
    claimed.close()
    assert os.listdir(entry.parent) == []
    EntryFile.claim(str(entry)).close()


def write_and_die(entry):
    write(EntryFile.claim(str(entry)), b"half of the rows")
    os.kill(os.getpid(), signal.SIGKILL)


def test_what_a_dead_process_left_is_written_anew(entry):
    child = multiprocessing.get_context("fork").Process(target=write_and_die, args=(entry,))
    child.start()
    child.join()
    left = entry.parent / PART
    assert left.stat().st_size
    claimed = EntryFile.claim(str(entry))
    assert left.stat().st_size == 0
    write(claimed, b"rows")
    claimed.publish()
    claimed.close()
    assert entry.read_bytes() == b"rows"


def test_an_entry_that_exists_is_not_written_again(entry):
    entry.parent.mkdir(parents=True)
    entry.write_bytes(b"rows")
    (entry.parent / PART).write_bytes(b"half of the rows")
    assert EntryFile.claim(str(entry)) is None
    assert os.listdir(entry.parent) == [NAME]


@pytest.mark.parametrize("put", ["link", "dangling link", "pipe"])
def test_what_is_no_file_makes_way(entry, put):
    entry.parent.mkdir(parents=True)
    target = entry.parent / "target"
    if put == "link":
        target.write_bytes(b"of someone else")
    if put == "pipe":
        os.mkfifo(entry)
    else:
        entry.symlink_to(target)
    claimed = EntryFile.claim(str(entry))
    write(claimed, b"rows")
    claimed.publish()
    claimed.close()
    assert entry.read_bytes() == b"rows"
    assert not entry.is_symlink()
    assert put != "link" or target.read_bytes() == b"of someone else"


def test_the_unfinished_file_is_no_link(entry):
    entry.parent.mkdir(parents=True)
    target = entry.parent / "target"
    target.write_bytes(b"of someone else")
    (entry.parent / PART).symlink_to(target)
    with pytest.raises(OSError, match="symbolic links"):
        EntryFile.claim(str(entry))
    assert target.read_bytes() == b"of someone else"


def test_a_new_file_is_not_truncated(entry, monkeypatch):
    """ext4 would begin to write it to disk as soon as it is closed."""
    monkeypatch.setattr(os, "ftruncate", None)
    EntryFile.claim(str(entry)).close()
