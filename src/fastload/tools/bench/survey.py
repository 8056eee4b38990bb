"""Survey of the files to read: rows, columns and bytes, from footers only."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from fastload.errors import ColumnNotFoundError
from fastload.tools.bench.peers.parquet_file import is_remote, open_parquet

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True, slots=True)
class Survey:
    """The rows that every contender reads.

    Attributes:
        files: paths or URLs, in canonical order.
        columns: output names, in the order of the request, or else of the file.
        left_out: column -> the reason why no contender reads the column.
        rows: number of rows of all files.
        row_groups: number of row groups of all files.
        decoded_bytes: bytes of the columns as dense tensors.
        stored_bytes: bytes of the columns' chunks, compressed.
        codecs: codecs of the columns' chunks, sorted.
        originals: the files of the user, if `files` are links to them; else ().
        copies: number of links to each file of the user; 1 = the files themselves. Rows, row
            groups and bytes are those of all links.
    """

    files: tuple[str, ...]
    columns: tuple[str, ...]
    left_out: dict[str, str]
    rows: int
    row_groups: int
    decoded_bytes: int
    stored_bytes: int
    codecs: tuple[str, ...]
    originals: tuple[str, ...] = ()
    copies: int = 1

    @property
    def remote(self) -> bool:
        """True if the files lie in an object store."""
        return any(map(is_remote, self.files))


def survey(files: Sequence[str], columns: Sequence[str] | None = None) -> Survey:
    """Read the footers of `files`; all files must have the columns of the first file.

    Args:
        files: paths, or URLs of a store.
        columns: names of the columns. None = all columns that the contenders can read: numbers
            and bools, with nulls in floats only. `Survey.left_out` names the other columns.

    Raises:
        ColumnNotFoundError: a column does not exist.
        ValueError: a requested column can't be read by all contenders, or no column is left.
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
    chunks = [
        chunk
        for footer in footers
        for chunk in _chunks(footer.metadata)
        if chunk.path_in_schema in kept
    ]
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
    )


def _chunks(footer: pq.FileMetaData) -> Iterator[pq.ColumnChunkMetaData]:
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        yield from (group.column(j) for j in range(group.num_columns))


def _unfit(field: pa.Field, footers: Sequence[pq.ParquetFile]) -> str:
    """Return why some contender has no tensor for the column; "" if every contender has one."""
    kind = field.type
    if pa.types.is_floating(kind):
        return ""
    if not (pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        return f"of type {kind}"
    if field.nullable:
        for footer in footers:
            for chunk in _chunks(footer.metadata):
                counts = chunk.statistics
                if chunk.path_in_schema == field.name and (counts is None or counts.null_count):
                    return "may hold nulls, for which integers have no value"
    return ""
