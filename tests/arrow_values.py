"""The oracle of the tests: what pyarrow reads, as the numpy values that a batch should hold."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from fastload import Ragged, plan

# Decimals of so many digits are exact as floats, and so are the powers of ten of their scales.
EXACT_DIGITS = 15


@dataclass(frozen=True)
class Values:
    """A column: `valid` (N,) of bool, and `array` (N,).

    array: of numbers; for strings and bytes (`kind` is then str or bytes) a LargeBinaryArray.
    """

    array: np.ndarray | pa.LargeBinaryArray
    valid: np.ndarray
    kind: type | None = None

    @property
    def dtype(self):
        return None if self.kind else self.array.dtype


def values_of(column):
    """`column`: a pa.ChunkedArray or pa.Array, in the type that pyarrow reads it as."""
    column = plain_array(column)
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    kind = column.type
    if pa.types.is_null(kind):
        return Values(np.full(len(column), np.nan, np.float32), valid)
    if pa.types.is_decimal(kind):
        return Values(floats_of(column), valid)
    if pa.types.is_date32(kind):
        column = column.view(pa.int32())
    elif pa.types.is_time32(kind):
        column = column.view(pa.int32()).cast(pa.int64())
    elif pa.types.is_temporal(kind):
        column = column.view(pa.int64())
    elif is_text(kind) or is_binary(kind):
        return Values(column.cast(pa.large_binary()), valid, str if is_text(kind) else bytes)
    zero = False if pa.types.is_boolean(kind) else 0
    return Values(column.fill_null(zero).to_numpy(zero_copy_only=False), valid)


def plain_array(column):
    if isinstance(column, pa.ChunkedArray):
        chunks = column.chunks or [pa.array([], column.type)]
        column = pa.concat_arrays(chunks)
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column


def is_text(kind):
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def is_binary(kind):
    plain = kind in (pa.binary(), pa.large_binary(), pa.binary_view())
    return plain or pa.types.is_fixed_size_binary(kind)


def floats_of(decimals):
    """Each value as the nearest float64; NaN for null."""
    kind = decimals.type
    if kind.precision <= EXACT_DIGITS:
        words = kind.bit_width // 64
        low = np.frombuffer(decimals.buffers()[1], np.int64 if words else np.int32)
        low = low[:: max(1, words)][decimals.offset : decimals.offset + len(decimals)]
        floats = low / 10.0**kind.scale
        floats[decimals.is_null().to_numpy(zero_copy_only=False)] = np.nan
        return floats
    listed = [float("nan") if v is None else float(v) for v in decimals.to_pylist()]
    return np.array(listed, np.float64)


def assert_holds(got, want, rows, *, fill=None, place=""):
    """`got`, a tensor or Ragged of a batch, holds rows `rows` (B,) of `want`, bit for bit.

    fill: what nulls become; None = NaN for floats, else 0 or nothing.
    """
    if want.kind:
        assert_holds_bytes(got, want, rows, fill, place)
        return
    array, valid = want.array[rows], want.valid[rows]
    assert isinstance(got, torch.Tensor), place
    assert got.shape == (len(rows),), place
    numbers = got.numpy()
    assert numbers.dtype == array.dtype, place
    if fill is None and array.dtype.kind == "f":
        assert np.isnan(numbers[~valid]).all(), place
    else:
        array = np.where(valid, array, np.asarray(fill or 0).astype(array.dtype))
        valid = np.ones_like(valid)
    same = bits(numbers[valid]) == bits(array[valid])
    assert same.all(), f"{place}: {numbers[valid][~same][:5]} for {array[valid][~same][:5]}"


def assert_holds_bytes(got, want, rows, fill, place):
    assert isinstance(got, Ragged), place
    assert got.kind == want.kind.__name__, place
    array = want.array.take(pa.array(rows))
    fill = fill or b""
    array = array.fill_null(fill.encode() if isinstance(fill, str) else fill)
    # Without any null left, take and fill_null give arrays that begin at 0.
    _, offsets, data = pa.concat_arrays([array]).buffers()
    offsets = np.frombuffer(offsets, np.int64)[: len(rows) + 1]
    assert (got.offsets.numpy() - int(got.offsets[0]) == offsets).all(), place
    data = np.frombuffer(data or b"", np.uint8)[: offsets[-1]]
    begin, end = int(got.offsets[0]), int(got.offsets[-1])
    assert (got.values[begin:end].numpy() == data).all(), place
    for row in range(min(3, len(rows))):
        value = array[row].as_py()
        assert got[row] == (value.decode() if want.kind is str else value), place


def bits(array):
    """Integers of the same bytes: equal for equal NaN, unequal for 0.0 and -0.0."""
    if array.dtype == bool:
        return array
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


class Tables:
    """The rows of several files as pyarrow reads them, by (file, row group, row)."""

    def __init__(self, paths, columns=None):
        files = [pq.ParquetFile(path) for path in paths]
        self.table = pa.concat_tables([file.read(columns) for file in files])
        self.values = {name: values_of(self.table[name]) for name in self.table.column_names}
        sizes = [
            [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
            for file in files
        ]
        self.row_groups = plan.RowGroups(
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
        self.file_start = np.concatenate([[0], np.cumsum([sum(n) for n in sizes])])

    def indices(self, rows):
        """Indices into `values` of rows (N, 3) as `plan.rows_of` names them."""
        starts = [self._group_start[f, g] for f, g in rows[:, :2].tolist()]
        return np.array(starts, np.int64) + rows[:, 2]

    def indices_of(self, batch):
        """Indices into `values` of the rows of a batch with provenance."""
        return self.file_start[batch["__file__"].numpy()] + batch["__row__"].numpy()
