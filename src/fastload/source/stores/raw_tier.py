"""Byte ranges of remote files, kept on local disk by file and version."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fastload.errors import StorageError
from fastload.runtime.digest import digest
from fastload.runtime.disk.cache import RAW
from fastload.runtime.disk.entries import describe
from fastload.runtime.disk.tier import CacheTier
from fastload.runtime.native import core
from fastload.source.stores.store import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from typing_extensions import Buffer

    from fastload.runtime.disk.cache import Cache
    from fastload.source.files import StoredFile

__all__ = ["RawTier", "identity_of", "store_identity"]

# Filesystems whose files are as near as the cache, which therefore does not keep their bytes.
_NEAR = ("file", "local", "memory")
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "STORAGE_EMULATOR_HOST")


class RawTier(CacheTier):
    """The byte ranges of remote files in one cache.

    Args:
        cache: the cache that holds the ranges.
        store: text that distinguishes stores with the same paths, from `store_identity`; None = the
            files are not kept.

    Attributes:
        ranges: the core's view of the ranges on disk.

    Raises:
        CacheError: other users may write to the directory.
    """

    _name = RAW
    _instead = "read from the store"

    def __init__(self, cache: Cache, store: str | None) -> None:
        self._store = store
        super().__init__(cache, keeps=store is not None)

    def _begin(self) -> None:
        super()._begin()
        self._names: dict[tuple[str, StoredFile], str] = {}
        self.ranges = core.RangeCache(os.fspath(self.directory))

    def __reduce__(self) -> tuple[Any, ...]:
        return RawTier, (self._cache, self._store)

    def name_of(self, kind: str, file: StoredFile) -> str:
        """Return the name of the object of a file in its version; "" if the file is not kept."""
        found = self._names.get((kind, file))
        if found is None:
            found = self._names[kind, file] = self._name_of(kind, file)
        return found

    def _name_of(self, kind: str, file: StoredFile) -> str:
        identity = identity_of(self._store, kind, file)
        if identity is None:
            return ""
        name = digest(repr(identity))
        return f"{name[:2]}/{name}"

    def queue(self, files: Iterable[tuple[str, StoredFile | None]]) -> core.RemoteQueue:
        """Make a queue of the core's requests for byte ranges that are not on disk.

        Args:
            files: each file with its kind, by the core's numbers.
        """
        names = ["" if file is None else self.name_of(kind, file) for kind, file in files]
        return core.RemoteQueue(self.ranges, names)

    def claim(self, name: str, start: int, stop: int) -> core.RangeClaim | None:
        """Try to claim the right to write an entry.

        Returns None if another process has the right, the entry exists, or the claim fails.
        """
        try:
            return self.ranges.claim(name, start, stop)
        except StorageError as error:
            self.give_up(str(error))
            return None

    def publish(
        self, claim: core.RangeClaim, name: str, kind: str, file: StoredFile, data: Buffer
    ) -> None:
        """Write the bytes of a claimed entry; release the claim if they can't be written."""
        first = self._is_first(name)
        data_bytes = memoryview(data).nbytes
        try:
            if not self.writes or not self._quota.take(data_bytes, claim.descriptor, first=first):
                claim.release()
                return
            claim.publish(data)
            if first:
                url = shown(kind, file.path)
                about = {"url": url, "version": file.version, "size": file.size}
                describe(self.directory, name, about)
        except (OSError, ValueError) as error:
            claim.release()
            self.give_up(getattr(error, "strerror", None) or str(error))


def identity_of(store: str | None, kind: str, file: StoredFile) -> tuple[Any, ...] | None:
    """Return a tuple that identifies the bytes of a file of a store.

    Args:
        store: text that distinguishes stores with the same paths, from `store_identity`.
        kind: kind of the file.
        file: the file, as its store lists it.

    Returns:
        The tuple; None if the file has no reliable version, or is as near as the cache.
    """
    # Files with the same weak ETag may have different bytes.
    if store is None or kind in _NEAR or not file.version or file.version[:2] == "W/":
        return None
    return (kind, store, file.path, file.size, file.version)


def store_identity(filesystem: Any, options: Mapping[str, Any]) -> str | None:
    """Return a text, without secrets, that distinguishes stores with the same paths.

    Returns:
        The text; None if files of the filesystem are as near as the cache.
    """
    if filesystem is None:
        client = options.get("client_kwargs")
        given = options.get("endpoint_url") or (
            client.get("endpoint_url") if isinstance(client, dict) else None
        )
        named = given or next(filter(None, map(os.environ.get, _ENDPOINTS)), "")
        return _host(str(named))
    kind = type(filesystem)
    protocol: Any = getattr(filesystem, "protocol", None) or getattr(filesystem, "type_name", "")
    names = [protocol] if isinstance(protocol, str) else list(protocol)
    if any(name in _NEAR for name in names):
        return None
    own = getattr(filesystem, "storage_options", None)
    endpoint = store_identity(None, own) if isinstance(own, dict) else ""
    base = getattr(filesystem, "base_path", "")
    return f"{kind.__module__}.{kind.__qualname__} {names} {endpoint} {base}"


def _host(endpoint: str) -> str:
    """Return the host and the path of an endpoint, without user, password and query."""
    parts = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}")
    return f"{parts.netloc.rpartition('@')[2]}{parts.path}"
