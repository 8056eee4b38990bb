"""The source of a dataset: its files, their footers and their row groups."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from fastload.errors import SourceNotFoundError
from fastload.source.footers import read_footers
from fastload.source.hive import keys_of
from fastload.source.local_paths import find_files
from fastload.source.stores.hub.hub_paths import HUB, split_pinned
from fastload.source.stores.io import IO
from fastload.source.stores.stores import Stores
from fastload.source.tables.delta import Delta
from fastload.source.tables.iceberg import Iceberg

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastload.source.files import PathLike, SourceFile
    from fastload.source.tables.table import Table, TableFile

__all__ = ["Source", "SourceArgument", "changed_file", "same_files"]

SourceArgument: TypeAlias = "PathLike | Sequence[PathLike] | Delta | Iceberg"
"""The `source` argument of a dataset."""


@dataclass(frozen=True)
class Source:
    """Files in canonical order, with all their row groups.

    The three arrays are read-only int64 arrays of shape (G,), with one entry for each of the G
    row groups of all files, in canonical order.

    Attributes:
        files: the files.
        row_group_rows: number of rows of each row group.
        row_group_file: index in `files` of each row group's file.
        row_group_index: index of each row group in its file.
        storage: the stores of files that are not local.
        table: the version of the table that the files belong to; None = plain files.
    """

    files: tuple[SourceFile, ...]
    row_group_rows: npt.NDArray[np.int64] = field(repr=False)
    row_group_file: npt.NDArray[np.int64] = field(repr=False)
    row_group_index: npt.NDArray[np.int64] = field(repr=False)
    storage: Stores
    table: Table | None = field(default=None, repr=False)

    @classmethod
    def open(
        cls,
        source: SourceArgument,
        storage: Stores | None = None,
        prune: Callable[[Table], Sequence[TableFile]] | None = None,
    ) -> Source:
        """Find the files and read their footers, in parallel.

        Args:
            source: a file, a directory (searched to any depth), a glob (`**` too), a URL, or a
                list of them. A list keeps its order. The files of a directory or a glob are
                sorted by path, without names that start with "_" or ".". Directories that are
                called `key=value` are Hive keys, if they lie below the directory of the source,
                or match a glob from its first wildcard on. Or a version of a table.
            storage: the stores of files that are not local; None = stores as URLs name them,
                read with the defaults of `IO`.
            prune: returns the files of a table whose footers are read; None = all files.

        Raises:
            SourceNotFoundError: no file was found, or a table has no files. Every error about a
                file names the file.
            CorruptFileError: a file is not Parquet, or its footer is damaged.
            StorageError: a file or directory can't be read.
            SourceChangedError: a file changed while its footer was read.
            UnsupportedTypeError: a footer is legal Parquet that fastload can't read yet, or a
                directory is a Delta or Iceberg table.
            ImportError: the library that reads the metadata of a table is not installed.
            SchemaError: the name of a Hive key is not UTF-8.
            TypeError: an entry of the source is not a path.
            ValueError: a URL has an unknown scheme, or a file:// URL names a host.
        """
        storage = storage or Stores(None, None, IO())
        if isinstance(source, (Delta, Iceberg)):
            return cls._of_table(source._open(storage), storage, prune)  # noqa: SLF001
        found = find_files(source, storage.find)
        return cls.of_files(read_footers(found, storage), storage)

    @classmethod
    def _of_table(
        cls,
        table: Table,
        storage: Stores,
        prune: Callable[[Table], Sequence[TableFile]] | None,
    ) -> Source:
        if not table.files:
            raise SourceNotFoundError(
                f"Expected a table with rows, got {table.version} without files - at "
                f"{table.columns.location}"
            )
        listed = table.files if prune is None else prune(table)
        found = storage.locate([file.path for file in listed])
        files = [
            replace(
                read,
                name=file.name,
                constants=file.constants,
                uri=file.uri,
                deletes=file.deletes,
            )
            for file, read in zip(listed, read_footers(found, storage), strict=True)
        ]
        return replace(cls.of_files(files, storage), table=replace(table, files=()))

    @classmethod
    def of_files(cls, files: Sequence[SourceFile], storage: Stores) -> Source:
        """Make a source of files whose footers have been read, in their order."""
        per_file = [file.footer.packed_rows for file in files]
        counts = np.array([len(rows) // 8 for rows in per_file], dtype=np.int64)
        rows = np.frombuffer(b"".join(per_file), np.int64)
        file_index = np.repeat(np.arange(len(files), dtype=np.int64), counts)
        first = np.repeat(np.cumsum(counts) - counts, counts)
        index = np.arange(len(rows), dtype=np.int64) - first
        for array in (rows, file_index, index):
            array.setflags(write=False)
        return cls(tuple(files), rows, file_index, index, storage)

    @property
    def num_rows(self) -> int:
        """Number of rows of all files."""
        return int(self.row_group_rows.sum())

    @property
    def most_row_group_rows(self) -> int:
        """Number of rows of the largest row group; 0 without row groups."""
        return int(self.row_group_rows.max(initial=0))

    @property
    def remote(self) -> bool:
        """True if a file lies in a store."""
        return any(file.stored is not None for file in self.files)

    @property
    def has_deletes(self) -> bool:
        """True if the table may have deleted rows of the files."""
        vectors = self.table is not None and self.table.vectors is not None
        return vectors or any(file.deletes for file in self.files)

    @cached_property
    def fingerprint(self) -> str:
        """Fingerprint that a saved state is checked against: 32 hexadecimal digits.

        The fingerprint covers each file's name (without directories), Hive keys, size and footer,
        in order, and the version of the table, or the commits on the Hugging Face Hub. So the
        files of a dataset may be moved or copied, but not reordered or rewritten.
        """
        table = self.commits if self.table is None else self.table.identity
        digest = hashlib.blake2b(table.encode(), digest_size=16)
        for file in self.files:
            digest.update(_identity(file))
        return digest.hexdigest()

    @cached_property
    def commits(self) -> str:
        """The commits of the files on the Hugging Face Hub, as messages call them; "" = none."""
        found: dict[str, None] = {}
        for file in self.files:
            parts = split_pinned(file.stored.path) if file.kind == HUB and file.stored else None
            if parts is not None:
                found[f"commit {parts[1]} of {HUB}://{parts[0]}"] = None
        return ", ".join(sorted(found))

    @cached_property
    def file_sums(self) -> tuple[int, int]:
        """Sums by which a saved state finds the file that has changed."""
        return file_sums(self.files)


# The largest prime below 2**53. Every JSON reader keeps integers below 2**53 exactly.
_PRIME = 2**53 - 111


def file_sums(files: Sequence[SourceFile]) -> tuple[int, int]:
    """Return two sums from which `changed_file` finds a single changed file.

    With h(i) the hash of file i, they are the sums of h(i) and of (i + 1) * h(i). When the hash
    of one file changes by d, the sums change by d and by (i + 1) * d, whose quotient is i + 1.
    """
    plain = weighted = 0
    for number, file in enumerate(files, 1):
        own = int.from_bytes(hashlib.blake2b(_identity(file), digest_size=8).digest(), "little")
        plain += own
        weighted += number * own
    return plain % _PRIME, weighted % _PRIME


def changed_file(before: Sequence[int], now: Sequence[int], files: int) -> int | None:
    """Return the index of the changed file, or None unless exactly one file has changed.

    Args:
        before: sums that `file_sums` returned for the files before.
        now: sums for the present files.
        files: number of files, the same before and now.
    """
    plain, weighted = ((a - b) % _PRIME for a, b in zip(now, before, strict=True))
    if not plain:
        return None
    number = weighted * pow(plain, -1, _PRIME) % _PRIME
    return number - 1 if 1 <= number <= files else None


def same_files(before: Sequence[int], files: Sequence[SourceFile]) -> Literal["order", "keys", ""]:
    """Return what alone tells the files of two sources apart; "" if the files differ.

    Args:
        before: sums that `file_sums` returned for the files before, as many as now.
        files: the present files.

    Returns:
        "order" if the files are the same in another order, "keys" if they are the same with Hive
        keys where they had none, or without the keys of all of their directories.
    """
    if list(before) == list(file_sums(files)):
        return ""
    if before[0] == file_sums(files)[0]:
        return "order"
    without = [replace(file, keys=()) for file in files]
    with_all = [replace(f, keys=keys_of(f.path.split("/")[:-1], f.path)) for f in files]
    if list(before) in (list(file_sums(without)), list(file_sums(with_all))):
        return "keys"
    return ""


def _identity(file: SourceFile) -> bytes:
    name = os.path.basename(file.path).encode("utf-8", "surrogateescape")
    identity = b"%d:%s:%d:%s" % (len(name), name, file.size, file.digest)
    return identity + (repr(file.keys).encode() if file.keys else b"")
