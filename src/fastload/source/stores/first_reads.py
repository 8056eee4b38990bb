"""What a dataset read first of a store, read at its next start while the files are listed."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from fastload.runtime.disk.cache import is_empty
from fastload.runtime.disk.private_directory import CacheDirectory, publish
from fastload.source.stores.obstore_options import AZURE, GCS, S3
from fastload.source.stores.store import StoredFile

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path

    from typing_extensions import Buffer, Self

    from fastload.runtime.disk.cache import Cache
    from fastload.source.stores.client import StoreClient

__all__ = ["FirstReads", "Range"]

# The first window of a pass is small, so that its batches come soon.
_MOST = 64
_MOST_BYTES = 8 << 20
# Of `memory_budget`, which does not count them.
_SHARE = 32
# What comes so much later than the listing is read again by whoever needs it.
_PATIENCE_S = 10.0
# Datasets that are remembered: of some, each start has other arguments.
_MOST_KEPT = 256
# Whose paths hold nothing secret, and that are listed.
_KINDS = (*AZURE, *GCS, *S3)


class Range(NamedTuple):
    """The bytes [start, stop) of a file of a kind, in one version."""

    kind: str
    file: StoredFile
    start: int
    stop: int


class FirstReads:
    """The first ranges that a dataset asks for, and their bytes where they were read ahead.

    Without them the first batch waits for a listing and then for its bytes. The ranges that a
    pass of the process that made the dataset began with are kept on disk; when a dataset is made
    with the same arguments, they are read beside the listing. They are pinned to their versions
    as all reads are, errors are nobody's, and bytes are handed out for just the range and version
    that the true listing leads to: a guess that is wrong costs its bytes and nothing else. It
    isn't made again before a pass has begun so.

    Args:
        arguments: of the dataset, as far as they decide what is read first.
        memory_budget: of the dataset, in bytes.

    It belongs to one process.
    """

    def __init__(self, arguments: object, memory_budget: int) -> None:
        self._arguments = arguments
        self._most_bytes = min(_MOST_BYTES, memory_budget // _SHARE)
        self._path: Path | None = None
        self._asked: list[Range] = []
        self._asked_bytes = 0
        self._notes = True
        self._more = 0  # ranges that were asked for after those
        self._read: dict[Range, Buffer] = {}

    @classmethod
    def of(cls, arguments: object, memory_budget: int, cache: Cache | None) -> Self | None:
        """Those of a dataset; None where its cache may have them on disk."""
        if cache is not None and not is_empty(cache):
            return None
        return cls((arguments, cache is not None and cache.decoded), memory_budget)

    def take_kept(self, store: str) -> list[Range]:
        """What the dataset began with before, in a store of that name; it is kept no more."""
        home = CacheDirectory("first-reads-1", "what is read first", "it is read a round later")
        if home.path is None:
            return []
        text = repr((store, self._arguments)).encode("utf-8", "surrogateescape")
        self._path = home.path / f"{hashlib.blake2b(text, digest_size=16).hexdigest()}.json"
        try:
            kept = self._path.read_bytes()
            self._path.unlink()
            return list(self._parsed(json.loads(kept)))
        except (OSError, ValueError, TypeError):
            return []

    @contextlib.asynccontextmanager
    async def reading(self, client: StoreClient, ranges: Iterable[Range]) -> AsyncIterator[None]:
        """Reads ranges while something else is asked of the store."""
        reads = [asyncio.ensure_future(self._bring(client, range_)) for range_ in ranges]
        try:
            yield
            if reads:
                await asyncio.wait(reads, timeout=_PATIENCE_S)
        finally:
            for read in reads:
                read.cancel()

    async def _bring(self, client: StoreClient, range_: Range) -> None:
        with contextlib.suppress(Exception):  # whoever needs the bytes asks again, and is told
            if (await client.store(range_.kind)).pins:
                self._read[range_] = await client.fetch(*range_)

    def asked(self, range_: Range) -> Buffer | None:
        """Notes a range that a pass asks for; its bytes, if they were read ahead."""
        if self._notes:
            length = range_.stop - range_.start
            if len(self._asked) < _MOST and self._asked_bytes + length <= self._most_bytes:
                self._asked.append(range_)
                self._asked_bytes += length
            else:
                self.keep()
        elif self._read:
            # What is asked for at once comes in another order each time, and so is cut elsewhere.
            self._more += 1
            if self._more > len(self._asked):
                self._read.clear()
        return self._read.pop(range_, None)

    def close(self) -> None:
        """Nothing more is asked for. Idempotent."""
        self.keep()
        self._read.clear()

    def keep(self) -> None:
        """Keeps what was asked for first, for the next start. Idempotent."""
        if not self._notes:
            return
        self._notes = False
        pinned = all(range_.kind in _KINDS and range_.file.version for range_ in self._asked)
        if self._path is None or not self._asked or not pinned:
            return
        with contextlib.suppress(OSError):  # another round, next time
            publish(self._path, [json.dumps(self._asked, default=_fields).encode()])
            _forget_oldest(self._path.parent)

    def _parsed(self, entries: Any) -> Iterable[Range]:
        """Raises ValueError or TypeError for what is none."""
        total = 0
        for kind, (path, size, version), start, stop in entries:
            total += stop - start
            if kind not in _KINDS or not 0 <= start < stop <= size or total > self._most_bytes:
                raise ValueError("Expected ranges, got others")
            yield Range(kind, StoredFile(path, size, version), start, stop)


def _forget_oldest(directory: Path) -> None:
    kept = list(directory.glob("*.json"))
    if len(kept) > _MOST_KEPT:
        min(kept, key=lambda path: path.stat().st_mtime_ns).unlink()


def _fields(file: StoredFile) -> tuple[str, int, str]:
    return file.path, file.size, file.version
