"""A file that is no longer the one whose footer was read."""

import os
import shutil
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastload import Cache, FastParquetDataset, SourceChangedError
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
        with pytest.raises(SourceChangedError, match=r"sample\.parquet"):
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


def write_numbers(path, first, rows):
    """Write numbers in place; files of other numbers have the same layout and size."""
    table = pa.table({"x": np.arange(first, first + rows)})
    options = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    pq.write_table(table, path, row_group_size=10_000, **options)


def rewrite_in_place(path):
    size, inode = os.path.getsize(path), os.stat(path).st_ino
    time.sleep(0.02)  # coarse clocks of file systems tick every few milliseconds
    write_numbers(path, 1 << 40, pq.read_metadata(path).num_rows)
    assert (os.path.getsize(path), os.stat(path).st_ino) == (size, inode)


@pytest.fixture
def numbers(tmp_path):
    path = str(tmp_path / "numbers.parquet")
    write_numbers(path, 0, 100_000)
    return path


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize("options", [{"threads": 0}, {"threads": 2, "shuffle": True}])
def test_rewritten_in_place_while_it_is_read(numbers, on_error, options):
    write_numbers(numbers, 0, 2_000_000)  # far more than is read ahead
    options = options | {"prefetch": 0, "memory_budget": "8MB", "shuffle_window": 10_000}
    with FastParquetDataset(numbers, batch_size=100, on_error=on_error, **options) as dataset:
        running = iter(dataset)
        seen = [int(next(running)["x"].max())]
        rewrite_in_place(numbers)
        with pytest.raises(SourceChangedError, match=r"modified since - at .*numbers\.parquet"):
            seen.extend(int(batch["x"].max()) for batch in running)
        assert not dataset.skipped
    assert max(seen) < 1 << 40


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("change", [rewrite_in_place, os.remove])
def test_changed_between_passes(numbers, on_error, prefetch, change):
    """The change is noticed, even if the next pass has been read ahead."""
    with FastParquetDataset(
        numbers, batch_size=1000, threads=2, prefetch=prefetch, on_error=on_error
    ) as dataset:
        assert sum(len(batch["x"]) for batch in dataset) == 100_000
        change(numbers)
        for _ in range(2):
            with pytest.raises(SourceChangedError, match=r"numbers\.parquet"):
                list(dataset)


def test_rewritten_in_place_before_rows_are_cached(numbers, tmp_path):
    with FastParquetDataset(numbers, cache=Cache(tmp_path / "cache")) as dataset:
        rewrite_in_place(numbers)
        with pytest.raises(SourceChangedError, match=r"numbers\.parquet"):
            list(dataset)
    with FastParquetDataset(numbers, cache=Cache(tmp_path / "cache")) as dataset:
        assert min(batch["x"].min().item() for batch in dataset) == 1 << 40


@pytest.mark.parametrize("filters", [[("x", ">=", 0)], [("x", "in", [5, 6])]])
def test_rewritten_in_place_before_rows_are_found(numbers, filters):
    with FastParquetDataset(numbers, filters=filters, uneven="keep") as dataset:
        rewrite_in_place(numbers)
        with pytest.raises(SourceChangedError, match=r"numbers\.parquet"):
            list(dataset)


def test_another_inode_is_a_change_if_the_footer_differs(tmp_path):
    path = str(tmp_path / "numbers.parquet")
    pq.write_table(pa.table({"x": [1, 2, 3]}), path)
    status = os.stat(path)
    with FastParquetDataset(path) as dataset:
        pq.write_table(pa.table({"x": [1, 2, 4]}), f"{path}.new")
        assert os.path.getsize(f"{path}.new") == status.st_size
        os.utime(f"{path}.new", ns=(status.st_atime_ns, status.st_mtime_ns))
        os.replace(f"{path}.new", path)
        with pytest.raises(SourceChangedError, match=r"another file of the same size .*numbers"):
            list(dataset)


def test_another_inode_with_the_same_footer_is_the_same_file(numbers):
    """File systems over a network may change the inodes of files that stay the same."""
    with FastParquetDataset(numbers) as dataset:
        shutil.copy2(numbers, f"{numbers}.new")
        os.replace(f"{numbers}.new", numbers)
        assert sum(len(batch["x"]) for batch in dataset) == 100_000


def test_kept_footers_are_not_those_of_a_replaced_file(tmp_path, monkeypatch):
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(tmp_path / "cache"))
    directory = tmp_path / "d"
    directory.mkdir()
    for number in range(300):
        pq.write_table(pa.table({"x": [1, 2, 3]}), directory / f"{number:03}.parquet")
        os.utime(directory / f"{number:03}.parquet", ns=(1, 1))

    def total():
        with FastParquetDataset(directory) as dataset:
            return sum(int(batch["x"].sum()) for batch in dataset)

    assert total() == 300 * 6
    path = directory / "007.parquet"
    size = path.stat().st_size
    pq.write_table(pa.table({"x": [1, 2, 4]}), path)
    os.utime(path, ns=(1, 1))
    assert path.stat().st_size == size
    assert total() == 300 * 6 + 1
