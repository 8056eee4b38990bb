"""One interface to files that lie elsewhere, whoever brings their bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from fastload.source.files import StoredFile

__all__ = ["FILESYSTEM", "HTTP", "Store", "shown"]

FILESYSTEM = "filesystem"
"""The kind of files of a filesystem that was given."""
HTTP = ("http", "https")
"""The kinds of files that have a URL each, and no directories."""


def shown(kind: str, path: str) -> str:
    """What a path of a store is called to people; without what may be secret."""
    if kind == FILESYSTEM:
        return path
    if kind not in HTTP:
        return f"{kind}://{path}"
    parts = urlsplit(path)
    return f"{kind}://{parts.netloc.rpartition('@')[2]}{parts.path}"


class Store(Protocol):
    """A client of a store. Its coroutines run in the event loop that it was made in.

    They raise what the client raises; `fastload.source.stores.errors` says what that means.
    """

    pins: bool
    """Whether `read` refuses bytes of another version than the file's."""

    async def ls(self, directory: str) -> Sequence[StoredFile]:
        """The files below a directory, in any order; () if there is none."""

    async def info(self, path: str) -> StoredFile | None:
        """The file of that path; None = it is a directory. Raises FileNotFoundError."""

    async def read(self, file: StoredFile, start: int, stop: int) -> Buffer:
        """The bytes [start, stop) of a file; fewer, or more, if the store answers so."""

    async def close(self) -> None:
        """Ends its connections."""
