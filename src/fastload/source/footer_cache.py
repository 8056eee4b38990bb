"""Footers kept on disk, shared by the processes of a node.

The footers that one run reads lie together in packs. The packs lie in 64 directories (shards),
and all footers of one directory of files are in the same shard. Another format of packs has
another directory, which is left alone.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Literal

from fastload.runtime.digest import digest
from fastload.runtime.disk.private_directory import (
    CacheDirectory,
    publish,
    remove_abandoned,
    try_lock,
    unlock,
)
from fastload.source.footer_pack import FooterPack, NewFooter, PackedFooter, pack_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from fastload.runtime.native import core

__all__ = ["FooterCache", "FooterKey"]

_SHARDS = 64
_SUFFIX = ".pack"
# A shard with this many packs is merged into one: each pack costs a file to open at every start.
_MOST_PACKS = 16
_TRIES = 3


class FooterKey:
    """The key of a footer in the cache.

    Args:
        path: URL or absolute path of the file.
        version: a text that changes with the file and with the store that holds the file.

    Attributes:
        key: digest of the path and the version, 32 digits.
        path: digest of the path alone, the same for all versions of the file, 32 digits.
        shard: number of the shard whose packs hold the footer.
    """

    __slots__ = ("key", "path", "shard")

    def __init__(self, path: str, version: str) -> None:
        self.path = digest(path)
        self.key = digest(path, version)
        self.shard = int(digest(os.path.dirname(path))[:4], 16) % _SHARDS


class FooterCache:
    """The packs of kept footers.

    The cache keeps nothing if it has no directory, and nothing more after the first failure.

    Args:
        schemas: schemas that several footers share.
        home: directory to use instead of $FASTLOAD_CACHE_DIR and the user's cache directory.
    """

    def __init__(self, schemas: core.FooterSchemas, home: Path | None = None) -> None:
        self._schemas = schemas
        self._directory = CacheDirectory(
            "footers-2", "footers", "they are read again next time", home
        )

    def load(self, keys: Iterable[FooterKey]) -> dict[str, PackedFooter]:
        """Return the kept footers, by key, and remove damaged packs."""
        wanted: dict[int, set[str]] = {}
        for key in keys:
            wanted.setdefault(key.shard, set()).add(key.key)
        found: dict[str, PackedFooter] = {}
        for shard, of_shard in wanted.items():
            found |= self._find(shard, of_shard)
        return found

    def store(self, footers: Sequence[tuple[FooterKey, NewFooter]]) -> dict[str, PackedFooter]:
        """Write footers, and return the written footers by key, as `load` returns them."""
        by_shard: dict[int, list[NewFooter]] = {}
        for key, footer in footers:
            by_shard.setdefault(key.shard, []).append(footer)
        packed: dict[str, PackedFooter] = {}
        for shard, of_shard in by_shard.items():
            if self._directory.path is None:
                break
            try:
                packed |= self._write(shard, of_shard)
            except OSError as error:
                self._directory.give_up(error)
                break
            except ValueError:  # another program has damaged the pack
                continue
        return packed

    def _find(self, shard: int, keys: set[str]) -> dict[str, PackedFooter]:
        """Return the newest kept footer of each key that has one."""
        return {
            key: pack.at(number)
            for pack in self._packs(shard)
            for number, key in enumerate(pack.keys)
            if key in keys
        }

    def _write(self, shard: int, footers: Sequence[NewFooter]) -> dict[str, PackedFooter]:
        path = self._path(shard)
        path.mkdir(mode=0o700, exist_ok=True)
        if len(self._list(shard)) >= _MOST_PACKS:
            self._merge(shard)
        name = path / f"{time.time_ns():020d}-{os.getpid()}{_SUFFIX}"
        with publish(name) as file:
            file.writelines(pack_parts(footers))
        try:
            pack = FooterPack(name, self._schemas, check=False)
        except FileNotFoundError:  # another process has merged the pack into a larger one
            return self._find(shard, {footer.key for footer in footers})
        return {key: pack.at(number) for number, key in enumerate(pack.keys)}

    def _merge(self, shard: int) -> None:
        """Merge the packs of a shard into one, with the newest footer of each file."""
        lock = os.open(self._path(shard) / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # If another process merges the packs, or has merged them, nothing is left to do.
            if not try_lock(lock) or len(paths := self._list(shard)) < _MOST_PACKS:
                return
            newest: dict[str, NewFooter] = {}
            for pack in self._packs(shard, paths):
                newest.update({footer.path: footer for footer in pack.footers()})
            if newest:
                # Named after the newest pack, so that packs written meanwhile sort as newer.
                merged = self._path(shard) / f"{paths[-1].stem}-m{_SUFFIX}"
                with publish(merged) as file:
                    file.writelines(pack_parts(list(newest.values())))
            for path in paths:
                with contextlib.suppress(OSError):
                    path.unlink()
            remove_abandoned(self._path(shard))
        finally:
            unlock(lock)

    def _packs(self, shard: int, paths: Sequence[Path] | None = None) -> list[FooterPack]:
        """Open the packs of a shard, oldest first; retry if another process merges them."""
        for _ in range(_TRIES):
            packs = [self._open(path) for path in paths or self._list(shard)]
            if None not in packs:
                break
        return [pack for pack in packs if pack]

    def _open(self, path: Path) -> FooterPack | Literal[False] | None:
        """Open a pack; return False if the pack can't be read, None if it no longer exists.

        A damaged pack is removed.
        """
        try:
            return FooterPack(path, self._schemas)
        except ValueError:
            with contextlib.suppress(OSError):
                path.unlink()
            return False
        except FileNotFoundError:
            return None
        except OSError:
            return False

    def _list(self, shard: int) -> list[Path]:
        """List the packs of a shard, oldest first."""
        if self._directory.path is None:
            return []
        path = self._path(shard)
        try:
            names = sorted(name for name in os.listdir(path) if name.endswith(_SUFFIX))
        except OSError:
            return []
        return [path / name for name in names]

    def _path(self, shard: int) -> Path:
        assert self._directory.path is not None
        return self._directory.path / f"{shard:02x}"
