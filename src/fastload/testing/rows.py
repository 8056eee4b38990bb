"""Checks that batches hold the expected rows."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from fastload.batch.packed_rows import of_whole_batch
from fastload.batch.ragged import Ragged, own_rows
from fastload.batch.ragged_parts import describe
from fastload.batch.tensor_views import bits
from fastload.dataset.dataset import FastParquetDataset
from fastload.testing.expected_outputs import ArrowOutput, NullRule, outputs_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from fastload.schema.projection import Columns

__all__ = ["assert_same_batches", "assert_same_rows", "row_keys"]

# Most characters of a value that a message shows.
_SHOWN = 120


def assert_same_rows(
    batches: Iterable[Mapping[str, Any]],
    table: Any,
    columns: Columns = None,
    *,
    ordered: bool = True,
) -> None:
    """Check that batches hold the rows of a table, value for value and bit for bit.

    The expected outputs are computed from the table alone, with pyarrow and numpy. So a dataset can
    be checked against the result of `pyarrow.parquet.read_table`. Nulls become what the dataset's
    `nulls` says.

    Example:
        path, columns = "train/part-000.parquet", ["f1", "label"]
        table = pyarrow.parquet.read_table(path, columns=columns)
        assert_same_rows(FastParquetDataset(path, columns=columns), table)

    Args:
        batches: A dataset, a DataLoader of a dataset, or batches kept from either.
            Rows that uneven="pad" marks as repeated are left out, and provenance is ignored.
        table: A pyarrow.Table with the rows in the order of the batches.
        columns: The dataset's `columns` argument.
        ordered: False to accept the rows in any order, each as often as in the table.

    Raises:
        AssertionError: The rows differ; the message names the row, the column and both values.
        KeyError: The table lacks a column.
        ValueError: The table has nulls, and neither `columns` nor the dataset's `nulls` says what
            the nulls become. Of batches that were kept, and of a mix, `nulls` is not known.
    """
    want = outputs_of(table, columns, _null_rule(batches))
    if ordered:
        _assert_in_order(batches, want, table.num_rows)
    else:
        _assert_in_any_order(batches, want, table.num_rows)


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
        _assert_same_whole(batch, other, number)
        rows_of_batch, rows_of_other = _of_rows(batch), _of_rows(other)
        want = {name: ArrowOutput(value) for name, value in rows_of_other.items()}
        got = _checked(rows_of_batch, want)
        rows = {len(value) for value in [*got.values(), *rows_of_other.values()]}
        if len(rows) > 1:
            raise AssertionError(
                f"Expected batches of as many rows, got {sorted(rows)} - at batch {number}"
            )
        difference = _difference(got, want)
        if difference is not None:
            name, row = difference
            raise AssertionError(
                f"Expected {_shown(other[name], row)}, got {_shown(batch[name], row)} - at batch "
                f"{number}, row {row}, column `{name}`"
            )


def row_keys(batch: Mapping[str, Any]) -> list[Hashable]:
    """Return a key for each row of a batch; two keys are equal only if the rows are equal.

    Rows that uneven="pad" marks as repeated are left out, and so are the outputs that describe
    packed rows as a whole.
    """
    real = batch.get("__valid__")
    columns = [
        _keys(_comparable(value if real is None else value[real], ArrowOutput(value)))
        for value in _of_rows(batch).values()
    ]
    return list(zip(*columns, strict=True))


def _null_rule(batches: object) -> NullRule:
    """Return what becomes of nulls in batches: what their dataset says, if one can be found."""
    read: Any = batches
    while read is not None and not isinstance(read, FastParquetDataset):
        held = getattr(read, "__dict__", {})
        read = next(
            (held[name] for name in ("dataset", "_loader", "_dataset") if name in held), None
        )
    return NullRule() if read is None else NullRule(read._nulls, read._projection.schema)  # noqa: SLF001


def _of_rows(batch: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a batch without the outputs that describe packed rows as a whole."""
    whole = of_whole_batch(batch)
    return {name: value for name, value in batch.items() if name not in whole}


def _assert_same_whole(batch: Mapping[str, Any], other: Mapping[str, Any], number: int) -> None:
    for name in of_whole_batch(other):
        if name not in batch or not torch.equal(batch[name].cpu(), other[name].cpu()):
            got = batch[name].tolist() if name in batch else "no such output"
            raise AssertionError(
                f"Expected {other[name].tolist()}, got {got} - at batch {number}, output `{name}`"
            )


def _assert_in_order(
    batches: Iterable[Mapping[str, Any]], want: Mapping[str, ArrowOutput], rows: int
) -> None:
    start = 0
    for batch in batches:
        got = _checked(batch, want)
        stop = start + len(next(iter(got.values())))
        if stop > rows:
            raise AssertionError(f"Expected {rows} rows, got more")
        part = {name: replace(o, rows=o.rows[start:stop]) for name, o in want.items()}
        difference = _difference(got, part)
        if difference is not None:
            name, row = difference
            raise AssertionError(
                f"Expected {_shown(part[name].rows, row)}, got {_shown(got[name], row)} - at row "
                f"{start + row}, column `{name}`"
            )
        start = stop
    if start != rows:
        raise AssertionError(f"Expected {rows} rows, got {start}")


