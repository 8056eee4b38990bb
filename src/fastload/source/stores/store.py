"""The interface of all stores, whichever client reads their bytes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from typing_extensions import Buffer

    from fastload.source.files import StoredFile

__all__ = ["FILESYSTEM", "HTTP", "Store", "below", "shown"]

FILESYSTEM = "filesystem"
"""The kind of files that are read through a filesystem object of the user's."""
HTTP = ("http", "https")
"""The kinds of files that have a URL each, and no directories."""
_USER = re.compile(r"://[^/\s]*@")


def shown(kind: str, path: str) -> str:
    """Return the URL or path to show for a file of a store, without secrets."""
    if kind == FILESYSTEM:
        return path
    if "://" in kind:  # the kind of a chain, or one with a host
        return _shown_in(kind, path)
    if kind not in HTTP:
        return f"{kind}://{path}"
    parts = urlsplit(path)
    return f"{kind}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _shown_in(kind: str, path: str) -> str:
    bits = [_USER.sub("://", bit) for bit in kind.split("::")]
    at = next(n for n, bit in enumerate(bits) if "://" in bit)
    slash = "" if bits[at].endswith("/") or path.startswith("/") else "/"
    bits[at] += slash + path
    return "::".join(bits)


def below(files: Iterable[StoredFile], directory: str) -> list[StoredFile]:
    """Return the files whose paths lie below a directory."""
    start = f"{directory.rstrip('/')}/"
    return [file for file in files if file.path.startswith(start)]


class Store(Protocol):
    """A store, read through one client.

    The coroutines run in the event loop that the store was made in. They raise the errors of the
    client, whose meaning `fastload.source.stores.errors` defines.

    Attributes:
        pins: True if `read` raises an error when the file has another version than was listed.
    """

    pins: bool

    async def ls(self, directory: str) -> Sequence[StoredFile]:
        """Return the files below a directory, in any order; () if there is no such directory."""

    async def info(self, path: str) -> StoredFile | None:
        """Return the file at a path, or None for a directory.

        Raises:
            FileNotFoundError: nothing exists at the path.
        """

    async def read(self, file: StoredFile, start: int, stop: int) -> Buffer:
        """Read the bytes [start, stop) of a file.

        The number of bytes may be wrong: the answer of the store is not checked.
        """

    async def close(self) -> None:
        """Close the connections of the store."""
