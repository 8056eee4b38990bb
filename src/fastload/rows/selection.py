"""From filters and a split to the rows of each row group that stay.

pyarrow prunes row groups by statistics and hive keys; of the others the exact rows are found
from the columns that filters and split name, row groups in parallel.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fastload.rows.selection_cache import SelectionCache

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.plan.intervals import Int64s
    from fastload.plan.kept_rows import FileRows
    from fastload.rows.filter_schema import FilterSchema
    from fastload.rows.predicate import Predicate
    from fastload.source.files import SourceFile
    from fastload.source.source import Source

__all__ = ["RowSelection", "select_rows"]

# Of the way rows are found: entries of another version are not looked at.
_VERSION = b"2"


@dataclass(frozen=True, slots=True, eq=False)
class RowSelection:
    """The rows of a source that a predicate keeps, by file.

    A pickle has what is mapped from the cache by its key only.

    skip: a row group that can't be read has no row that stays.
    corrupt: those, as index of the file, row group and cause.
    """

    source: Source
    schema: FilterSchema
    predicate: Predicate
    files: tuple[FileRows, ...]
    skip: bool = False
    corrupt: tuple[tuple[int, int, str], ...] = ()

    @property
    def counts(self) -> Int64s:
        """Rows of each row group of all files that stay: int64 (row groups,)."""
        return np.concatenate([np.zeros(0, np.int64), *(file.counts for file in self.files)])

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = (self.source, self.schema, self.predicate)
        if any(file.mapped for file in self.files):
            return select_rows, (*arguments, self.skip)
        return RowSelection, (*arguments, self.files, self.skip, self.corrupt)


def select_rows(
    source: Source, schema: FilterSchema, predicate: Predicate, skip: bool = False
) -> RowSelection:
    """Finds the rows that stay: in the cache, else in the files.

    skip: no row stays of a row group that can't be read; such a file is not kept in the cache.

    Raises `SourceChangedError`, `StorageError`, `CorruptFileError`, or `ValueError` for values
    that the filters can't be asked of, naming file and row group.
    """
    cache = SelectionCache()
    found: dict[int, FileRows] = {}
    corrupt: list[tuple[int, int, str]] = []
    keys = _entry_keys(source, schema, predicate)
    _load(cache, keys, found)
    if len(found) < len(keys):
        with cache.lock(predicate.digest.hex()):
            _load(cache, keys, found)
            missing = [index for index in range(len(keys)) if index not in found]
            # With modules of pyarrow that datasets without filters don't wait for.
            from fastload.rows.finder import RowFinder

            finder = RowFinder(source, schema, predicate, skip=skip)
            with contextlib.closing(finder):
                for file in finder.files(missing):
                    found[file.file] = (
                        file.rows if file.corrupt else cache.store(keys[file.file], file.rows)
                    )
                    corrupt += [(file.file, g, cause) for g, cause in file.corrupt.items()]
    files = tuple(found[i] for i in range(len(keys)))
    return RowSelection(source, schema, predicate, files, skip, tuple(corrupt))


def _load(cache: SelectionCache, keys: Sequence[str], found: dict[int, FileRows]) -> None:
    for index, key in enumerate(keys):
        if index not in found:
            rows = cache.load(key)
            if rows is not None:
                found[index] = rows


def _entry_keys(source: Source, schema: FilterSchema, predicate: Predicate) -> list[str]:
    """The keys of the files' entries in the cache."""
    head = _VERSION + predicate.digest + bytes(schema.arrow.serialize())
    return [_key(head, file) for file in source.files]


def _key(head: bytes, file: SourceFile) -> str:
    digest = hashlib.blake2b(head, digest_size=16)
    path = os.path.abspath(file.path) if file.stored is None else file.path
    stored = "" if file.stored is None else file.stored.version
    version = (path, file.size, file.mtime_ns, file.digest, file.keys, file.name, stored)
    digest.update(repr(version).encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
