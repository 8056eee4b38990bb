"""The lengths of the lists of a column: found once for each version of a file, kept on disk."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from fastload.errors import NullValueError
from fastload.plan.units.windows import Lengths
from fastload.rows.values.row_values import (
    ValueCache,
    keys_of_column,
    read_files,
    values_that_stay,
)
from fastload.runtime.digest import digest
from fastload.schema.fields import Field
from fastload.schema.projection import OutputPlan, Projection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fastload.plan.kept_rows import FileRows
    from fastload.rows.selection import EpochRows
    from fastload.rows.values.row_values import Values
    from fastload.schema.column_plan import ColumnPlan
    from fastload.source.source import Source
    from fastload.source.stores.io import IO

__all__ = ["find_lengths"]

# The version of the way lengths are found. Entries of another version are ignored.
_VERSION = "2"


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
        NullValueError: a list of a row that stays is null, and the column has no fill.
        ValueError: a list has 2**32 elements or more.
    """
    asked = digest(_VERSION, column.name, str(column.null_lists))
    keys = keys_of_column(asked, column, source)
    output = OutputPlan("length", "length", (0,), Field(torch.int64), length=2**62)
    projection = Projection((replace(column, lengths_only=True),), (output,), 8, 0)
    cache = ValueCache("lengths", "the lengths of lists", b"FLLENS01", "u", (1, 2, 4))

    def found(keys: Sequence[str], stay: EpochRows | None = None) -> list[Values]:
        def read(files: Sequence[int]) -> Iterator[Values]:
            return map(_narrow, read_files(source, projection, files, io, memory_budget, stay))

        return cache.found(keys, "measured lists of", read)

    try:
        lengths = values_that_stay(found(keys), source, rows.files)
    except NullValueError:
        if not rows.files:
            raise
        # The null list may lie in a row that does not stay.
        kept = [digest(key, *_bytes(file)) for key, file in zip(keys, rows.files, strict=True)]
        lengths = found(kept, rows)
    nothing = np.zeros(0, np.uint32)
    return Lengths(rows.row_groups, np.concatenate([nothing, *lengths], dtype=np.uint32))


def _bytes(rows: FileRows) -> tuple[bytes, ...]:
    return rows.counts.tobytes(), rows.offsets.tobytes(), rows.bits.tobytes()


def _narrow(lengths: Values) -> Values:
    most = int(lengths.max(initial=0))
    if most >= 2**32:
        raise ValueError(f"Expected lists of fewer than 2**32 elements, got one of {most}")
    for dtype in (np.uint8, np.uint16):
        if most <= np.iinfo(dtype).max:
            return lengths.astype(dtype)
    return lengths.astype(np.uint32)
