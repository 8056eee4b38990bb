"""Digests that name what a cache keeps."""

from __future__ import annotations

import hashlib

__all__ = ["digest"]


def digest(*parts: str | bytes) -> str:
    """Return 32 hexadecimal digits (BLAKE2b, 128 bits) that name a sequence of parts.

    The length of each part is hashed before the part, so ("a", "bc") and ("ab", "c") differ. A
    string counts as its bytes in UTF-8; file names that are not valid UTF-8 are allowed.
    """
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass")
        state.update(b"%d:" % len(data))
        state.update(data)
    return state.hexdigest()
