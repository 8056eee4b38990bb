"""The weights of rows: from a column of the files, or from an array."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fastload.plan.units.weighted import LEAST_SUM, MOST_COPIES, RowWeights
from fastload.rows.values.row_values import (
    ValueCache,
    keys_of_column,
    place_of,
    read_files,
    values_that_stay,
)
from fastload.runtime.digest import digest
from fastload.runtime.hints import shortened
from fastload.schema.columns import Column
from fastload.schema.projection import plan_columns

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from fastload.rows.selection import EpochRows
    from fastload.schema.fields import Field
    from fastload.source.source import Source
    from fastload.source.stores.io import IO

    Weights = str | ArrayLike | torch.Tensor

__all__ = ["find_weights"]

# The version of the way weights are read. Entries of another version are ignored.
_VERSION = "2"
_NARROW = (torch.float16, torch.bfloat16, torch.float32)


def find_weights(
    weights: Weights, source: Source, rows: EpochRows, io: IO, memory_budget: int
) -> RowWeights:
    """Return the weights of the rows that stay.

    Args:
        weights: the name of a column, or the weights.
        source: the files.
        rows: the rows that stay.
        io: the options for reading files.
        memory_budget: the bytes that this process may use.

    Raises:
        TypeError: `weights` are not numbers.
        ValueError: a weight is negative, null or not finite, there is another number of weights
            than of rows, their sum is 0 or not finite, or a row would come too often.
        Exception: as for `plan_columns`, or a file can't be read.
    """
    column = f", column `{weights}`" if isinstance(weights, str) else ""
    if isinstance(weights, str):
        values = _of_column(weights, source, rows, io, memory_budget)
    else:
        values = _of_array(weights, rows.row_groups.total_rows)
    # The least of values with a NaN is NaN. Arrays of comparisons would take a byte for each row.
    if not (values.min(initial=0) >= 0 and values.max(initial=0) < math.inf):
        row = int(np.argmin(np.isfinite(values) & (values >= 0)))
        null = " (null counts as nan)" if column else ""
        raise ValueError(
            f"Expected weights that are finite and at least 0, got {values[row]}{null} - at "
            f"{place_of(row, source, rows)} of the row group{column}"
        )
    name = digest(values.dtype.str, values.data)
    try:
        found = RowWeights(values, name)
    except OverflowError as error:
        raise ValueError(
            f"Expected weights whose sum is positive and finite, and at least {LEAST_SUM}, got the "
            f"sum {error} of {len(values)} weights{column and f' - at {column[2:]}'}"
        ) from None
    if found.most_copies > MOST_COPIES:
        row = int(np.argmax(values))
        times = math.floor(float(values[row]) * found.scale)
        raise ValueError(
            f"Expected weights by which a row comes fewer than {MOST_COPIES} times in an epoch, "
            f"got {times} times - at {place_of(row, source, rows)} of the row group{column}"
        )
    return found


def _of_array(weights: ArrayLike | torch.Tensor, rows: int) -> NDArray[np.floating]:
    """Return an array's weights as float32 or float64."""
    given: Any = weights
    if callable(given) and not hasattr(given, "__array__"):
        raise TypeError(
            f"Expected weights as the name of a column or as numbers, got {shortened(weights)}: "
            "call the function on each row, and pass the numbers"
        )
    if isinstance(weights, torch.Tensor):
        given = weights.detach().cpu()
    if isinstance(given, torch.Tensor) and given.dtype == torch.bfloat16:
        given = given.float()
    array = np.asarray(given)
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"Expected weights as the name of a column or as numbers, got {array.dtype} in "
            f"{type(weights).__name__}"
        )
    if array.shape != (rows,):
        raise ValueError(
            f"Expected a weight for each of the {rows} rows that filters and split keep, got "
            f"weights of shape {array.shape}"
        )
    narrow = array.dtype.kind == "f" and array.dtype.itemsize <= np.dtype(np.float32).itemsize
    # A copy: the caller may change the array.
    return array.astype("<f4" if narrow else "<f8", order="C", copy=True)


def _kind_of(field: Field) -> str:
    if field.depth or field.shape:
        return "lists"
    return {"str": "strings", "bytes": "byte strings"}.get(field.kind or "", f"{field.dtype}")


def _of_column(
    name: str, source: Source, rows: EpochRows, io: IO, memory_budget: int
) -> NDArray[np.floating]:
    """Return a column's values for the rows that stay, as float32 or float64; nulls are NaN."""
    (plain,) = plan_columns(source, [name], nulls="zero").outputs
    if plain.kind != "column":
        raise ValueError(
            f"Expected weights as one number a row, got {_kind_of(plain.field)} - at column "
            f"`{name}`"
        )
    narrow = plain.field.dtype in _NARROW
    dtype = torch.float32 if narrow else torch.float64
    projection = plan_columns(source, {"weight": Column(name, dtype=dtype, fill=math.nan)})
    cache = ValueCache("weights", "the weights of rows", b"FLWGHT01", "f", (4, 8))
    asked = digest(_VERSION, name, str(dtype))
    keys = keys_of_column(asked, projection.columns[0], source)
    found = cache.found(
        keys,
        "read weights of",
        lambda files: read_files(source, projection, files, io, memory_budget),
    )
    nothing = np.zeros(0, "<f4" if narrow else "<f8")
    return np.concatenate([nothing, *values_that_stay(found, source, rows.files)])
