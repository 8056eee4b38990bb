"""Layout of a dataset: files, row groups, columns and windows, from footers only."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fastload.engine.budget import divide_budget, resolve_window, work_units
from fastload.errors import FastloadError
from fastload.runtime.cores import available_cores
from fastload.runtime.native import core
from fastload.schema.leaves import FileLeaves
from fastload.schema.projection import plan_columns
from fastload.source.source import Source
from fastload.tools.inspect.column_layout import ColumnLayout
from fastload.tools.inspect.list_lengths import list_lengths
from fastload.tools.inspect.spread import Spread

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fastload.schema.fields import Field
    from fastload.schema.projection import Projection
    from fastload.source.files import PathLike, SourceFile
    from fastload.source.stores.stores import Stores

__all__ = ["DatasetLayout", "FileGroups", "Windows"]

# This many chunks take a few seconds; of a larger dataset, every n-th file is inspected.
_MOST_CHUNKS = 200_000
_FIRST_FILES = 20
# Decompressed bytes of a chunk of lists that take at most a second to read, in the mean.
_MOST_LIST_BYTES = 256 << 20
# The defaults of `FastParquetDataset`.
_BATCH_ROWS = 1024
_PREFETCH = 4
# A budget that does not limit windows.
_NO_LIMIT = 1 << 62


@dataclass(frozen=True, slots=True)
class FileGroups:
    """The row groups of one file.

    Attributes:
        name: name of the file, without directories.
        rows: rows of each row group.
        bytes: size of the file.
    """

    name: str
    rows: tuple[int, ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows in which rows are decoded.

    Attributes:
        row_bytes: bytes of a row in batches; an estimate if strings or lists vary.
        shuffled_rows: rows of a window with shuffle=True.
        shuffled_bytes: bytes of the windows that are open at once with shuffle=True, at most.
        in_order_rows: rows of a window without shuffle.
        in_order_bytes: bytes of the windows that are open at once without shuffle.
    """

    row_bytes: int
    shuffled_rows: int
    shuffled_bytes: int
    in_order_rows: int
    in_order_bytes: int


@dataclass(frozen=True, slots=True)
class DatasetLayout:
    """The layout of a dataset, as its footers describe it.

    Attributes:
        files: number of files.
        remote: True if a file lies in an object store.
        file_bytes: bytes of all files.
        hive_keys: names of the columns in directory names.
        rows: number of rows of all files.
        row_groups: number of row groups of all files.
        group_rows: spread of the rows of all row groups.
        group_bytes: spread of the stored bytes of the row groups of inspected files.
        writers: names of the programs that wrote the files, each once.
        odd_footers: inspected files whose footers pyarrow's library parses in whole, because
            something in them is odd.
        fields: output name -> Field of the output; without columns that can't be read.
        refused: column -> the reason why the column can't be read as it is.
        windows: the windows; None without rows, or without a column that can be read.
        paths: paths of all leaf columns, as writers store them.
        columns: layout of each column in the inspected files.
        files_seen: number of inspected files, spread evenly over all files.
        first_files: row groups of the first files.
        lengths: top-level column -> spread of the lengths of its lists in the first row group of
            a local file.
    """

    files: int
    remote: bool
    file_bytes: int
    hive_keys: tuple[str, ...]
    rows: int
    row_groups: int
    group_rows: Spread
    group_bytes: Spread
    writers: tuple[str, ...]
    odd_footers: int
    fields: dict[str, Field]
    refused: dict[str, str]
    windows: Windows | None
    paths: tuple[str, ...]
    columns: tuple[ColumnLayout, ...]
    files_seen: int
    first_files: tuple[FileGroups, ...]
    lengths: dict[str, Spread]

    @classmethod
    def of(
        cls,
        source: PathLike | Sequence[PathLike],
        columns: Sequence[str] | None = None,
        storage: Stores | None = None,
    ) -> DatasetLayout:
        """Read the footers, as `FastParquetDataset` does.

        Args:
            source: as the argument of the dataset.
            columns: names of the columns to inspect; None = all columns.
            storage: clients of object stores; None = new clients.

        Raises:
            FastloadError: a file can't be read, or a column of `columns` does not exist or can't
                be read. With columns=None, columns that can't be read are in `refused` instead.
        """
        opened = Source.open(source, storage)
        fields, refused, projection = _fields_of(opened, columns)
        seen = _evenly(opened.files)
        gathered: dict[str, ColumnLayout] = {}
        sizes: list[int] = []
        writers: dict[str, None] = {}
        odd = 0
        for file in seen:
            tail = file.footer.tail
            metadata = pq.read_metadata(pa.BufferReader(tail))
            odd += not core.Footer(tail, file.size, os.fsencode(file.path)).plain
            writers[str(metadata.created_by or "unknown")] = None
            sizes += _add_file(gathered, file, metadata, columns)
        rows = opened.row_group_rows
        return cls(
            files=len(opened.files),
            remote=any(file.stored is not None for file in opened.files),
            file_bytes=sum(file.size for file in opened.files),
            hive_keys=tuple(dict.fromkeys(key for f in opened.files for key, _ in f.keys)),
            rows=opened.num_rows,
            row_groups=len(rows),
            group_rows=Spread.of(rows),
            group_bytes=Spread.of(np.array(sizes, dtype=np.int64)),
            writers=tuple(writers),
            odd_footers=odd,
            fields=fields,
            refused=refused,
            windows=_windows_of(projection, opened.num_rows) if projection else None,
            paths=tuple(dict.fromkeys(".".join(x.path) for f in seen for x in f.footer.leaves)),
            columns=tuple(gathered.values()),
            files_seen=len(seen),
            first_files=tuple(
                FileGroups(
                    os.path.basename(file.path),
                    tuple(map(int, rows[opened.row_group_file == index])),
                    file.size,
                )
                for index, file in enumerate(opened.files[:_FIRST_FILES])
            ),
            lengths=_lengths_of(opened, fields, gathered.values()),
        )

    @property
    def times(self) -> float:
        """Factor by which the counts of `columns` are multiplied to estimate those of all files."""
        return self.files / self.files_seen


