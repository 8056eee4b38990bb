"""Removal of files from the system's page cache, for tests and benchmarks."""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_PATIENCE_S = 10.0


def leave_page_cache(path: str | Path) -> bool:
    """Remove a file from the page cache; return True if no page of the file is left there."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        until = time.monotonic() + _PATIENCE_S
        while True:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            if not cached_bytes(path):
                return True
            if time.monotonic() > until:
                return False
            time.sleep(0.05)
    finally:
        os.close(descriptor)


def cached_bytes(path: str | Path) -> int:
    """Return the bytes of a file that are in the page cache, in whole pages.

    The function does not read the file, because reads fill the page cache.
    """
    # A private mapping, because Python gives addresses of writable memory only.
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY)
    first = ctypes.c_char.from_buffer(mapped)
    pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
    refused = _LIBC.mincore(ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(size), pages)
    error = ctypes.get_errno()
    del first
    mapped.close()
    if refused:
        raise OSError(error, os.strerror(error), str(path))
    return sum(page & 1 for page in bytes(pages)) * mmap.PAGESIZE
