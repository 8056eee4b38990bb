"""A small JSON document in memory that several processes share."""

from __future__ import annotations

import fcntl
import json
import os
import threading
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fastload.runtime.platform import anonymous_file

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["SharedRecord"]

# Record locks are a process's, so the threads of one take turns here.
_threads = threading.Lock()


def _new_lock() -> None:
    """In a fork's child, whose copy a thread of the parent may have held."""
    global _threads  # noqa: PLW0603
    _threads = threading.Lock()


os.register_at_fork(after_in_child=_new_lock)


class SharedRecord:
    """A document in an anonymous file: nothing is left behind by a crash.

    The lock is one of the kernel's, given up by a process that dies with it.

    Args:
        fd: of the file; the record closes it.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        weakref.finalize(self, os.close, fd)

    @classmethod
    def of(cls, document: dict[str, Any]) -> SharedRecord:
        """A new record that holds `document`."""
        record = cls(anonymous_file())
        record._write(document)
        return record

    def read(self) -> dict[str, Any]:
        """The document as some process left it."""
        with self._locked():
            return self._read()

    @contextmanager
    def changed(self) -> Iterator[dict[str, Any]]:
        """The document, which nobody else sees or changes until its changes are written."""
        with self._locked():
            document = self._read()
            yield document
            self._write(document)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with _threads:
            fcntl.lockf(self.fd, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.lockf(self.fd, fcntl.LOCK_UN)

    def _read(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(os.pread(self.fd, os.fstat(self.fd).st_size, 0))
        return document

    def _write(self, document: dict[str, Any]) -> None:
        text = json.dumps(document, separators=(",", ":")).encode()
        os.pwrite(self.fd, text, 0)
        os.truncate(self.fd, len(text))
