"""The lengths of the lists of a column: found once for each version of a file, kept on disk.

An entry on disk holds the lengths of one file's rows, as the narrowest unsigned integers that hold
them, after a head of 24 bytes: magic, bytes of an integer, number of rows, and the CRC-32 of the
rest. An entry is published by an atomic rename and never changes.
"""

from __future__ import annotations

import contextlib
import struct
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from fastload.engine.budget import divide_budget
from fastload.engine.engine import Engine
from fastload.engine.work_units import work_units
from fastload.plan.options import Options
from fastload.plan.read_plan import read_plan
from fastload.plan.sequence import RowGroups
from fastload.plan.units import Lengths
from fastload.rows.selection import key_of_file
from fastload.runtime.cores import available_cores
from fastload.runtime.digest import digest
from fastload.runtime.disk.private_directory import CacheDirectory, publish
from fastload.runtime.progress import ProgressLine
from fastload.schema.fields import Field
from fastload.schema.projection import OutputPlan, Projection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from fastload.plan.kept_rows import FileRows
    from fastload.rows.epoch_rows import EpochRows
    from fastload.schema.column_plan import ColumnPlan
    from fastload.source.source import Source
    from fastload.source.stores.io import IO

__all__ = ["find_lengths"]

# The version of the way lengths are found. Entries of another version are ignored.
_VERSION = "1"
_MAGIC = b"FLLENS01"
_HEAD = struct.Struct("<8sIqI")
_BATCH_ROWS = 1 << 16
# Most memory while lengths are found.
_MOST_BYTES = 1 << 30


def find_lengths(
    source: Source, column: ColumnPlan, rows: EpochRows, io: IO, memory_budget: int
) -> Lengths:
    """Return the lengths of a column's lists for the rows that stay.

    Levels and offsets are read, values are not decoded.

    Args:
        source: the files.
        column: the column, whose lists have a depth of 1.
        rows: the rows that stay.
        io: the options for reading files.
        memory_budget: the bytes that this process may use.

    Raises:
        CorruptFileError, StorageError, SourceChangedError: a file can't be read.
        NullValueError: a list is null, and the column has no fill.
        ValueError: a list has 2**32 elements or more.
    """
    cache = _LengthCache()
    asked = digest(_VERSION, column.name, str(column.null_lists))
    keys = [key_of_file(asked, file) for file in source.files]
    found = [cache.load(key) for key in keys]
    missing = [index for index, lengths in enumerate(found) if lengths is None]
    if missing:
        progress = ProgressLine("measured lists of", len(source.files), "files")
        read = _read(source, column, missing, io, memory_budget)
        for done, (index, lengths) in enumerate(zip(missing, read, strict=True)):
            found[index] = lengths
            cache.store(keys[index], lengths)
            progress.show(len(source.files) - len(missing) + done + 1)
    kept = [
        lengths.astype(np.uint32) if not rows.files else _selected(lengths, file, rows.files[i])
        for i, (lengths, file) in enumerate(zip(found, _rows_of_files(source), strict=True))
        if lengths is not None
    ]
    return Lengths(rows.row_groups, np.concatenate([np.zeros(0, np.uint32), *kept]))


def _rows_of_files(source: Source) -> list[Sequence[int]]:
    """Return the rows of each row group of each file."""
    rows = source.row_group_rows
    ends = np.searchsorted(source.row_group_file, np.arange(len(source.files)), side="right")
    starts = np.append(0, ends[:-1]) if len(ends) else ends
    return [rows[a:b].tolist() for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]


