"""Checks that batches hold the expected rows."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import torch

from fastload.batch.packed_rows import of_whole_batch
from fastload.batch.ragged import Ragged, own_rows
from fastload.batch.ragged_parts import describe
from fastload.batch.tensor_views import bits

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

__all__ = [
    "assert_same_batches",
    "assert_same_rows",
    "comparable",
    "first_difference",
    "keys_of",
    "kind_of",
    "row_keys",
    "shown",
]

# Most characters of a value that a message shows.
_SHOWN = 120
_NOT_OF_ROWS = ("__file__", "__row__", "__source__", "__valid__")


def assert_same_rows(
    batches: Iterable[Mapping[str, Any]], table: Any, *, ordered: bool = True
) -> None:
    """Check that batches hold the rows of a table, value for value.

    Each output is compared with the table's column of the same name, or with the field of a struct
    by its dotted name. Dates, times, timestamps and durations are compared as integers in the unit
    of the column, decimals as the nearest floats. NaN equals NaN.

    Example:
        path, columns = "train/part-000.parquet", ["f1", "label"]
        table = pyarrow.parquet.read_table(path, columns=columns)
        assert_same_rows(FastParquetDataset(path, columns=columns), table)

    Args:
        batches: A dataset, a DataLoader of a dataset, or batches kept from either.
            Rows that uneven="pad" marks as repeated are left out, and provenance is ignored.
        table: A pyarrow.Table with the rows in the order of the batches, cast and without nulls
            as the dataset has them (`table.cast`, `pyarrow.compute.fill_null`).
        ordered: False to accept the rows in any order, each as often as in the table.

    Raises:
        AssertionError: The rows differ; the message names the row, the column and both values.
        KeyError: The table lacks a column.
    """
    while any(pa.types.is_struct(field.type) for field in table.schema):
        table = table.flatten()
    want: dict[str, list[Hashable]] = {}
    left: Counter[tuple[Hashable, ...]] = Counter()
    seen = 0
    for batch in batches:
        names = [name for name in batch if name not in _NOT_OF_ROWS]
        if not want:
            want = {name: _values(table, name) for name in names}
            left = Counter(zip(*want.values(), strict=True))
        real = batch.get("__valid__")
        values = (batch[name] if real is None else batch[name][real] for name in names)
        for row in zip(
            *([_plain(each) for each in value.tolist()] for value in values), strict=True
        ):
            if ordered:
                _check_row(row, want, seen, table.num_rows)
            elif not left[row]:
                raise AssertionError(
                    "Expected each row as often as in the table, got a row that is missing in the "
                    f"table or comes once too often: {dict(zip(names, row, strict=True))} - at row "
                    f"{seen}"
                )
            left[row] -= 1
            seen += 1
    if seen != table.num_rows:
        missing = next((dict(zip(want, row, strict=True)) for row in left if left[row] > 0), None)
        raise AssertionError(f"Expected {table.num_rows} rows, got {seen}; missing: {missing}")


def _check_row(
    row: tuple[Hashable, ...], want: Mapping[str, list[Hashable]], number: int, rows: int
) -> None:
    if number >= rows:
        raise AssertionError(f"Expected {rows} rows, got more")
    for (name, values), got in zip(want.items(), row, strict=True):
        if got != values[number]:
            raise AssertionError(
                f"Expected {_short(values[number])}, got {_short(got)} - at row {number}, column "
                f"`{name}`"
            )


def _values(table: Any, name: str) -> list[Hashable]:
    """Return the values of a table's column, as `_plain` returns those of batches."""
    if name not in table.column_names:
        raise KeyError(f"Expected a column of the table for each output, got none for `{name}`")
    column = table.column(name)
    return [_plain(value) for value in column.cast(_without_times(column.type)).to_pylist()]


def _without_times(arrow: Any) -> Any:
    """Return an Arrow type with integers in place of dates, times, timestamps and durations."""
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        return pa.list_(_without_times(arrow.value_type))
    if pa.types.is_fixed_size_list(arrow):
        return pa.list_(_without_times(arrow.value_type), arrow.list_size)
    if pa.types.is_temporal(arrow):
        return pa.int32() if arrow.bit_width == 32 else pa.int64()
    return arrow


def _plain(value: Any) -> Hashable:
    """Return a value that equals only itself, with tuples for lists and a text for NaN."""
    if isinstance(value, list):
        return tuple(map(_plain, value))
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    found: Hashable = value
    return found


