"""Actions of `fastload-cache` on a cache, whose results are plain values or lines of text."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

from fastload.errors import CacheError
from fastload.runtime.disk.cache import DECODED, RAW, Cache, tiers_of
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

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["clear", "contents", "lines_of", "prune", "verify"]


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
    left, removed = make_room(_existing(cache), most_bytes)
    return {"removed": len(removed), "bytes": left}


def clear(cache: Cache) -> dict[str, Any]:
    """Remove all entries that are not in use."""
    directories = _existing(cache)
    removed = remove_all(*directories)
    return {"removed": removed, "bytes": sum(map(used_bytes, directories))}


def lines_of(result: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of text that describe the result of an action."""
    if "files" in result:
        for file in result["files"]:
            entries = f"{file['entries']:>6} {file['tier']:<7}"
            yield f"{file['bytes']:>15}  {entries}  {file['used']}  {file['url']}"
        yield f"{result['bytes']:>15} bytes in {result['directory']}"
    elif "damaged" in result:
        for each in result["damaged"]:
            what = f"row group {each.get('row_group')}"
            if "start" in each:
                what = f"bytes {each['start']} to {each['stop']}"
            yield f"damaged and removed: {what} of {each['url']}"
        count = len(result["damaged"])
        yield f"{result['checked']} entries of {result['bytes']} bytes, {count} of them damaged"
    elif "removed" in result:
        yield f"removed {result['removed']} entries; {result['bytes']} bytes are left"
    else:
        warmed = result["warmed"]
        yield f"{warmed['rows']} rows of {warmed['files']} files are in the cache"


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
    tier = "raw" if directory.name == RAW else "decoded"
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
    if directory.name == DECODED:
        return core.check_block(entry.path, f"{entry.object}/{entry.name}")
    assert entry.range is not None
    return core.check_range(os.fspath(directory), entry.object, *entry.range)


def _location(entry: Entry) -> dict[str, int]:
    if entry.range is None:
        return {"row_group": int(entry.name.partition("-")[0])}
    start, stop = entry.range
    return {"start": start, "stop": stop}
