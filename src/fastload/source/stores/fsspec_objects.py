"""Filesystem objects of the user's, which other threads and processes may read through, too."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from fastload.errors import StorageError
from fastload.source.stores.fsspec_urls import is_one_at_a_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

__all__ = ["of_process"]

# The process that an object was first read in, and the lock of those who read through the object.
_known: WeakKeyDictionary[Any, tuple[int, threading.Lock]] = WeakKeyDictionary()


def of_process(filesystem: Any) -> tuple[Any, AbstractContextManager[Any]]:
    """Return a filesystem of this process's, and a context in which a thread must call it.

    A child of fork() makes the filesystem again: the child would share connections, and the
    positions of open files, with its parent, and event loops and other threads don't exist in it.

    Raises:
        StorageError: a child of fork() can't make the filesystem again.
    """
    *_, base = layers = list(_layers(filesystem))
    protocols = {name for layer in layers for name in _protocols(layer)}
    locks = any(map(is_one_at_a_time, protocols))
    pid, lock = _known.setdefault(base, (os.getpid(), threading.Lock()))
    if pid != os.getpid():
        filesystem, lock = _again(filesystem), threading.Lock()
    return filesystem, lock if locks else contextlib.nullcontext()


def _layers(filesystem: Any) -> Iterator[Any]:
    """Yield the filesystem, and the filesystems of fsspec that lie below it."""
    from fsspec import AbstractFileSystem

    while isinstance(filesystem, AbstractFileSystem):
        yield filesystem
        filesystem = getattr(filesystem, "fs", None)


def _protocols(filesystem: Any) -> tuple[str, ...]:
    names = type(filesystem).protocol
    return (names,) if isinstance(names, str) else tuple(names)


def _again(filesystem: Any) -> Any:
    args = [_part(filesystem, value) for value in filesystem.storage_args]
    options = {k: _part(filesystem, value) for k, value in filesystem.storage_options.items()}
    return type(filesystem)(*args, **{**options, "skip_instance_cache": True})


def _part(filesystem: Any, value: Any) -> Any:
    from fsspec import AbstractFileSystem

    if hasattr(value, "read") and not isinstance(value, AbstractFileSystem):
        raise StorageError(
            f"Expected a {type(filesystem).__name__} of a path for forked workers, got one of an "
            'open file: write DataLoader(..., multiprocessing_context="forkserver")'
        )
    return _again(value) if isinstance(value, AbstractFileSystem) else value
