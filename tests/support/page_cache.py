"""Has files leave the system's page cache, for tests and benchmarks."""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_PATIENCE_S = 10.0


def leave_page_cache(path: str | Path) -> bool:
    """Whether none of a file is in the page cache any more."""
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
    """Bytes of a file that are in the page cache, in whole pages.

    To look by reading would bring what is looked at.
    """
    # A private mapping, since Python gives the address of what it may write to alone.
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
