"""Survey of the files to read, from footers only, and links to small files.

An epoch over the links takes long enough to be timed.
"""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from fastload.errors import ColumnNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


# An epoch that decodes this much a core takes 25 ms where pages are kept in memory, and up to
# 100 ms elsewhere; two copies of the sample have as much on two cores.
_CORE_BYTES = 256 << 20
# Contenders that read the whole table into memory need room for it.
_MOST_BYTES = 2 << 30
# More files would measure how files are opened.
_MOST_FILES = 2000


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


def is_remote(path: str) -> bool:
    """Return True if `path` is the URL of an object store."""
    return "://" in path


def open_parquet(path: str) -> pq.ParquetFile:
    """Open a local file, or a file of an object store through fsspec.

    The column chunks of one read are requested from a store together.
    """
    if not is_remote(path):
        return pq.ParquetFile(path)
    # With any server but Google's, gcsfs would try gRPC for minutes.
    os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    import fsspec

    return pq.ParquetFile(fsspec.open(path, cache_type="none").open(), pre_buffer=True)


def survey(files: Sequence[str], columns: Sequence[str] | None = None) -> Survey:
    """Read the footers of `files`; all files must have the columns of the first file.

    Args:
        files: paths, or URLs of a store.
        columns: names of the columns. None = all columns that the contenders can read: numbers
            and bools, whose nulls all of them fill with 0. `Survey.left_out` names the others.

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
        reason = _unfit(schema.field(name).type)
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


def copies_of(survey: Survey, cores: int) -> int:
    """Return how often to read the files in one epoch; 1 for files of a store.

    Args:
        survey: the files.
        cores: number of cores that read them.
    """
    if survey.remote or not survey.decoded_bytes:
        return 1
    wanted = min(_CORE_BYTES * cores, _MOST_BYTES)
    # Half of that is long enough.
    copies = max(1, round(wanted / survey.decoded_bytes))
    return min(copies, max(1, _MOST_FILES // len(survey.files)))


def with_copies(survey: Survey, copies: int, directory: str) -> Survey:
    """Return the survey of `copies` links to each file, which lie in `directory`.

    No byte is copied.
    """
    if copies == 1:
        return survey
    links = []
    for copy in range(copies):
        folder = Path(directory, f"copy-{copy:05}")
        folder.mkdir()
        for number, file in enumerate(survey.files):
            link = folder / f"{number:05}-{Path(file).name}"
            link.symlink_to(Path(file).absolute())
            links.append(str(link))
    return replace(
        survey,
        files=tuple(links),
        originals=survey.files,
        copies=copies,
        rows=survey.rows * copies,
        row_groups=survey.row_groups * copies,
        decoded_bytes=survey.decoded_bytes * copies,
        stored_bytes=survey.stored_bytes * copies,
    )


def _chunks(footer: pq.FileMetaData) -> Iterator[pq.ColumnChunkMetaData]:
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        yield from (group.column(j) for j in range(group.num_columns))


def _unfit(kind: pa.DataType) -> str:
    """Return why contenders have no tensor for a column of this type; "" if they have one."""
    fit = pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)
    return "" if fit else f"of type {kind}"
