"""Summary files (`_metadata`), which have the footers of all files of a directory.

Nobody keeps them up to date, so they count only where nothing speaks against it: all files are
named, none is newer, and the footers of the first and the last one say the same.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from fastload.errors import FastloadError
from fastload.runtime.native import core

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastload.source.files import FoundFile

__all__ = ["read_summaries"]

_log = logging.getLogger("fastload")

_GCS = ("gs", "gcs")
# Fewer footers are asked for as quickly.
_LEAST_FILES = 4

Tails = dict[int, tuple[bytes, int, int]]
"""By index of the file: its footer, its size and its modification time (-1 in a store)."""


def read_summaries(
    found: Sequence[FoundFile], lacking: Sequence[int], read: Callable[[Sequence[FoundFile]], Tails]
) -> Tails:
    """The footers of files that summary files have.

    Args:
        found: all files.
        lacking: those whose footers are not known.
        read: reads footers of files.

    One that does not fit the files is left out, which is logged.
    """
    by_summary: dict[FoundFile, list[int]] = {}
    for index in lacking:
        summary = found[index].summary
        if summary is not None:
            by_summary.setdefault(summary, []).append(index)
    tails: Tails = {}
    for summary, indices in by_summary.items():
        if len(indices) < _LEAST_FILES:
            continue
        try:
            tails |= _footers_of(summary, [(i, found[i]) for i in indices], read)
        except (_StaleError, FastloadError, OSError) as error:
            _log.warning(
                "fastload: read the footer of each file, as the summary file doesn't fit them: %s "
                "- at %s",
                error,
                summary.path,
            )
    return tails


class _StaleError(Exception):
    """Why a summary file does not count."""


def _footers_of(
    summary: FoundFile,
    files: Sequence[tuple[int, FoundFile]],
    read: Callable[[Sequence[FoundFile]], Tails],
) -> Tails:
    written = _written(summary)
    ends = [file for _, file in (files[0], files[-1])]
    own, *read_ends = read([summary, *ends]).values()
    named = dict(core.split_summary(own[0]))
    tails: Tails = {}
    for index, file in files:
        name = "/".join((*file.folders, os.path.basename(file.path)))
        if name not in named:
            raise _StaleError(f"it does not name {name}")
        size, mtime_ns = _size(file)
        if _written(file) > written:
            raise _StaleError(f"{name} was written after it")
        tails[index] = (named[name], size, mtime_ns)
    for (index, file), (tail, size, _) in zip((files[0], files[-1]), read_ends, strict=True):
        if not _same(
            core.Footer(tails[index][0], size, file.path), core.Footer(tail, size, file.path)
        ):
            raise _StaleError(f"it has another footer of {file.path}")
    return tails


def _same(first: core.Footer, second: core.Footer) -> bool:
    if first.row_group_rows != second.row_group_rows or not first.same_schema(second):
        return False
    chunks = (footer.leaf_chunks(0) for footer in (first, second) if footer.leaves)
    sizes = [(each.compressed_bytes, each.num_values) for each in chunks]
    return sizes[1:] == sizes[:-1]


def _written(file: FoundFile) -> int:
    """What grows with the time at which a file was written."""
    if file.stored is None:
        return os.stat(file.path).st_mtime_ns
    if file.kind in _GCS and file.stored.version.isdigit():
        return int(file.stored.version)  # a generation is a time
    raise _StaleError("nothing tells which files are newer")


def _size(file: FoundFile) -> tuple[int, int]:
    if file.stored is not None:
        return file.stored.size, -1
    status = os.stat(file.path)
    return status.st_size, status.st_mtime_ns
