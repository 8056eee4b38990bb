"""Versions of files of web servers: their ETag, else the time when they changed.

The time is written as a weak ETag is, "W/Thu, 01 Jan 2026 00:00:00 GMT", because files with the
same time may have different bytes.
"""

from __future__ import annotations

import time
from email.utils import format_datetime, parsedate_to_datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["check_version", "is_strong", "version_of"]

WEAK = "W/"
# A server may give the time of its answer to a file that it makes.
_SETTLED_S = 60.0


def version_of(etag: str | None, changed: str | datetime | None) -> str:
    """Return the version of a file by the headers of an answer; "" if they have none.

    Args:
        etag: the ETag.
        changed: the time in Last-Modified.
    """
    if etag:
        return etag
    then = _time(changed)
    if then is None or then.timestamp() > time.time() - _SETTLED_S:
        return ""
    return f"{WEAK}{format_datetime(then)}"


def is_strong(version: str) -> bool:
    """Return whether files with the same version have the same bytes."""
    return bool(version) and not version.startswith(WEAK)


def check_version(version: str, etag: str | None, changed: str | datetime | None) -> None:
    """Check that an answer, by its headers, has bytes of a version; it may lack the headers.

    Raises:
        FileNotFoundError: the answer has bytes of another version.
    """
    bare = _bare(version)
    if version.startswith(WEAK) and not version.startswith(f'{WEAK}"'):
        then = _time(changed)
        found = "" if then is None else format_datetime(then)
    else:
        found = _bare(etag or "")
    if bare and found and bare != found:
        raise FileNotFoundError("another version")


def _bare(etag: str) -> str:
    """Return an ETag without its quotes, which some answers lack."""
    return etag.removeprefix(WEAK).strip('"')


def _time(changed: str | datetime | None) -> datetime | None:
    if isinstance(changed, str):
        try:
            changed = parsedate_to_datetime(changed)
        except ValueError:
            return None
    if changed is None or changed.tzinfo is None:
        return None
    # obstore has the time 0 where there is none.
    return changed if changed.timestamp() > 0 else None
