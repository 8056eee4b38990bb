"""The rows that a predicate keeps, found row group by row group when they are needed."""

from __future__ import annotations

import contextlib
import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fastload.plan.kept_rows import FileRows, empty_rows, pack_rows, put_bits
from fastload.rows.selection import RowSelection, entry_keys, select_rows
from fastload.rows.selection_cache import SelectionCache

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.plan.intervals import Int64s
    from fastload.plan.options import Options
    from fastload.plan.position import Part, Position
    from fastload.rows.filter_schema import FilterSchema
    from fastload.rows.finder import RowFinder
    from fastload.rows.predicate import Predicate
    from fastload.source.source import Source

__all__ = ["FoundRows"]


class FoundRows:
    """The rows of a source that a predicate keeps, as far as they are known.

    A pickle has them only if all are known; a copy looks for the others anew.

    Args:
        source: the files.
        schema: of their columns.
        predicate: what rows have to pass.
        skip: as `select_rows` takes it.
        places: as the attribute; None = from the cache, else from the footers.
        whole: the rows, if they are known.

    Attributes:
        places: int64 (row groups,), as `RowFinder.places` has it.
        found: int64 (row groups,), rows of each row group that stay; 0 where nobody has looked.

    Raises `SourceChangedError`, `StorageError` or `CorruptFileError`, naming the file.
    """

    def __init__(
        self,
        source: Source,
        schema: FilterSchema,
        predicate: Predicate,
        skip: bool,
        places: Int64s | None = None,
        whole: RowSelection | None = None,
    ) -> None:
        self._source = source
        self._schema = schema
        self._predicate = predicate
        self._skip = skip
        self._keys = entry_keys(source, schema, predicate)
        self._cache = SelectionCache()
        self.places = self._read_places() if places is None else places
        self.found = np.zeros_like(self.places)
        self._unknown = self.places > 0
        self._first = np.searchsorted(source.row_group_file, np.arange(len(source.files) + 1))
        self._files: dict[int, FileRows] = {}  # whole ones, and those that a pipeline reads
        self._corrupt: dict[tuple[int, int], str] = {}
        if whole is not None:
            self._take_all(whole)

    @property
    def known(self) -> bool:
        """Whether the rows of all row groups are."""
        return not self._unknown.any()

    @property
    def counts(self) -> Int64s:
        """Rows of each row group that stay, after `find_all`: int64 (row groups,)."""
        self.find_all()
        return self.found

    @property
    def corrupt(self) -> tuple[tuple[int, int, str], ...]:
        """Row groups found unreadable: index of the file, row group and cause."""
        return tuple((*place, cause) for place, cause in self._corrupt.items())

    @property
    def files(self) -> tuple[FileRows, ...]:
        """By file, its rows. Their bits are those found so far, and filled in as more are."""
        for file in range(len(self._source.files)):
            if file not in self._files:
                self._files[file] = self._unfilled(file)
        return tuple(self._files[file] for file in range(len(self._source.files)))

    def finder(self) -> RowFinder:
        """What `find` takes; to be closed."""
        # With modules of pyarrow that datasets without filters don't wait for.
        from fastload.rows.finder import RowFinder

        return RowFinder(self._source, self._schema, self._predicate, skip=self._skip)

    def find(self, finder: RowFinder, groups: Int64s) -> None:
        """Finds the rows of row groups, by their numbers among those of all files.

        Raises as `select_rows`.
        """
        wanted: dict[int, list[int]] = {}
        for group in np.sort(groups[self._unknown[groups]]).tolist():
            file = int(self._source.row_group_file[group])
            wanted.setdefault(file, []).append(group - int(self._first[file]))
        for found in finder.row_groups(wanted):
            self._note(found.file, found.rows, wanted[found.file])
            self._corrupt.update({(found.file, g): cause for g, cause in found.corrupt.items()})
        for file in wanted:
            self._keep(file)

    def load(self) -> None:
        """Takes from the cache what is there."""
        for file in np.unique(self._source.row_group_file[self._unknown]).tolist():
            rows = self._cache.load(self._keys[file])
            if rows is not None:
                self._take(file, rows)

    def finds(self, start: Position, part: Part, options: Options) -> bool:
        """Whether a pass finds its rows on the way; if not, all are known from here on.

        A pass that goes on somewhere, that several workers share, or that `limit` ends, needs
        the counts of others' rows. Raises as `select_rows`.
        """
        self.load()
        if self.known:
            return False
        if not (start.progress or start.taken or part.workers > 1 or options.limit is not None):
            return True
        self.find_all()
        return False

    def find_all(self) -> None:
        """Finds the rows of all row groups, once for all processes of a node.

        Raises as `select_rows`.
        """
        if not self.known:
            self._take_all(select_rows(self._source, self._schema, self._predicate, self._skip))

    def __reduce__(self) -> tuple[Any, ...]:
        made_of = (self._source, self._schema, self._predicate)
        whole = None
        if self.known:
            whole = RowSelection(*made_of, self.files, self._skip, self.corrupt)
        return FoundRows, (*made_of, self._skip, self.places, whole)

    def _of_file(self, file: int) -> slice:
        return slice(*self._first[file : file + 2].tolist())

    def _unfilled(self, file: int) -> FileRows:
        of_file = self._of_file(file)
        rows = np.where(self.places[of_file] > 0, self._source.row_group_rows[of_file], 0)
        return empty_rows(rows, self.found[of_file])

    def _take_all(self, whole: RowSelection) -> None:
        self._corrupt.update({place[:2]: place[2] for place in whole.corrupt})
        for file, rows in enumerate(whole.files):
            self._take(file, rows)

    def _take(self, file: int, rows: FileRows) -> None:
        """Notes the rows of a whole file."""
        if file in self._files:
            self._note(file, rows, range(len(rows.counts)))
        else:
            self._files[file] = rows
            self.found[self._of_file(file)] = rows.counts
            self._unknown[self._of_file(file)] = False

    def _note(self, file: int, rows: FileRows, groups: Sequence[int]) -> None:
        """Notes the rows of some row groups of a file; those known already stay untouched."""
        if file not in self._files:
            self._files[file] = self._unfilled(file)
        mine, first = self._files[file], int(self._first[file])
        for group in groups:
            if self._unknown[first + group]:
                stored = int(self._source.row_group_rows[first + group])
                put_bits(mine, group, stored, rows)
                self.found[first + group] = rows.counts[group]
                # From now on also to other threads.
                self._unknown[first + group] = False

    def _keep(self, file: int) -> None:
        """Keeps the rows of a file on disk, once all are known; not if some can't be read."""
        counts = self.found[self._of_file(file)]
        unknown = self._unknown[self._of_file(file)]
        if unknown.any() or any(place[0] == file for place in self._corrupt):
            return
        rows, stored = self._files[file], self._source.row_group_rows[self._of_file(file)]
        kept = [
            None if count in (0, size) else rows.bits[offset : offset + -(-size // 8)]
            for count, size, offset in zip(
                counts.tolist(), stored.tolist(), rows.offsets.tolist(), strict=True
            )
        ]
        self._cache.store(self._keys[file], pack_rows(counts.tolist(), kept))

    def _read_places(self) -> Int64s:
        digest = hashlib.blake2b(pa.__version__.encode(), digest_size=16)
        digest.update("".join(self._keys).encode())
        key = digest.hexdigest()
        kept = self._cache.load(key)
        if kept is not None and len(kept.counts) == len(self._source.row_group_rows):
            return kept.counts
        with contextlib.closing(self.finder()) as finder:
            places = finder.places()
        self._cache.store(key, pack_rows(places.tolist(), [None] * len(places)))
        return places
