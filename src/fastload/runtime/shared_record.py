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

# A record lock belongs to a process, so the threads of a process take turns with this lock.
_threads = threading.Lock()


def _new_lock() -> None:
    """Replace the lock in a child of fork(): a thread of the parent may have held the lock."""
    global _threads  # noqa: PLW0603
    _threads = threading.Lock()


os.register_at_fork(after_in_child=_new_lock)


class SharedRecord:
    """A document in an anonymous file, of which a crash leaves nothing behind.

    The lock is a lock of the kernel, which releases the lock of a process that dies.

    Args:
        fd: descriptor of the file; the record closes the descriptor.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        weakref.finalize(self, os.close, fd)

    @classmethod
    def of(cls, document: dict[str, Any]) -> SharedRecord:
        """Make a new record that holds `document`."""
        record = cls(anonymous_file())
        record._write(document)
        return record

    def read(self) -> dict[str, Any]:
        """Return the document as the last process left it."""
        with self._locked():
            return self._read()

    @contextmanager
    def changed(self) -> Iterator[dict[str, Any]]:
        """Yield the document to be changed; others can't read it until it is written back."""
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
