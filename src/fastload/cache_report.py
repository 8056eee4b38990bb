"""What `fastload-cache` tells of a cache and does to it, as JSON has it and people read it."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from itertools import groupby
from typing import TYPE_CHECKING, Any

from fastload._native import core
from fastload.cache import RAW, Cache, open_directory
from fastload.cache_entries import described, entries_of, make_room, remove_all, used_bytes
from fastload.errors import CacheError
from fastload.progress_bar import showing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["clear", "contents", "lines_of", "prune", "verify"]


def contents(cache: Cache) -> dict[str, Any]:
    """The files of which ranges are kept, the ones used last first."""
    directory = _existing(cache)
    objects = []
    for name, entries in groupby(entries_of(directory), lambda entry: entry.object):
        own = list(entries)
        used_s = max(entry.used_ns for entry in own) // 10**9
        objects.append(
            {
                "url": "(not known)",
                **described(directory, name),
                "ranges": len(own),
                "bytes": sum(entry.disk_bytes for entry in own),
                "used": datetime.fromtimestamp(used_s, timezone.utc).isoformat(),
            }
        )
    objects.sort(key=lambda each: (each["used"], each["url"]), reverse=True)
    return {"directory": os.fspath(cache.path), "bytes": used_bytes(directory), "files": objects}


def verify(cache: Cache, *, progress: bool) -> dict[str, Any]:
    """Compares all entries with their checksums, and removes those that are damaged."""
    directory = _existing(cache)
    entries = list(entries_of(directory))
    total, done = sum(entry.stop - entry.start for entry in entries), 0
    damaged = []
    with showing(progress, "bytes") as told:
        for entry in entries:
            place = (os.fspath(directory), entry.object, entry.start, entry.stop)
            if core.check_range(*place) is False:
                url = described(directory, entry.object).get("url", entry.object)
                damaged.append({"url": url, "start": entry.start, "stop": entry.stop})
            done += entry.stop - entry.start
            told(done, total)
    return {"checked": len(entries), "bytes": total, "damaged": damaged}


def prune(cache: Cache, most_bytes: int) -> dict[str, Any]:
    """Removes what was not used for longest, until so many bytes at most are left."""
    left, removed = make_room(_existing(cache), most_bytes)
    return {"removed": removed, "bytes": left}


def clear(cache: Cache) -> dict[str, Any]:
    """Removes all that is not in use."""
    directory = _existing(cache)
    return {"removed": remove_all(directory), "bytes": used_bytes(directory)}


def lines_of(result: dict[str, Any]) -> Iterator[str]:
    """What any of these returned, to read."""
    if "files" in result:
        for file in result["files"]:
            yield f"{file['bytes']:>15}  {file['ranges']:>6}  {file['used']}  {file['url']}"
        yield f"{result['bytes']:>15} bytes in {result['directory']}"
    elif "damaged" in result:
        for each in result["damaged"]:
            yield f"damaged, and removed: bytes {each['start']} to {each['stop']} of {each['url']}"
        count = len(result["damaged"])
        yield f"{result['checked']} ranges of {result['bytes']} bytes, {count} of them damaged"
    elif "removed" in result:
        yield f"removed {result['removed']} ranges; {result['bytes']} bytes are left"
    else:
        warmed = result["warmed"]
        yield f"{warmed['rows']} rows of {warmed['files']} files are in the cache"


def _existing(cache: Cache) -> Path:
    if not (cache.path / RAW).is_dir():
        raise CacheError(f"Expected a cache, found none - at {cache.path}")
    return open_directory(cache, RAW)
