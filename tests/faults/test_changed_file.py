"""A file that is no longer the one whose footer was read."""

import os
import shutil

import pytest

from fastload import FastParquetDataset, SourceChangedError
from support.sample_files import write_sample

ROWS = 5000


@pytest.fixture
def path(tmp_path):
    return write_sample(tmp_path / "sample.parquet", ROWS, 500)


def replace_by_rename(path):
    other = write_sample(f"{path}.new", ROWS, 400)
    os.replace(other, path)


def replace_by_same_size(path):
    shutil.copyfile(path, f"{path}.new")
    os.replace(f"{path}.new", path)
    os.utime(path, ns=(1, 1))


def rewrite(path):
    write_sample(path, ROWS + 1, 500)


def truncate(path):
    os.truncate(path, os.path.getsize(path) // 2)


def empty(path):
    os.truncate(path, 0)


def append(path):
    with open(path, "ab") as file:
        file.write(b"more")


CHANGES = [replace_by_rename, replace_by_same_size, rewrite, truncate, empty, append]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("threads", [0, 2])
def test_changed_before_the_first_pass(path, change, threads):
    with FastParquetDataset(path, threads=threads) as dataset:
        change(path)
        with pytest.raises(SourceChangedError, match=r"Expected .*, got .*sample\.parquet"):
            list(dataset)


@pytest.mark.parametrize("threads", [0, 2])
def test_removed_before_the_first_pass(path, threads):
    with FastParquetDataset(path, threads=threads) as dataset:
        os.remove(path)
        with pytest.raises((SourceChangedError, OSError), match=r"sample\.parquet"):
            list(dataset)


@pytest.mark.parametrize("threads", [0, 2])
def test_truncated_while_it_is_read(path, threads):
    """An open file shrinks: an error, not zeros and not SIGBUS."""
    with FastParquetDataset(
        path, batch_size=100, threads=threads, memory_budget="300KB", prefetch=0
    ) as dataset:
        running = iter(dataset)
        rows = next(running)["id"].tolist()
        truncate(path)
        with pytest.raises(SourceChangedError, match=r"sample\.parquet"):
            rows.extend(row for batch in running for row in batch["id"].tolist())
    assert rows == list(range(len(rows)))


def test_removed_while_it_is_read(path):
    """An open file stays readable, and is the one that was planned."""
    with FastParquetDataset(path, batch_size=100, threads=2) as dataset:
        running = iter(dataset)
        rows = next(running)["id"].tolist()
        os.remove(path)
        for batch in running:
            rows += batch["id"].tolist()
    assert rows == list(range(ROWS))
