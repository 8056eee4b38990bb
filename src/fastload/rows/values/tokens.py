"""Units that are made of tokens: packed rows, and batches with a budget of tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fastload.engine.stats import Documents
from fastload.plan.units.by_tokens import Tokens, TokenUnits
from fastload.plan.units.canonical import CanonicalUnits
from fastload.plan.units.packed import PackedUnits
from fastload.plan.units.packing import Packing
from fastload.rows.values.lengths import find_lengths
from fastload.runtime.native import core
from fastload.runtime.units import counted
from fastload.schema.packs import Pack, TokenBudget, lists_of

if TYPE_CHECKING:
    from fastload.plan.options import Options
    from fastload.plan.position import Position
    from fastload.plan.units.units import Units
    from fastload.plan.units.windows import Lengths
    from fastload.rows.epoch_rows import EpochRows
    from fastload.schema.projection import Projection
    from fastload.source.source import Source
    from fastload.source.stores.io import IO

__all__ = [
    "lengths_of",
    "long_documents",
    "rows_of_batch",
    "text_of",
    "text_of_batches",
    "token_units",
]


def text_of(spec: Pack | TokenBudget) -> str:
    """Return a spec as text, for a state: all that decides which tokens form which batch."""
    if isinstance(spec, TokenBudget):
        return f"{spec.column}, {spec.tokens}, padded={spec.padded}, max_rows={spec.max_rows}"
    return f"{spec.output}, {spec.length}, fit={spec.fit}, long={spec.long}"


def lengths_of(
    spec: Pack | TokenBudget,
    source: Source,
    projection: Projection,
    rows: EpochRows,
    io: IO,
    memory_budget: int,
) -> Lengths:
    """Return the lengths of the lists that a spec counts; arguments as for `find_lengths`.

    Raises:
        ValueError: `spec` refuses long lists, and there is one; the message names its place.
        Exception: as for `find_lengths` and `lists_of`.
    """
    name = spec.column if isinstance(spec, TokenBudget) else spec.output
    assert isinstance(name, str)
    plan = lists_of(projection, name, type(spec).__name__)
    column = projection.columns[plan.columns[0]]
    lengths = find_lengths(source, column, rows, io, memory_budget)
    if spec.long == "raise":
        most = spec.tokens if isinstance(spec, TokenBudget) else spec.length
        _refuse_long(lengths, most, source, name)
    return lengths


def token_units(
    spec: Pack | TokenBudget, lengths: Lengths, options: Options
) -> PackedUnits | TokenUnits:
    """Return the units of a dataset that is packed, or has a budget of tokens.

    Args:
        spec: the way of packing, or the budget.
        lengths: the lengths of the lists that the spec counts.
        options: the dataset's parameters.
    """
    if isinstance(spec, Pack):
        packing = Packing(spec.length, spec.fit, spec.long)
        return PackedUnits(lengths, options, packing, permute, core.pack_best)
    limits = Tokens(spec.tokens, spec.padded, spec.max_rows)
    return TokenUnits(lengths, options, limits, permute)


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


def permute(count: int, key: int) -> np.ndarray:
    """Return the permutation of 0 .. count-1 that a key names, uint32 (count,)."""
    return core.permutation(key, count)


def _refuse_long(lengths: Lengths, most: int, source: Source, name: str) -> None:
    long = np.flatnonzero(lengths.values > most)
    if not len(long):
        return
    row = int(long[0])
    groups = lengths.row_groups
    ends = np.cumsum(groups.rows)
    group = int(np.searchsorted(ends, row, side="right"))
    selected = row - int(ends[group] - groups.rows[group])
    row_of = "row" if groups.stored is None else "selected row"
    raise ValueError(
        f"Expected lists of at most {most} tokens, got {len(long)} longer ones, the first of "
        f"{int(lengths.values[row])} tokens (long= says what else becomes of them) - at "
        f"{source.files[int(groups.file[group])].path}, row group {int(groups.index[group])}, "
        f"{row_of} {selected}, column `{name}`"
    )