def _selected(
    lengths: NDArray[np.unsignedinteger], row_groups: Sequence[int], kept: FileRows
) -> NDArray[np.uint32]:
    """Return the lengths of the rows of one file that stay."""
    parts = [np.zeros(0, np.uint32)]
    at = 0
    for rows, count, offset in zip(
        row_groups, kept.counts.tolist(), kept.offsets.tolist(), strict=True
    ):
        of_group = lengths[at : at + rows]
        at += rows
        if count == rows:
            parts.append(of_group.astype(np.uint32))
        elif count:
            mask = np.unpackbits(
                kept.bits[offset : offset + -(-rows // 8)], count=rows, bitorder="little"
            )
            parts.append(of_group[mask.view(np.bool_)].astype(np.uint32))
    return np.concatenate(parts)


def _read(
    source: Source, column: ColumnPlan, files: Sequence[int], io: IO, memory_budget: int
) -> Iterator[NDArray[np.unsignedinteger]]:
    """Yield the lengths in each file."""
    among = np.isin(source.row_group_file, files)
    row_groups = RowGroups(
        source.row_group_rows[among],
        source.row_group_file[among],
        source.row_group_index[among],
    )
    rows = np.bincount(
        row_groups.file, weights=row_groups.rows, minlength=len(source.files)
    ).astype(np.int64)[files]
    output = OutputPlan("length", "length", (0,), Field(torch.int64), length=2**62)
    projection = Projection((replace(column, lengths_only=True),), (output,), 8, 0)
    budget = divide_budget(
        min(memory_budget, _MOST_BYTES),
        batch_size=_BATCH_ROWS,
        row_bytes=8,
        staged_row_bytes=0,
        total_rows=row_groups.total_rows,
        shuffle_window=None,
        columns=1,
        work=work_units(projection.outputs),
        threads=available_cores(),
        prefetch=4,
        once=True,
    )
    options = Options(batch_size=_BATCH_ROWS, uneven="keep")
    plan = read_plan(row_groups, options, 0, (), 1, 0, stripe_rows=budget.stripe_rows)
    with (
        contextlib.closing(
            Engine(source, projection, projection.outputs, budget, io, data=False)
        ) as engine,
        contextlib.closing(engine.start(plan, _BATCH_ROWS)) as scan,
    ):
        batches = _batches(engine, scan)
        left = np.zeros(0, np.int64)
        for count in rows.tolist():
            parts = [left]
            have = len(left)
            while have < count:
                batch = next(batches)
                parts.append(batch)
                have += len(batch)
            together = np.concatenate(parts)
            left = together[count:]
            yield _narrow(together[:count])


def _batches(engine: Engine, scan: object) -> Iterator[NDArray[np.int64]]:
    while (lent := engine.next_of(scan)) is not None:  # type: ignore[arg-type]
        yield engine.batch_of(lent, None)[0]["length"].numpy().copy()


def _narrow(lengths: NDArray[np.int64]) -> NDArray[np.unsignedinteger]:
    most = int(lengths.max(initial=0))
    if most >= 2**32:
        raise ValueError(f"Expected lists of fewer than 2**32 elements, got one of {most}")
    for dtype in (np.uint8, np.uint16):
        if most <= np.iinfo(dtype).max:
            return lengths.astype(dtype)
    return lengths.astype(np.uint32)


class _LengthCache:
    """A directory of entries. Without a directory, and after the first failure, nothing is kept."""

    def __init__(self) -> None:
        self._home = CacheDirectory(
            "lengths",
            "the lengths of lists",
            "they stay in memory and are found again next time",
        )

    def load(self, key: str) -> NDArray[np.unsignedinteger] | None:
        """Return the lengths of an entry; None if there is no undamaged one."""
        if self._home.path is None:
            return None
        try:
            content = (self._home.path / key).read_bytes()
        except OSError:
            return None
        if len(content) >= _HEAD.size:
            magic, width, rows, crc = _HEAD.unpack_from(content)
            body = content[_HEAD.size :]
            sound = magic == _MAGIC and width in (1, 2, 4) and len(body) == width * rows
            if sound and zlib.crc32(body) == crc:
                return np.frombuffer(body, f"<u{width}")
        with contextlib.suppress(OSError):
            (self._home.path / key).unlink()
        return None

    def store(self, key: str, lengths: NDArray[np.unsignedinteger]) -> None:
        """Write an entry."""
        if self._home.path is None:
            return
        body = lengths.astype(lengths.dtype.newbyteorder("<")).tobytes()
        head = _HEAD.pack(_MAGIC, lengths.itemsize, len(lengths), zlib.crc32(body))
        try:
            with publish(self._home.path / key) as file:
                file.writelines([head, body])
        except OSError as error:
            self._home.give_up(error)
