"""One interface to files that lie elsewhere, whoever brings their bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

__all__ = ["NOT_FOUND", "Store", "StoredFile"]


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as a store lists it.

    path: in the store, such as "bucket/name".
    size: bytes.
    version: what changes when the file does (a generation, an ETag, a time); "" = unknown.
    """

    path: str
    size: int
    version: str = ""


NOT_FOUND = StoredFile("", -1)
"""In place of a file that is not there."""


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
