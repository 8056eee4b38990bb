"""One value for each row of the files: read once for each version of a file, kept on disk.

An entry on disk holds the values of one file's rows after a head of 24 bytes: magic, bytes of a
value, number of rows, and the CRC-32 of the rest. An entry is published by an atomic rename and
never changes.
"""

from __future__ import annotations

import contextlib
import struct
import zlib
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from fastload.engine.budget import divide_budget, work_units
from fastload.engine.engine import Engine
from fastload.errors import CorruptFileError
from fastload.plan.options import Options
from fastload.plan.position import WorkerSlot
from fastload.plan.read_plan import read_plan
from fastload.plan.sequence import RowGroups
from fastload.rows.selection import key_of_file
from fastload.runtime.cores import available_cores
from fastload.runtime.digest import digest
from fastload.runtime.disk.private_directory import (
    CacheDirectory,
    mark_used,
    publish,
    remove_abandoned_once,
    remove_unused_once,
)
from fastload.runtime.progress import ProgressLine

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from fastload.plan.kept_rows import FileRows
    from fastload.plan.read_plan import ReadPlan
    from fastload.rows.selection import EpochRows
    from fastload.schema.column_plan import ColumnPlan
    from fastload.schema.projection import Projection
    from fastload.source.source import Source
    from fastload.source.stores.io import IO

    Values = NDArray[Any]

__all__ = ["ValueCache", "keys_of_column", "place_of", "read_files", "values_that_stay"]

_HEAD = struct.Struct("<8sIqI")
_BATCH_ROWS = 1 << 16
# Most memory while values are read.
_MOST_BYTES = 1 << 30


def keys_of_column(asked: str, column: ColumnPlan, source: Source) -> list[str]:
    """Return the key of what was found in a column, for each file.

    Args:
        asked: the digest of the question.
        column: the column. After columns of a table are renamed, it is another one in a file.
        source: the files.
    """
    return [
        key_of_file(digest(asked, repr(column.reads(index))), source, index)
        for index in range(len(column.leaves))
    ]


def values_that_stay(
    values: Sequence[Values], source: Source, kept: Sequence[FileRows]
) -> list[Values]:
    """Return the values of the rows of each file that stay.

    Args:
        values: for each file, the value of each of its rows, (rows,).
        source: the files.
        kept: for each file, the rows that stay; () = all rows.
    """
    if not kept:
        return [*values]
    found = []
    for own, file, rows in zip(values, source.files, kept, strict=True):
        sizes = enumerate(file.footer.row_group_rows)
        masks = [rows.of_group(group, size) for group, size in sizes]
        found.append(own[np.concatenate([np.zeros(0, np.bool_), *masks])])
    return found


def place_of(row: int, source: Source, rows: EpochRows) -> str:
    """Return where one of the rows that stay lies, for messages.

    Args:
        row: the number of the row among the rows that stay.
        source: the files.
        rows: the rows that stay.
    """
    groups = rows.row_groups
    ends = np.cumsum(groups.rows)
    group = int(np.searchsorted(ends, row, side="right"))
    own = row - int(ends[group] - groups.rows[group])
    kind = "selected row" if rows.files else "row"
    path = source.files[int(groups.file[group])].path
    return f"{path}, row group {int(groups.index[group])}, {kind} {own}"


def read_files(
    source: Source,
    projection: Projection,
    files: Sequence[int],
    io: IO,
    memory_budget: int,
    rows: EpochRows | None = None,
) -> Iterator[Values]:
    """Yield the values of the rows of each file.

    Args:
        source: the files.
        projection: the projection, whose only output is one value a row.
        files: indices of the files.
        io: the options for reading files.
        memory_budget: the bytes that this process may use.
        rows: the rows that stay, of which alone to read values; None = all rows.
    """
    among = np.isin(source.row_group_file, files)
    row_groups = RowGroups(
        (source.row_group_rows if rows is None else rows.row_groups.rows)[among],
        source.row_group_file[among],
        source.row_group_index[among],
    )
    counts = np.bincount(
        row_groups.file, weights=row_groups.rows, minlength=len(source.files)
    ).astype(np.int64)[files]
    budget = divide_budget(
        min(memory_budget, _MOST_BYTES),
        batch_size=_BATCH_ROWS,
        row_bytes=8,
        staged_row_bytes=0,
        total_rows=row_groups.total_rows,
        shuffle_window=None,
        columns=1,
        work=work_units(projection.outputs),
        threads=available_cores(),
        prefetch=4,
        once=True,
    )
    options = Options(batch_size=_BATCH_ROWS, uneven="keep")
    plan = read_plan(row_groups, options, 0, WorkerSlot(1), stripe_rows=budget.stripe_rows)
    name = projection.outputs[0].name
    kept = () if rows is None else rows.files
    with (
        contextlib.closing(
            Engine(source, projection, projection.outputs, budget, io, kept, data=False)
        ) as engine,
        contextlib.closing(_batches(engine, plan, name)) as batches,
    ):
        left: Values | None = None
        for count in counts.tolist():
            parts = [] if left is None else [left]
            have = 0 if left is None else len(left)
            while have < count:
                batch = next(batches)
                parts.append(batch)
                have += len(batch)
            together = np.concatenate(parts) if parts else np.zeros(0)
            left = together[count:]
            yield together[:count]