def assert_same_batches(
    batches: Iterable[Mapping[str, Any]], others: Iterable[Mapping[str, Any]]
) -> None:
    """Check that two series of batches are equally long and hold the same bits.

    Example:
        one, two = (FastParquetDataset("train", columns=["f1"], threads=n) for n in (1, 2))
        assert_same_batches(one, two)

    Args:
        batches: A dataset, a DataLoader of a dataset, or batches kept from either.
        others: The expected batches, in one of the same forms.

    Raises:
        AssertionError: The batches differ; the message names the batch, the row, the column and
            both values.
    """
    pairs = itertools.zip_longest(batches, others)
    for number, (batch, other) in enumerate(pairs):
        if batch is None or other is None:
            end = "no more" if batch is None else "more"
            raise AssertionError(f"Expected as many batches as others, got {end} after {number}")
        if list(batch) != list(other):
            raise AssertionError(
                f"Expected outputs {list(other)}, got {list(batch)} - at batch {number}"
            )
        whole = of_whole_batch(other)
        for name, value in other.items():
            _check_output(batch[name], value, f"batch {number}", name, of_rows=name not in whole)


def _check_output(got: Any, want: Any, place: str, name: str, *, of_rows: bool) -> None:
    if kind_of(got) != kind_of(want):
        raise AssertionError(
            f"Expected {kind_of(want)}, got {kind_of(got)} - at {place}, column `{name}`"
        )
    if not of_rows:
        if not torch.equal(got.cpu(), want.cpu()):
            raise AssertionError(
                f"Expected {want.tolist()}, got {got.tolist()} - at {place}, output `{name}`"
            )
        return
    if len(got) != len(want):
        raise AssertionError(
            f"Expected {len(want)} rows, got {len(got)} - at {place}, column `{name}`"
        )
    row = first_difference(comparable(got), comparable(want))
    if row is not None:
        raise AssertionError(
            f"Expected {shown(want, row)}, got {shown(got, row)} - at {place}, row {row}, column "
            f"`{name}`"
        )


def row_keys(batch: Mapping[str, Any]) -> list[Hashable]:
    """Return a key for each row of a batch; two keys are equal only if the rows are equal.

    Rows that uneven="pad" marks as repeated are left out, and so are the outputs that describe
    packed rows as a whole.
    """
    real = batch.get("__valid__")
    whole = of_whole_batch(batch)
    columns = [
        keys_of(comparable(value if real is None else value[real]))
        for name, value in batch.items()
        if name not in whole
    ]
    return list(zip(*columns, strict=True))


def kind_of(value: object) -> str:
    """Return text for the class, dtype and shape of an output, whatever its number of rows."""
    if isinstance(value, Ragged):
        return f"a Ragged of {describe(value)}"
    if isinstance(value, torch.Tensor):
        shape = ", ".join(["B", *map(str, value.shape[1:])])
        return f"a {value.dtype} tensor ({shape})"
    return type(value).__name__


def comparable(value: Any, *, any_nan: bool = False) -> Any:
    """Return an output on the CPU, with bits instead of numbers, and only with its own rows.

    Args:
        value: a Tensor (B, ...) or a Ragged.
        any_nan: True if all NaNs are equal.
    """
    if isinstance(value, Ragged):
        own = own_rows(value, copies=False)
        return Ragged(comparable(own.values, any_nan=any_nan), own.offsets.cpu())
    value = value.detach().cpu()
    if any_nan and value.is_floating_point():
        value = value.masked_fill(value.isnan(), float("nan"))
    return bits(value)


def first_difference(got: Any, want: Any) -> int | None:
    """Return the first row in which two comparable values of equal length differ."""
    if isinstance(want, torch.Tensor):
        rows = (got != want).unsqueeze(1).flatten(1).any(1).nonzero()
        return int(rows[0]) if len(rows) else None
    lengths = (got.offsets.diff() != want.offsets.diff()).nonzero()
    row = int(lengths[0]) if len(lengths) else None
    # Up to this row, both values have equally many elements.
    count = int(want.offsets[len(want) if row is None else row])
    element = first_difference(got.values[:count], want.values[:count])
    if element is None:
        return row
    return int(torch.searchsorted(want.offsets, element, right=True)) - 1


def keys_of(value: Any) -> list[Hashable]:
    """Return a key for each row of a comparable value; keys are equal only for equal rows."""
    if isinstance(value, torch.Tensor):
        data = value.numpy().tobytes()
        size = len(data) // len(value) if len(value) else 0
        return [data[k * size : (k + 1) * size] for k in range(len(value))]
    elements = keys_of(value.values)
    bounds = value.offsets.tolist()
    return [tuple(elements[a:b]) for a, b in itertools.pairwise(bounds)]


def shown(value: Any, row: int) -> str:
    """Return text for a row of an output, for a message."""
    item = value[row]
    return _short(item.tolist() if isinstance(item, (torch.Tensor, Ragged)) else item)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
