"""Actions of `fastload-cache` on a cache, whose results are plain values or lines of text."""

from __future__ import annotations

import contextlib
import os
from datetime import datetime, timezone
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

from fastload.errors import CacheError
from fastload.runtime.disk.cache import PREPARED, RAW, Cache, tiers_of
from fastload.runtime.disk.entries import (
    Entry,
    described,
    entries_of,
    make_room,
    remove_all,
    used_bytes,
)
from fastload.runtime.disk.private_directory import open_directory
from fastload.runtime.native import core
from fastload.runtime.progress import showing
from fastload.runtime.units import ago, counted, size_of
from fastload.tools.terminal import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from rich.console import RenderableType

__all__ = ["clear", "contents", "parts_of", "prune", "verify"]


def contents(cache: Cache) -> dict[str, Any]:
    """Return the files of the cache by tier, the most recently used files first."""
    directories = _existing(cache)
    objects = list(chain.from_iterable(map(_objects, directories)))
    objects.sort(key=lambda each: (each["used"], each["url"]), reverse=True)
    total = sum(map(used_bytes, directories))
    return {"directory": os.fspath(cache.path), "bytes": total, "files": objects}


def verify(cache: Cache, *, progress: bool) -> dict[str, Any]:
    """Compare all entries with their checksums, and remove damaged entries."""
    entries = [(tier, entry) for tier in _existing(cache) for entry in entries_of(tier)]
    total, done = sum(entry.disk_bytes for _, entry in entries), 0
    damaged = []
    with showing(progress, "bytes") as report:
        for directory, entry in entries:
            if _is_good(directory, entry) is False:
                url = described(directory, entry.object).get("url", entry.object)
                damaged.append({"url": url, **_location(entry)})
            done += entry.disk_bytes
            report(done, total)
    return {"checked": len(entries), "bytes": total, "damaged": damaged}


def prune(cache: Cache, most_bytes: int) -> dict[str, Any]:
    """Remove the least recently used entries, until at most `most_bytes` bytes are left."""
    directories = _existing(cache)
    left, removed = make_room(directories, most_bytes)
    entries = _count(directories)
    return {"removed": len(removed), "bytes": left, "entries": entries, "limit": most_bytes}


def clear(cache: Cache) -> dict[str, Any]:
    """Remove all entries that are not in use."""
    directories = _existing(cache)
    removed = remove_all(*directories)
    left = sum(map(used_bytes, directories))
    return {"removed": removed, "bytes": left, "entries": _count(directories)}


def _count(directories: Sequence[Path]) -> int:
    return sum(1 for directory in directories for _ in entries_of(directory))


def parts_of(result: dict[str, Any]) -> Iterator[RenderableType]:
    """Yield the text and the tables that describe the result of an action."""
    if "files" in result:
        yield from _listed(result)
    elif "damaged" in result:
        for each in result["damaged"]:
            what = f"file {each.get('file')} of the prepared rows"
            if "start" in each:
                what = f"bytes {each['start']} to {each['stop']}"
            yield f"damaged and removed: {what} of {each['url']}"
        damaged = counted(len(result["damaged"]), "entry") if result["damaged"] else "none"
        checked = counted(result["checked"], "entry")
        yield f"checked {checked}, {size_of(result['bytes'])}; {damaged} damaged"
    elif "removed" in result:
        removed = counted(result["removed"], "entry")
        yield f"removed {removed}; {size_of(result['bytes'])} on disk left"
        limit, stay = result.get("limit"), result.get("entries")
        if limit is not None and result["removed"] and not stay:
            yield f"no entry fits in {size_of(limit)}"
        if stay and result["bytes"] > (limit or 0):
            yield f"{counted(stay, 'entry')} not removed: running processes have them in use"
    else:
        warmed = result["warmed"]
        rows, files = counted(warmed["rows"], "row"), counted(warmed["files"], "file")
        yield f"{rows} of {files} in the cache"


def _listed(result: dict[str, Any]) -> Iterator[RenderableType]:
    now = datetime.now(timezone.utc)
    rows = [
        (
            file["url"],
            file["tier"],
            f"{file['entries']:,}",
            size_of(file["bytes"]),
            ago((now - datetime.fromisoformat(file["used"])).total_seconds()),
        )
        for file in result["files"]
    ]
    if rows:
        yield Table(["file", "tier", "entries", "size", "last used"], rows, numbers=(2, 3))
    entries = counted(sum(file["entries"] for file in result["files"]), "entry")
    own = size_of(sum(file["bytes"] for file in result["files"]))
    total = f"{size_of(result['bytes'])} on disk with directories and descriptions"
    yield f"{entries} of {own}, {total}, in {result['directory']}"


def _existing(cache: Cache) -> list[Path]:
    """Return the directories of the tiers that exist.

    Raises:
        CacheError: the cache does not exist.
    """
    names = [tier.name for tier in tiers_of(cache) if tier.is_dir()]
    if not names:
        raise CacheError(f"Expected a cache, found none - at {cache.path}")
    return [open_directory(cache.path, name) for name in names]


def _objects(directory: Path) -> Iterator[dict[str, Any]]:
    tier = "raw" if directory.name == RAW else "prepared"
    for name, entries in groupby(entries_of(directory), lambda entry: entry.object):
        own = list(entries)
        used_s = max(entry.used_ns for entry in own) // 10**9
        yield {
            "url": "(not known)",
            **described(directory, name),
            "tier": tier,
            "entries": len(own),
            "bytes": sum(entry.disk_bytes for entry in own),
            "used": datetime.fromtimestamp(used_s, timezone.utc).isoformat(),
        }


def _is_good(directory: Path, entry: Entry) -> bool | None:
    if directory.name == PREPARED:
        good = _is_whole(entry.path)
        if not good:
            with contextlib.suppress(OSError):
                os.unlink(entry.path)
        return good
    assert entry.range is not None
    return core.check_range(os.fspath(directory), entry.object, *entry.range)


def _is_whole(path: str) -> bool:
    """Return whether the pages of a file of prepared rows have the checksums that it says."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for _ in file.iter_batches():
                pass
    except (pa.ArrowException, OSError):
        return False
    return True


def _location(entry: Entry) -> dict[str, int | str]:
    if entry.range is None:
        return {"file": entry.name}
    start, stop = entry.range
    return {"start": start, "stop": stop}
