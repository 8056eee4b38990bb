"""Digests that name what a cache keeps."""

from __future__ import annotations

import hashlib

__all__ = ["digest"]


def digest(*parts: str | bytes | memoryview) -> str:
    """Return 32 hexadecimal digits (BLAKE2b, 128 bits) that name a sequence of parts.

    The length of each part is hashed before the part, so ("a", "bc") and ("ab", "c") differ. A
    string counts as its bytes in UTF-8; file names that are not valid UTF-8 are allowed. A
    memoryview counts as its bytes, and must be contiguous.
    """
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        state.update(b"%d:" % memoryview(data).nbytes)
        state.update(data)
    return state.hexdigest()
