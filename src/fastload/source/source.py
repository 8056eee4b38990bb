"""From paths to files and their footers."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fastload.source.files import SourceFile
from fastload.source.fingerprint import file_sums, fingerprint
from fastload.source.footers import ReadFooter, read_footers
from fastload.source.hive import keys_of
from fastload.source.local_paths import find_files
from fastload.source.stores.io import IO
from fastload.source.stores.stores import Stores

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.source.files import FoundFile, PathLike

__all__ = ["Source"]


@dataclass(frozen=True)
class Source:
    """Files in canonical order, with all their row groups.

    row_group_rows, row_group_file, row_group_index: int64 arrays of shape (G,), one entry for
        each row group of all files in canonical order: its rows, its index in `files`, its
        index in its file. Read-only.
    """

    files: tuple[SourceFile, ...]
    row_group_rows: npt.NDArray[np.int64] = field(repr=False)
    row_group_file: npt.NDArray[np.int64] = field(repr=False)
    row_group_index: npt.NDArray[np.int64] = field(repr=False)
    storage: Stores = field(default_factory=lambda: Stores(None, None, IO()))

    @classmethod
    def open(cls, source: PathLike | Sequence[PathLike], storage: Stores | None = None) -> Source:
        """Finds the files and reads their footers, in parallel.

        source: a file, a directory (searched to any depth), a glob (`**` too), a URL, or a list
            of them. A list keeps its order; what a directory or a glob holds is
            sorted by path, without names that start with "_" or ".". Directories below the
            one given, or from the first wildcard of a glob on, that are called `key=value`
            are hive keys.
        storage: of files that are not local; None = as URLs and `IO()` say.

        Raises `SourceNotFoundError`, `CorruptFileError`, `StorageError`,
        `UnsupportedTypeError` or `SchemaError` (of hive keys), naming the file; `TypeError` or
        `ValueError` for what is no local path.
        """
        storage = storage or Stores(None, None, IO())
        found = find_files(source, storage.find)
        footers = read_footers(found, storage)
        files = [_file_of(file, footer) for file, footer in zip(found, footers, strict=True)]
        return cls.of_files(files, storage)

    @classmethod
    def of_files(cls, files: Sequence[SourceFile], storage: Stores | None = None) -> Source:
        """A source of these files, in this order."""
        per_file = [file.footer.packed_rows for file in files]
        counts = np.array([len(rows) // 8 for rows in per_file], dtype=np.int64)
        rows = np.frombuffer(b"".join(per_file), np.int64)
        file_index = np.repeat(np.arange(len(files), dtype=np.int64), counts)
        first = np.repeat(np.cumsum(counts) - counts, counts)
        index = np.arange(len(rows), dtype=np.int64) - first
        for array in (rows, file_index, index):
            array.setflags(write=False)
        storage = storage or Stores(None, None, IO())
        return cls(tuple(files), rows, file_index, index, storage)

    @property
    def num_rows(self) -> int:
        """Rows of all files."""
        return int(self.row_group_rows.sum())

    @property
    def most_row_group_rows(self) -> int:
        """Rows of the largest row group; 0 = there is none."""
        return int(self.row_group_rows.max(initial=0))

    @property
    def remote(self) -> bool:
        """Whether some of the files lie in a store."""
        return any(file.stored is not None for file in self.files)

    @cached_property
    def fingerprint(self) -> str:
        """What a saved state is checked against: 32 hexadecimal digits.

        Over each file's name (without directories), hive keys, size and footer, in order: a
        dataset may be moved or copied, but not reordered or written anew.
        """
        return fingerprint(self.files)

    @cached_property
    def file_sums(self) -> tuple[int, int]:
        """What a saved state tells the changed file by."""
        return file_sums(self.files)


def _file_of(found: FoundFile, read: ReadFooter) -> SourceFile:
    return SourceFile(
        found.path,
        read.size,
        read.mtime_ns,
        read.footer,
        read.digest,
        keys_of(found.folders, found.path),
        "/".join((*found.folders, os.path.basename(found.path))),
        found.kind,
        found.stored,
    )
