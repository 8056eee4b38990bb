"""Rows of several files as pyarrow reads them, found by (file, row group, row)."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fastload.plan.sequence import RowGroups
from support.expected_numbers import is_binary, is_text, leaves_of

# Fills of nulls by the kind of a column; none is a default value, so that mistakes show.
FILLS = {"str": "(nöne)", "bytes": b"\0\xff none", "bool": True, "float": -2.5, "int": 77}


class StoredTables:
    """The rows of several files, one file after the other.

    Attributes:
        table: all rows.
        leaves: leaves of the table, by dotted name.
        row_groups: row groups of all files, as a dataset of the files has them.
    """

    def __init__(self, paths):
        files = [pq.ParquetFile(path) for path in paths]
        self.table = takable(pa.concat_tables([file.read() for file in files]))
        self.leaves = leaves_of(self.table)
        sizes = [
            [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
            for file in files
        ]
        self.row_groups = RowGroups(
            np.array([n for of_file in sizes for n in of_file], np.int64),
            np.array([f for f, of_file in enumerate(sizes) for _ in of_file], np.int64),
            np.array([g for of_file in sizes for g in range(len(of_file))], np.int64),
        )
        edges = np.concatenate([[0], np.cumsum(self.row_groups.rows)])
        self._group_start = {
            (int(f), int(g)): int(start)
            for f, g, start in zip(
                self.row_groups.file, self.row_groups.index, edges[:-1], strict=True
            )
        }
        self._file_start = np.concatenate([[0], np.cumsum([sum(n) for n in sizes])])

    def indices(self, rows):
        """Return row numbers of the table for rows (N, 3), as `plan.rows_of` returns them."""
        starts = [self._group_start[f, g] for f, g in rows[:, :2].tolist()]
        return np.array(starts, np.int64) + rows[:, 2]

    def indices_of(self, batch):
        """Return the row numbers of the table that a batch with provenance holds."""
        return self._file_start[batch["__file__"].numpy()] + batch["__row__"].numpy()


def takable(table):
    """Return the table without views of strings, from which pyarrow can't take rows."""
    kinds = [pa.string() if kind == pa.string_view() else kind for kind in table.schema.types]
    if kinds == table.schema.types:  # some nested columns do not survive the cast
        return table
    return table.cast(pa.schema(zip(table.column_names, kinds, strict=True)))


def fill_of(leaf):
    """Return a fill that fits the values of a leaf."""
    kind = leaf.values.type
    if is_text(kind):
        return FILLS["str"]
    if is_binary(kind):
        return FILLS["bytes"]
    if pa.types.is_boolean(kind) or isinstance(kind, pa.Bool8Type):
        return FILLS["bool"]
    return FILLS["float" if becomes_float(leaf) else "int"]


def becomes_float(leaf):
    """Return True if the values of a leaf are floats by default."""
    kind = leaf.values.type
    return pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind)


def has_nulls(leaf):
    """Return True if a leaf has a null, which needs a fill: a null list or a null value."""
    return leaf.values.null_count > 0 or any(lists.nulls for lists in leaf.levels)
