"""Units that are made of tokens: packed rows, and batches with a budget of tokens.

They need the lengths of a column's lists, found once for each version of a file and kept on disk.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from fastload.engine.stats import Documents
from fastload.errors import NullValueError
from fastload.plan.units.by_tokens import Tokens, TokenUnits
from fastload.plan.units.canonical import CanonicalUnits, slice_options
from fastload.plan.units.packed import PackedUnits, Packer, Packing
from fastload.plan.units.windows import Lengths
from fastload.rows.values.row_values import (
    ValueCache,
    keys_of_column,
    place_of,
    read_files,
    values_that_stay,
)
from fastload.runtime.background import BackgroundValue
from fastload.runtime.digest import digest
from fastload.runtime.native import core
from fastload.runtime.units import counted
from fastload.schema.fields import Field
from fastload.schema.leaves import FileLeaves
from fastload.schema.packs import Pack, TokenBudget, lists_of
from fastload.schema.projection import OutputPlan, Projection
from fastload.schema.sizes import survey

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fastload.plan.kept_rows import FileRows
    from fastload.plan.options import Options
    from fastload.plan.position import Position
    from fastload.plan.units.units import Units
    from fastload.rows.selection import EpochRows
    from fastload.rows.values.row_values import Values
    from fastload.schema.column_plan import ColumnPlan
    from fastload.source.source import Source
    from fastload.source.stores.io import IO

__all__ = [
    "batches_of_row",
    "lengths_of",
    "long_documents",
    "options_by_tokens",
    "rows_of_batch",
    "text_of",
    "text_of_batches",
    "token_units",
]

# The most characters of a column's name in a state, but for what says that it is cut.
_MOST_NAME = 200
# The version of the way lengths are found. Entries of another version are ignored.
_VERSION = "2"


def text_of(spec: Pack | TokenBudget) -> str:
    """Return a spec as text, for a state: all that decides which tokens form which batch."""
    if isinstance(spec, TokenBudget):
        return f"{spec.column}, {spec.tokens}, padded={spec.padded}, max_rows={spec.max_rows}"
    return f"{spec.output}, {spec.length}, fit={spec.fit}, long={spec.long}"


def options_by_tokens(
    spec: Pack | TokenBudget, projection: Projection, options: Options
) -> Options:
    """Return the parameters of a dataset that counts tokens.

    Args:
        spec: the way of packing, or the budget.
        projection: the projection, which has the lists that the spec counts.
        options: the dataset's parameters.

    Raises:
        ColumnNotFoundError, SchemaError: as for `lists_of`.
    """
    name = _counted(spec, projection).name
    if len(name) > _MOST_NAME:
        name = f"{name[:_MOST_NAME]}... #{digest(name)}"
    # One stream of documents in order is the same in windows of any size.
    in_windows = isinstance(spec, TokenBudget) or spec.fit == "best"
    return replace(options, tokens_of=name, forms_in_windows=in_windows)


def _find_lengths(
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
            # The footers tell of a column that a file lacks, and the message says more.
            if refusal := survey(FileLeaves(source), [column])[1]:
                raise NullValueError(refusal) from None
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


def lengths_of(
    spec: Pack | TokenBudget,
    source: Source,
    projection: Projection,
    rows: EpochRows,
    io: IO,
    memory_budget: int,
) -> Lengths:
    """Return the lengths of the lists that a spec counts; arguments as for `_find_lengths`.

    Raises:
        ValueError: `spec` refuses long lists, and there is one; the message names its place.
        Exception: as for `_find_lengths` and `lists_of`.
    """
    column = _counted(spec, projection)
    lengths = _find_lengths(source, column, rows, io, memory_budget)
    if spec.long == "raise":
        most = spec.tokens if isinstance(spec, TokenBudget) else spec.length
        _refuse_long(lengths, most, source, rows, spec)
    return lengths


def token_units(spec: Pack | TokenBudget, lengths: Lengths, options: Options) -> Units:
    """Return the units of a dataset that is packed, or has a budget of tokens.

    Args:
        spec: the way of packing, or the budget.
        lengths: the lengths of the lists that the spec counts.
        options: the dataset's parameters.
    """
    of_slice = slice_options(options)
    units: Units
    if isinstance(spec, Pack):
        packing = Packing(spec.length, spec.fit, spec.long)
        packer = Packer(core.pack_windows, core.split_window)
        units = PackedUnits(lengths, of_slice, packing, core.permutation, packer, BackgroundValue())
    else:
        limits = Tokens(spec.tokens, spec.padded, spec.max_rows)
        ways = core.permutation, core.batch_windows
        units = TokenUnits(lengths, of_slice, limits, *ways, BackgroundValue())
    if options.canonical_ranks is None:
        return units
    return CanonicalUnits(units, options.canonical_ranks)


def text_of_batches(spec: Pack | TokenBudget, batch_size: int) -> str:
    """Return what a batch holds as a user reads it.

    Args:
        spec: the way of packing, or the budget.
        batch_size: packed rows of a batch.
    """
    if isinstance(spec, Pack):
        return f"of {counted(batch_size, 'packed row')} of {counted(spec.length, 'token')}"
    text = f"of at most {counted(spec.tokens, 'token')}"
    if spec.padded:
        text += ", padding included"
    if spec.max_rows is not None:
        text += f", and {counted(spec.max_rows, 'row')}"
    return f"{text} of {spec.column}"


def long_documents(spec: Pack | TokenBudget | None, units: Units, position: Position) -> Documents:
    """Return what `long` of a Pack does to the long documents of an epoch.

    Args:
        spec: the way of packing, or the budget.
        units: the units of the dataset.
        position: a position in the epoch.
    """
    if not isinstance(spec, Pack) or spec.long == "raise":
        return Documents()
    of_slices = units.units if isinstance(units, CanonicalUnits) else units
    assert isinstance(of_slices, PackedUnits)
    number = of_slices.long_documents(position.seed, position.epoch)
    what = {"split": "split", "truncate": "truncated", "drop": "dropped"}[spec.long]
    return Documents(**{what: number})


def rows_of_batch(spec: Pack | TokenBudget, lengths: Lengths, batch_size: int) -> int:
    """Return about how many rows of the files a batch takes, at least 1.

    Args:
        spec: the way of packing, or the budget.
        lengths: the lengths of the lists that the spec counts.
        batch_size: packed rows of a batch.
    """
    tokens = spec.tokens if isinstance(spec, TokenBudget) else spec.length * batch_size
    mean = float(lengths.values.mean()) if len(lengths.values) else 1.0
    rows = max(1, int(tokens / max(1.0, mean)))
    if isinstance(spec, TokenBudget) and spec.max_rows is not None:
        rows = min(rows, spec.max_rows)
    return min(rows, max(1, len(lengths.values)))


def batches_of_row(spec: Pack | TokenBudget, lengths: Lengths, batch_size: int) -> int:
    """Return the number of batches that a row of the files fills on average, at least 1.

    Args:
        spec: the way of packing, or the budget.
        lengths: the lengths of the lists that the spec counts.
        batch_size: packed rows of a batch.
    """
    if not isinstance(spec, Pack) or spec.long != "split" or not len(lengths.values):
        return 1
    return max(1, math.ceil(float(lengths.values.mean()) / (spec.length * batch_size)))


def _output(spec: Pack | TokenBudget) -> str:
    """Return the name of the output whose tokens a spec counts."""
    return spec.column if isinstance(spec, TokenBudget) else spec.output


def _counted(spec: Pack | TokenBudget, projection: Projection) -> ColumnPlan:
    """Return the plan of the column whose lists a spec counts; raises as `lists_of` does."""
    plan = lists_of(projection, _output(spec), type(spec).__name__)
    return projection.columns[plan.columns[0]]


def _refuse_long(
    lengths: Lengths, most: int, source: Source, rows: EpochRows, spec: Pack | TokenBudget
) -> None:
    long = np.flatnonzero(lengths.values > most)
    if not len(long):
        return
    row = int(long[0])
    remedy = 'TokenBudget(long="alone") makes each of these a batch of its own'
    if isinstance(spec, Pack):
        remedy = 'long="split", "truncate" or "drop" of Pack takes them'
    raise ValueError(
        f"Expected lists of at most {most} tokens, got {len(long)} longer ones, the first of "
        f"{int(lengths.values[row])} tokens ({remedy}) - at {place_of(row, source, rows)}, column "
        f"`{_output(spec)}`"
    )