def _batches(engine: Engine, plan: ReadPlan, name: str) -> Generator[Values, None, None]:
    """Yield the values of each batch; read a corrupt row group of a store once more."""
    done, tried = 0, set[tuple[int, int]]()
    while True:
        with contextlib.closing(engine.start(plan, _BATCH_ROWS)) as scan:
            try:
                for number in count():
                    lent = engine.next_of(scan)
                    if lent is None:
                        return
                    if number >= done:
                        done += 1
                        yield engine.batch_of(lent, None)[0][name].numpy().copy()
            except CorruptFileError as error:
                if not engine.reads_again(error, tried):
                    raise


class ValueCache:
    """A directory of entries. Without a directory, and after the first failure, nothing is kept.

    Args:
        directory: name of the directory.
        what: the values in words, for a warning.
        magic: 8 bytes at the beginning of an entry.
        kind: kind of the values, as numpy's `dtype.kind`: "u" or "f".
        widths: bytes of a value that an entry may have.
    """

    def __init__(
        self, directory: str, what: str, magic: bytes, kind: str, widths: Sequence[int]
    ) -> None:
        self._home = CacheDirectory(
            directory, what, "they stay in memory and are found again next time"
        )
        self._magic = magic
        self._kind = kind
        self._widths = tuple(widths)

    def load(self, key: str) -> Values | None:
        """Return the values of an entry; None if there is no undamaged one, or the key is ""."""
        if self._home.path is None or not key:
            return None
        try:
            content = (self._home.path / key).read_bytes()
            mark_used(self._home.path / key)
        except OSError:
            return None
        if len(content) >= _HEAD.size:
            magic, width, rows, crc = _HEAD.unpack_from(content)
            body = content[_HEAD.size :]
            sound = magic == self._magic and width in self._widths and len(body) == width * rows
            if sound and zlib.crc32(body) == crc:
                return np.frombuffer(body, f"<{self._kind}{width}")
        with contextlib.suppress(OSError):
            (self._home.path / key).unlink()
        return None

    def found(
        self, keys: Sequence[str], doing: str, read: Callable[[Sequence[int]], Iterator[Values]]
    ) -> list[Values]:
        """Return the values of each file; those that no entry holds are read, and stored.

        Args:
            keys: key of each file's entry.
            doing: what reading does, for the line of progress.
            read: yields the values of the files with some indices.
        """
        found = [self.load(key) for key in keys]
        missing = [index for index, values in enumerate(found) if values is None]
        if missing:
            progress = ProgressLine(doing, len(keys), "files")
            done = len(keys) - len(missing)
            for index, values in zip(missing, read(missing), strict=True):
                found[index] = values
                self.store(keys[index], values)
                done += 1
                progress.show(done)
        return [values for values in found if values is not None]

    def store(self, key: str, values: Values) -> None:
        """Write an entry, unless the key is ""."""
        if self._home.path is None or not key:
            return
        body = values.astype(values.dtype.newbyteorder("<")).tobytes()
        head = _HEAD.pack(self._magic, values.itemsize, len(values), zlib.crc32(body))
        try:
            remove_abandoned_once(self._home.path)
            remove_unused_once(self._home.path, "*")
            with publish(self._home.path / key) as file:
                file.writelines([head, body])
        except OSError as error:
            self._home.give_up(error)
