"""A file of rows whose prepared parts tests damage, read and count."""

from __future__ import annotations

import os
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fastload import Cache, FastParquetDataset
from fastload.plan import parts as plan_parts
from fastload.runtime.disk import cache as cache_module
from fastload.runtime.disk.cache import PREPARED
from fastload.runtime.disk.entries import entries_of

ROWS, GROUP_ROWS, PARTS = 8_000, 1_000, 4
# Row after row, nothing ahead: what is damaged in the middle of a pass was not read yet.
SLOWLY = {"batch_size": 100, "threads": 0, "prefetch": 0}


def plus(block):
    return {"y": block["i"] + 1}


def write_rows(path):
    table = pa.table({"i": np.arange(ROWS), "s": [f"word {i % 99}" for i in range(ROWS)]})
    pq.write_table(table, path, row_group_size=GROUP_ROWS)
    return path


def use_small_parts(monkeypatch):
    """Have two row groups make a part, and forget which caches a warning was given of."""
    parts_of = plan_parts.parts_of

    def of(row_groups, row_bytes):
        monkeypatch.setattr(plan_parts, "_PART_BYTES", ROWS // PARTS * row_bytes)
        return parts_of(row_groups, row_bytes)

    for name in ("prepared", "preparation"):
        monkeypatch.setattr(f"fastload.dataset.preparing.{name}.parts_of", of)
    monkeypatch.setattr(cache_module, "_warned", set())


def parts(cache):
    directory = cache.path if isinstance(cache, Cache) else Path(cache)
    found = sorted(entries_of(directory / PREPARED), key=lambda entry: (entry.object, entry.name))
    return [Path(entry.path) for entry in found]


def identity(path):
    status = os.lstat(path)
    return status.st_ino, status.st_ctime_ns


@contextmanager
def counted(cache):
    """Yield a list, which the end of the block fills with the paths of the parts made in it."""
    before = {part: identity(part) for part in parts(cache)}
    made = []
    yield made
    made += [part for part in parts(cache) if before.get(part) != identity(part)]


def checked(batches):
    """The rows of batches, whose values are right."""
    rows = []
    for batch in batches:
        rows += batch["i"].tolist()
        assert (batch["y"] == batch["i"] + 1).all()
        assert batch["s"].tolist() == [f"word {i % 99}" for i in batch["i"].tolist()]
    return rows


def read(path, cache, **options):
    """All rows, sorted; how many parts were made."""
    with (
        counted(cache) as made,
        FastParquetDataset(path, preprocess=plus, cache=cache, **options) as dataset,
    ):
        rows = sorted(checked(dataset))
    return rows, len(made)


def overwrite_page(path, row_group):
    """Write bytes that no reader accepts as a page."""
    data = bytearray(path.read_bytes())
    column = pq.ParquetFile(path).metadata.row_group(row_group).column(0)
    at = column.dictionary_page_offset or column.data_page_offset
    data[at : at + 40] = b"\xff" * 40
    path.write_bytes(data)


def garbage(path):
    overwrite_page(path, pq.ParquetFile(path).metadata.num_row_groups - 1)


def garbage_at_the_end(path):
    data = bytearray(path.read_bytes())
    at = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    data[at : at + 40] = b"\xff" * 40
    path.write_bytes(data)


@contextmanager
def one_warning(cause, what="Can't prepare rows in the cache"):
    """Expect one warning, of a cache that can't be used."""
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        yield
    (message,) = [str(each.message) for each in record]
    assert message.startswith(what)
    assert cause in message
    if what.startswith("Can't prepare"):
        assert "Cache(directory, prepared=False) turns prepared rows, and this warning" in message
    cache_module._warned.clear()


def assert_no_warning():
    """Where warnings are errors, that of a pass is printed, and the pass goes on."""
    assert not cache_module._warned, "a cache was given up"
