"""What is there to read: files, rows, columns and bytes, from footers alone."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from fastload.errors import ColumnNotFoundError
from fastload.tools.bench.peers.parquet_file import is_remote, open_parquet

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class RowGroupSize:
    """Size of one row group: the file's index, the rows, and the bytes of the column chunks."""

    file: int
    rows: int
    stored_bytes: int


@dataclass(frozen=True, slots=True)
class ColumnSize:
    """Size of one column over all files; types and codecs as Parquet and pyarrow name them."""

    name: str
    type: str
    codecs: tuple[str, ...]
    encodings: tuple[str, ...]
    stored_bytes: int
    decoded_bytes: int


@dataclass(frozen=True, slots=True)
class Survey:
    """The rows that every contender reads.

    files: in canonical order.
    columns: output names, in file order unless they were asked for in another.
    left_out: column -> why no contender reads it.
    rows, row_groups: over all files.
    decoded_bytes: of the columns as dense tensors.
    stored_bytes: of their column chunks, compressed.
    codecs: of those chunks, sorted.
    row_group_sizes, column_sizes: in canonical order.
    """

    files: tuple[str, ...]
    columns: tuple[str, ...]
    left_out: dict[str, str]
    rows: int
    row_groups: int
    decoded_bytes: int
    stored_bytes: int
    codecs: tuple[str, ...]
    row_group_sizes: tuple[RowGroupSize, ...] = ()
    column_sizes: tuple[ColumnSize, ...] = ()

    @property
    def remote(self) -> bool:
        """Whether the files are a store's."""
        return any(map(is_remote, self.files))


def survey(files: Sequence[str], columns: Sequence[str] | None = None) -> Survey:
    """Reads the footers of `files`, which are taken to agree on their columns.

    Args:
        files: paths, or URLs of a store.
        columns: None = all that the contenders can read: numbers and bools, nulls in floats
            only. Columns of other types are left out, and named.

    Raises:
        ColumnNotFoundError: a column that is not there.
        ValueError: a column that was asked for is of a type left out, or nothing is left.
    """
    footers = [open_parquet(file) for file in files]
    schema = footers[0].schema_arrow
    wanted = list(schema.names) if columns is None else list(columns)
    for name in wanted:
        if name not in schema.names:
            near = difflib.get_close_matches(name, schema.names) or schema.names[:3]
            raise ColumnNotFoundError(
                f"Expected a column of the file, such as {', '.join(near)}, "
                f"got `{name}` - at {files[0]}"
            )
    left_out = {}
    for name in wanted:
        reason = _unfit(schema.field(name), footers)
        if reason:
            left_out[name] = reason
    if columns is not None and left_out:
        name, reason = next(iter(left_out.items()))
        raise ValueError(f"Expected columns of numbers, got `{name}`: {reason}")
    kept = tuple(name for name in wanted if name not in left_out)
    if not kept:
        raise ValueError(f"Expected a column of numbers, got none - at {files[0]}")
    chunks = []
    groups = []
    for index, footer in enumerate(footers):
        for number in range(footer.num_row_groups):
            group = footer.metadata.row_group(number)
            own = [group.column(j) for j in range(group.num_columns)]
            own = [chunk for chunk in own if chunk.path_in_schema in kept]
            size = sum(chunk.total_compressed_size for chunk in own)
            groups.append(RowGroupSize(index, group.num_rows, size))
            chunks += own
    rows = sum(footer.metadata.num_rows for footer in footers)
    widths = [max(schema.field(name).type.bit_width // 8, 1) for name in kept]
    return Survey(
        files=tuple(files),
        columns=kept,
        left_out=left_out,
        rows=rows,
        row_groups=sum(footer.num_row_groups for footer in footers),
        decoded_bytes=rows * sum(widths),
        stored_bytes=sum(chunk.total_compressed_size for chunk in chunks),
        codecs=tuple(sorted({chunk.compression for chunk in chunks})),
        row_group_sizes=tuple(groups),
        column_sizes=tuple(
            _column_size(
                name,
                str(schema.field(name).type),
                [chunk for chunk in chunks if chunk.path_in_schema == name],
                rows * width,
            )
            for name, width in zip(kept, widths, strict=True)
        ),
    )


def _column_size(name: str, kind: str, chunks: list[Any], decoded_bytes: int) -> ColumnSize:
    return ColumnSize(
        name,
        kind,
        tuple(sorted({chunk.compression for chunk in chunks})),
        tuple(sorted({encoding for chunk in chunks for encoding in chunk.encodings})),
        sum(chunk.total_compressed_size for chunk in chunks),
        decoded_bytes,
    )


def _unfit(field: pa.Field, footers: Sequence[pq.ParquetFile]) -> str:
    """Why the contenders don't all have a tensor for this column; empty if they do."""
    kind = field.type
    if pa.types.is_floating(kind):
        return ""
    if not (pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        return f"of type {kind}"
    for footer in footers:
        metadata = footer.metadata
        for j in range(metadata.num_columns):
            if metadata.schema.column(j).path != field.name:
                continue
            for group in range(metadata.num_row_groups):
                statistics = metadata.row_group(group).column(j).statistics
                if field.nullable and (statistics is None or statistics.null_count):
                    return "may hold nulls, for which integers have no value"
    return ""