def _difference(got: Mapping[str, Any], want: Mapping[str, ArrowOutput]) -> tuple[str, int] | None:
    """Return the column and the number of the first row that differs; None = no row differs."""
    differences: dict[str, int] = {}
    for name, output in want.items():
        parts = _comparable(got[name], output), _comparable(output.rows, output)
        row = _first_difference(*parts)
        if row is not None:
            differences[name] = row
    first = min(differences, key=differences.__getitem__, default=None)
    return None if first is None else (first, differences[first])


def _assert_in_any_order(
    batches: Iterable[Mapping[str, Any]], want: Mapping[str, ArrowOutput], rows: int
) -> None:
    wanted = list(zip(*(_keys(_comparable(o.rows, o)) for o in want.values()), strict=True))
    left = Counter(wanted)
    seen = 0
    for batch in batches:
        got = _checked(batch, want)
        columns = [_keys(_comparable(got[name], output)) for name, output in want.items()]
        for row, key in enumerate(zip(*columns, strict=True)):
            if not left[key]:
                shown = {name: _shown(value, row) for name, value in got.items()}
                raise AssertionError(
                    "Expected each row as often as in the table, got a row that is missing in the "
                    f"table or comes once too often: {shown} - at row {seen + row}"
                )
            left[key] -= 1
        seen += len(columns[0])
    missing = next((row for row, key in enumerate(wanted) if left[key]), None)
    if missing is not None:
        shown = {name: _shown(output.rows, missing) for name, output in want.items()}
        raise AssertionError(
            f"Expected {rows} rows, got {seen}; row {missing} of the table is missing: {shown}"
        )


def _checked(batch: Mapping[str, Any], want: Mapping[str, ArrowOutput]) -> dict[str, Any]:
    """Return the outputs to compare, without repeated rows, after a check of their types."""
    extra = {"__file__", "__row__", "__source__", "__valid__"} - set(want)
    names = [name for name in batch if name not in extra]
    if names != list(want):
        raise AssertionError(f"Expected outputs {list(want)}, got {names}")
    real = batch.get("__valid__") if "__valid__" in extra else None
    got = {name: batch[name] if real is None else batch[name][real] for name in names}
    for name, value in got.items():
        wanted, found = _type(want[name].rows), _type(value)
        # Arrow reads an enum as binary; the Parquet format says that an enum is UTF-8.
        if found not in (wanted, wanted.replace("bytes", "str")):
            raise AssertionError(f"Expected {wanted}, got {found} - at column `{name}`")
        rows = len(next(iter(got.values())))
        if len(value) != rows:
            raise AssertionError(f"Expected {rows} rows, got {len(value)} - at column `{name}`")
    return got


def _type(value: object) -> str:
    if isinstance(value, Ragged):
        return f"a Ragged of {describe(value)}"
    if isinstance(value, torch.Tensor):
        shape = ", ".join(["B", *map(str, value.shape[1:])])
        return f"a {value.dtype} tensor ({shape})"
    return type(value).__name__


def _comparable(value: Any, output: ArrowOutput) -> Any:
    """Return a value on the CPU, with bits instead of numbers, and only with its own rows."""
    if isinstance(value, Ragged):
        own = own_rows(value, copies=False)
        inner = _comparable(own.values, output)
        return Ragged(inner, own.offsets.cpu())
    value = value.detach().cpu()
    if output.any_nan and value.is_floating_point():
        value = value.masked_fill(value.isnan(), float("nan"))
    return bits(value)


def _first_difference(got: Any, want: Any) -> int | None:
    """Return the first row in which two comparable values of equal length differ."""
    if isinstance(want, torch.Tensor):
        rows = (got != want).unsqueeze(1).flatten(1).any(1).nonzero()
        return int(rows[0]) if len(rows) else None
    lengths = (got.offsets.diff() != want.offsets.diff()).nonzero()
    row = int(lengths[0]) if len(lengths) else None
    # Up to this row, both values have equally many elements.
    count = int(want.offsets[len(want) if row is None else row])
    element = _first_difference(got.values[:count], want.values[:count])
    if element is None:
        return row
    return int(torch.searchsorted(want.offsets, element, right=True)) - 1


def _keys(value: Any) -> list[Hashable]:
    """Return a key for each row of a comparable value; keys are equal only for equal rows."""
    if isinstance(value, torch.Tensor):
        data = value.numpy().tobytes()
        size = len(data) // len(value) if len(value) else 0
        return [data[k * size : (k + 1) * size] for k in range(len(value))]
    elements = _keys(value.values)
    bounds = value.offsets.tolist()
    return [tuple(elements[a:b]) for a, b in itertools.pairwise(bounds)]


def _shown(value: Any, row: int) -> str:
    item = value[row]
    text = repr(item.tolist() if isinstance(item, (torch.Tensor, Ragged)) else item)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