def _lengths_of(
    source: Source, fields: dict[str, Field], columns: Iterable[ColumnLayout]
) -> dict[str, Spread]:
    """Return the lengths of the lists that can be read quickly, in the first file with rows."""
    names = {name.partition(".")[0] for name, field in fields.items() if field.depth}
    for column in columns:
        if column.encrypted or column.page_bytes > _MOST_LIST_BYTES * max(1, column.chunks):
            names.discard(column.name.partition(".")[0])
    if not names or not source.num_rows:
        return {}
    first = source.files[int(source.row_group_file[source.row_group_rows > 0][0])]
    return list_lengths(first, sorted(names))


def _fields_of(
    source: Source, columns: Sequence[str] | None
) -> tuple[dict[str, Field], dict[str, str], Projection | None]:
    """Return the outputs that can be read, the reasons for other columns, and the projection."""
    try:
        projection = plan_columns(source, columns, check_nulls=False)
    except FastloadError:
        if columns is not None:
            raise
    else:
        return dict(projection.schema), {}, projection
    # One by one, because one column that can't be read makes the whole plan fail.
    leaves = FileLeaves(source)
    readable, refused = [], {}
    for name in dict.fromkeys(".".join(path) for path in leaves.paths):
        try:
            plan_columns(source, [name], check_nulls=False)
        except FastloadError as error:
            refused[name] = str(error)
        else:
            readable.append(name)
    if not readable:
        return {}, refused, None
    projection = plan_columns(source, readable, check_nulls=False)
    return dict(projection.schema), refused, projection


def _evenly(files: Sequence[SourceFile]) -> list[SourceFile]:
    """Return the files to inspect: every n-th file, with few enough column chunks in all."""
    chunks = sum(len(f.footer.packed_rows) // 8 * len(f.footer.leaves) for f in files)
    step = max(1, -(-chunks // _MOST_CHUNKS))
    return list(files[::step])


def _add_file(
    gathered: dict[str, ColumnLayout],
    file: SourceFile,
    metadata: Any,
    columns: Sequence[str] | None,
) -> list[int]:
    """Add the chunks of a file to the sums, and return the bytes of each row group."""
    sizes = [0] * metadata.num_row_groups
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    for number, leaf in enumerate(file.footer.leaves):
        name = ".".join(leaf.names)
        if columns is not None and not _is_wanted(name, columns):
            continue
        layout = gathered.get(name)
        if layout is None:
            path = ".".join(leaf.path)
            layout = ColumnLayout(name, path, leaf.physical_type, leaf.logical_type)
            gathered[name] = layout
        try:
            counts = file.footer.page_counts(number)
            chunks = [group.column(number) for group in groups]
        except (FastloadError, OSError):
            layout.encrypted += len(groups)  # or damaged, which only reading them shows
            continue
        for index, chunk in enumerate(chunks):
            layout.add(chunk, counts[index], nullable=leaf.max_definition_level > 0)
            sizes[index] += chunk.total_compressed_size
    return sizes


def _is_wanted(name: str, columns: Sequence[str]) -> bool:
    return any(name == wanted or name.startswith(f"{wanted}.") for wanted in columns)


def _windows_of(projection: Projection, rows: int) -> Windows | None:
    if not rows:
        return None
    held = projection.row_bytes + projection.staged_row_bytes
    window = resolve_window(None, projection.row_bytes)
    windows = max(1, rows // window)
    shuffled_rows = -(-rows // windows)
    in_order = divide_budget(
        _NO_LIMIT,
        batch_size=_BATCH_ROWS,
        row_bytes=projection.row_bytes,
        staged_row_bytes=projection.staged_row_bytes,
        total_rows=rows,
        shuffle_window=None,
        columns=len(projection.columns),
        work=work_units(projection.outputs),
        threads=available_cores(),
        prefetch=_PREFETCH,
    )
    return Windows(
        row_bytes=projection.row_bytes,
        shuffled_rows=shuffled_rows,
        shuffled_bytes=shuffled_rows * min(2, windows) * held,
        in_order_rows=min(rows, in_order.stripe_rows),
        in_order_bytes=min(rows, in_order.stripe_rows * in_order.open_windows) * held,
    )
