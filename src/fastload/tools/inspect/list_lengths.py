"""Lengths of lists, from the first row group of a dataset: footers don't tell them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fastload.tools.inspect.spread import Spread

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastload.source.files import SourceFile

__all__ = ["list_lengths"]


def list_lengths(file: SourceFile, names: Iterable[str]) -> dict[str, Spread]:
    """Return the spread of the lengths of lists by the name of the top-level column.

    Only local files are read. A column is left out if the column is no list, or if its values
    can't be read.

    Args:
        file: a file with rows.
        names: names of top-level columns, none of which is encrypted: pyarrow aborts at those.
    """
    if file.stored is not None:
        return {}
    found = {}
    try:
        with pq.ParquetFile(file.path) as opened:
            for name in names:
                lengths = _lengths(opened, name)
                if lengths is not None and len(lengths):
                    found[name] = Spread.of(lengths)
    except (pa.ArrowException, OSError):
        return found
    return found


def _lengths(opened: pq.ParquetFile, name: str) -> Any:
    schema = opened.schema_arrow
    index = schema.get_field_index(name)
    if index < 0 or not _is_list(schema.field(index).type):
        return None
    try:
        column = opened.read_row_group(0, columns=[name]).column(0)
        if pa.types.is_map(column.type):
            offsets = [np.diff(chunk.offsets.to_numpy()) for chunk in column.chunks]
            return np.concatenate(offsets)
        return pc.list_value_length(column).fill_null(0).to_numpy()
    except (pa.ArrowException, OSError):
        return None


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind))
