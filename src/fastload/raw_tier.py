"""Byte ranges of remote files, kept on local disk by file and version."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import warnings
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fastload._native import core
from fastload.cache import RAW, open_directory
from fastload.cache_entries import describe
from fastload.cache_quota import Quota
from fastload.errors import StorageError
from fastload.remote_paths import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from typing_extensions import Buffer

    from fastload.cache import Cache
    from fastload.store import StoredFile

__all__ = ["RawTier", "place_of"]

# Their files lie as near as the cache does.
_NEAR = ("file", "local", "memory")
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "STORAGE_EMULATOR_HOST")


class RawTier:
    """The ranges of one cache.

    Args:
        cache: where they lie.
        place: what tells one store from another where paths don't; None = of files that are not
            to be kept.

    Pickled and after a fork it begins anew.

    Raises:
        CacheError: the directory is not for this user alone.
    """

    def __init__(self, cache: Cache, place: str | None) -> None:
        self._cache = cache
        self._place = place
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._writes = self._place is not None
        self._described: set[str] = set()
        self._names: dict[tuple[str, StoredFile], str] = {}
        self._lock = threading.Lock()
        self._directory: Path = self._cache.path / RAW
        self.ranges = core.RangeCache(os.fspath(self._directory))
        self._quota = Quota(self._directory, self._cache.limit_bytes)
        try:
            if self._writes:
                open_directory(self._cache, RAW)
        except OSError as error:
            self._give_up(f"{error.strerror} - at {self._directory}")

    def __getstate__(self) -> tuple[Cache, str | None]:
        return self._cache, self._place

    def __setstate__(self, state: tuple[Cache, str | None]) -> None:
        self._cache, self._place = state
        self._begin()

    def of_process(self) -> RawTier:
        """Itself, in a state of this process."""
        if self._pid != os.getpid():
            self._begin()
        return self

    @property
    def writes(self) -> bool:
        """Whether what is fetched is kept."""
        return self._writes

    def name_of(self, kind: str, file: StoredFile) -> str:
        """What a file of that kind, in its version, is called; "" = it is not kept."""
        found = self._names.get((kind, file))
        if found is None:
            found = self._names[kind, file] = self._name_of(kind, file)
        return found

    def _name_of(self, kind: str, file: StoredFile) -> str:
        # Weak ETags don't stand for the same bytes.
        if self._place is None or kind in _NEAR or not file.version or file.version[:2] == "W/":
            return ""
        identity = repr((kind, self._place, file.path, file.size, file.version))
        name = hashlib.blake2b(identity.encode(), digest_size=16).hexdigest()
        return f"{name[:2]}/{name}"

    def queue(self, files: Iterable[tuple[str, StoredFile | None]]) -> core.RemoteQueue:
        """A queue for files of their kinds, of what is not on disk."""
        names = ["" if file is None else self.name_of(kind, file) for kind, file in files]
        return core.RemoteQueue(self.ranges, names)

    def claim(self, name: str, start: int, stop: int) -> core.RangeClaim | None:
        """The right to fill an entry; None if another has it, it is there, or none is kept."""
        try:
            return self.ranges.claim(name, start, stop)
        except StorageError as error:
            self._give_up(str(error))
            return None

    def publish(
        self, claim: core.RangeClaim, name: str, kind: str, file: StoredFile, data: Buffer
    ) -> None:
        """Keeps the bytes that a claim is of; where it can't, they are not kept."""
        with self._lock:
            first = name not in self._described
            self._described.add(name)
        try:
            if not self._writes or not self._quota.take(memoryview(data).nbytes, first=first):
                claim.release()
                return
            claim.publish(data)
            if first:
                url = shown(kind, file.path)
                about = {"url": url, "version": file.version, "size": file.size}
                describe(self._directory, name, about)
        except (OSError, ValueError) as error:
            claim.release()
            self._give_up(getattr(error, "strerror", None) or str(error))

    def _give_up(self, cause: str) -> None:
        """Keeps nothing more; says so once."""
        with self._lock:
            warned, self._writes = not self._writes, False
        if warned:
            return
        # Raised as an error it would be one of a thread that nobody looks at.
        with contextlib.suppress(UserWarning):
            warnings.warn(
                f"Can't keep more in the cache: {cause}; what is not there yet is read from the "
                "store each time",
                stacklevel=2,
            )


def place_of(filesystem: Any, options: Mapping[str, Any]) -> str | None:
    """What tells one store from another whose files have the same paths; nothing secret.

    None = files of that filesystem lie as near as the cache.
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
    endpoint = place_of(None, own) if isinstance(own, dict) else ""
    base = getattr(filesystem, "base_path", "")
    return f"{kind.__module__}.{kind.__qualname__} {names} {endpoint} {base}"


def _host(endpoint: str) -> str:
    """Without a user, and what else may be secret."""
    parts = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}")
    return f"{parts.netloc.rpartition('@')[2]}{parts.path}"
