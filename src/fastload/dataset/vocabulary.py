"""`fastload.vocabulary`: the values of a column by falling count, for `Codes`."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import torch

from fastload.dataset.dataset import FastParquetDataset
from fastload.errors import ColumnNotFoundError
from fastload.schema.argument_checks import check_int
from fastload.schema.column_plan import key_kind
from fastload.schema.columns import Column
from fastload.schema.leaves import FileLeaves, SelectedLeaf
from fastload.schema.projection import plan_columns
from fastload.schema.resolve_names import select
from fastload.source.source import Source
from fastload.source.stores.io import IO
from fastload.source.stores.stores import Stores

if TYPE_CHECKING:
    from fastload.batch.batch import Batch
    from fastload.source.source import SourceArgument

__all__ = ["vocabulary"]

_READING = (
    "filters", "split", "nulls", "threads", "memory_budget", "filesystem",
    "storage_options", "io",
)  # fmt: skip
# Rows and bytes of a batch. Values that batches share are added up again for each batch.
_BATCH_ROWS = 131_072
_BATCH_BYTES = 64 << 20
# The counts of batches are added up once there are so many of them, and so many times as many as
# values are known: each value is then added up a few times only.
_GROWTH = 2
_LEAST_PENDING = 1 << 20


def vocabulary(
    source: SourceArgument,
    column: str,
    *,
    min_count: int = 1,
    max_size: int | None = None,
    **reading: Any,
) -> list[Any]:
    """Count the values of a column, and return the values by falling count.

    Values that come equally often are in ascending order, so the same rows give the same list on
    every machine. Of lists, the elements are counted. Nulls are not counted; nulls in a column of
    lists raise an error. Pass `nulls="zero"` to count nulls. One pass reads the column, in
    parallel; the distinct values and their counts are kept in memory.

    Example:
        words = fastload.vocabulary("train", "country", min_count=2)  # list of str
        codes = Codes("country", [None, *words], unknown=0)
        ds = FastParquetDataset("train", columns={"country": codes})

    Args:
        source: The Parquet files, as for `FastParquetDataset`.
        column: Name of a column of strings, binary, integers or decimals of scale 0, or of lists
            of these.
        min_count: Least count of a value, at least 1.
        max_size: Largest number of values, at least 1; None = no limit.
        reading: Arguments of `FastParquetDataset` that say how and which rows to read: filters,
            split, nulls, threads, memory_budget, filesystem, storage_options, io. With
            nulls="zero", a null counts as 0 or as an empty value.

    Returns:
        The values: all str, all bytes or all int, as `Codes` takes them.

    Raises:
        ColumnNotFoundError: The files have no such column, or the column has several fields.
        SchemaError: The column has values of another type.
        NullValueError: A column of lists has a null.
        TypeError, ValueError: An argument has the wrong type or an invalid value, or a decimal
            does not fit int64.
    """
    if not isinstance(column, str):
        raise TypeError(f"Expected the name of a column, got {column!r}")
    check_int("min_count", min_count, 1, 2**63 - 1)
    if max_size is not None:
        check_int("max_size", max_size, 1, 2**63 - 1)
    for name in reading:
        if name not in _READING:
            raise TypeError(f"Expected {', '.join(_READING)} for reading, got {name!r}")
    import pyarrow.compute as pc  # whose import takes longer than fastload's other modules

    counted = _count(source, column, reading)
    counted = counted.filter(pc.greater_equal(counted["counts"], min_count))
    order = pc.sort_indices(counted, sort_keys=[("counts", "descending"), ("values", "ascending")])
    values: list[Any] = counted["values"].take(order[:max_size]).to_pylist()
    return values


def _count(source: SourceArgument, column: str, reading: dict[str, Any]) -> pa.Table:
    """Return a table of the distinct values of a column and their counts."""
    filesystem, options, io = map(reading.get, ("filesystem", "storage_options", "io"))
    with closing(Stores(filesystem, options, IO() if io is None else io)) as stores:
        files = Source.open(source, stores)
    leaf = _leaf_of(column, files)
    spec: str | Column = column
    if key_kind(leaf, "count") in ("int", None) and not pa.types.is_integer(leaf.type.arrow):
        spec = Column(column, torch.int64)  # decimals, and columns of type null
    # `__valid__` tells which values are null, but not which elements of lists are.
    masked = {} if leaf.type.list_sizes else {"nulls": "mask"}
    fit = _BATCH_BYTES // plan_columns(files, [spec], nulls="mask").row_bytes
    dataset = FastParquetDataset(
        source,
        columns=[spec],
        batch_size=max(1, min(_BATCH_ROWS, fit)),
        rank=0,  # whatever the ranks of the program are, all rows are counted
        world_size=1,
        uneven="keep",
        pin_memory=False,
        **{**masked, **reading},
    )
    with closing(dataset):
        return _total(dataset, column)


def _leaf_of(column: str, files: Source) -> SelectedLeaf:
    """Return the leaf of a column, whose rows or elements have one value each."""
    leaves = [leaf for _, _, (leaf,) in select(FileLeaves(files), [column])]
    if [leaf.name for leaf in leaves] != [column]:  # a struct or a map, or a list of these
        names = ", ".join(f"`{leaf.name}`" for leaf in leaves)
        raise ColumnNotFoundError(
            f"Expected a column of one value in each row or element, got `{column}`: name one of "
            f"{names}"
        )
    return leaves[0]


def _total(dataset: FastParquetDataset, column: str) -> pa.Table:
    """Count the values of all batches."""
    import pyarrow.compute as pc

    pending: list[pa.Table] = []
    rows = known = 0
    for batch in dataset:
        counts = pc.value_counts(_values(batch, column))
        values, numbers = counts.flatten()
        pending.append(pa.table({"values": values, "counts": numbers}))
        rows += len(counts)
        if rows > max(_LEAST_PENDING, _GROWTH * known):
            pending = [_sum(pending)]
            rows = known = len(pending[0])
    return _sum(pending) if pending else pa.table({"values": pa.nulls(0), "counts": pa.nulls(0)})


def _sum(counts: list[pa.Table]) -> pa.Table:
    """Return the sum of several tables of values and their counts."""
    total = pa.concat_tables(counts).group_by("values").aggregate([("counts", "sum")])
    return pa.table({"values": total["values"], "counts": total["counts_sum"]})


def _values(batch: Batch, column: str) -> pa.Array:
    rows = batch.to_arrow()
    array, valid = rows.column(column), f"{column}__valid"
    if valid in rows.schema.names:
        array = array.filter(rows.column(valid))
    while pa.types.is_nested(array.type):
        array = array.flatten()
    return array
