"""Memory that several processes share: a small JSON document, and large arrays by name."""

from __future__ import annotations

import fcntl
import json
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from fastload.runtime.platform import anonymous_file

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from numpy.typing import NDArray

__all__ = ["SharedArrays", "SharedRecord"]

_Result = TypeVar("_Result")

# The file begins with the number of changes; the document follows.
_HEADER_BYTES = 8

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
        encode: returns the JSON of an object that JSON has no form for; None = there is none.
    """

    def __init__(self, fd: int, encode: Callable[[Any], Any] | None = None) -> None:
        self.fd = fd
        self._encode = encode
        self._private: dict[str, Any] | None = None  # the document, until it is shared
        weakref.finalize(self, os.close, fd)

    @classmethod
    def of(
        cls,
        document: dict[str, Any],
        encode: Callable[[Any], Any] | None = None,
        *,
        private: bool = False,
    ) -> SharedRecord:
        """Make a new record.

        Args:
            document: what the record holds.
            encode: as for SharedRecord. A private document keeps the objects themselves.
            private: True if no other process reads the record before `share` is called. Until
                then, reading and changing the document take no system call.
        """
        record = cls(anonymous_file(), encode)
        record._write(document)
        if private:
            record._private = dict(document)
        return record

    def share(self) -> None:
        """Let other processes read and change the document from now on. Idempotent."""
        with _threads:
            document, self._private = self._private, None
            if document is not None:
                self._write(document)

    @property
    def changes(self) -> int:
        """The number of changes since the document is shared. Reading it takes no lock.

        As long as the number stays the same, so does the document.
        """
        return int.from_bytes(os.pread(self.fd, _HEADER_BYTES, 0), "little")

    def read(self) -> dict[str, Any]:
        """Return the document as the last process left it. The caller must not change it."""
        return self.look(lambda document: document)

    def look(self, look: Callable[[dict[str, Any]], _Result]) -> _Result:
        """Return what `look` makes of the document; others can neither read nor change it then."""
        with _threads:
            if self._private is not None:
                return look(self._private)
            return self._locked(lambda: look(self._read()))

    def change(self, change: Callable[[dict[str, Any]], _Result]) -> _Result:
        """Call `change`, which changes the document; others can't read it until it is written back.

        Functions and not blocks of `with`, whose beginning Ctrl-C can end between the lock and the
        block: the lock would then be held as long as the traceback lives.

        Args:
            change: called with the document. It may change a private document and the dicts in
                it, but no lists. If it raises an exception, nothing changes.

        Returns:
            What `change` returns.
        """
        with _threads:
            if (given := self._private) is not None:
                private = {k: dict(v) if isinstance(v, dict) else v for k, v in given.items()}
                result = change(private)
                self._private = private
                return result
            return self._locked(lambda: self._written(change))

    def _locked(self, work: Callable[[], _Result]) -> _Result:
        """Call `work` with the lock of the kernel; the caller holds that of this process."""
        try:
            fcntl.lockf(self.fd, fcntl.LOCK_EX)
            return work()
        finally:
            fcntl.lockf(self.fd, fcntl.LOCK_UN)

    def _written(self, change: Callable[[dict[str, Any]], _Result]) -> _Result:
        document = self._read()
        result = change(document)
        self._write(document)
        return result

    def _read(self) -> dict[str, Any]:
        text = os.pread(self.fd, os.fstat(self.fd).st_size, _HEADER_BYTES)
        document: dict[str, Any] = json.loads(text)
        return document

    def _write(self, document: dict[str, Any]) -> None:
        text = json.dumps(document, separators=(",", ":"), default=self._encode).encode()
        os.pwrite(self.fd, text, _HEADER_BYTES)
        os.truncate(self.fd, _HEADER_BYTES + len(text))
        os.pwrite(self.fd, (self.changes + 1).to_bytes(_HEADER_BYTES, "little"), 0)


class SharedArrays:
    """Arrays by name in an anonymous file, of which a crash leaves nothing behind.

    A record lists where each array lies. Whoever writes or reads an array holds the record's lock,
    so no process reads an array that another one is writing.

    Args:
        record: descriptor of the record of other arrays; None = begin without arrays.
        file: descriptor of the file of other arrays; None = begin without arrays.
    """

    def __init__(self, record: int | None = None, file: int | None = None) -> None:
        self._record = SharedRecord.of({}) if record is None else SharedRecord(record)
        self._file = anonymous_file() if file is None else file
        weakref.finalize(self, os.close, self._file)

    @property
    def fds(self) -> tuple[int, int]:
        """The descriptors of the record and of the arrays' file."""
        return self._record.fd, self._file

    @property
    def names(self) -> set[str]:
        """The names of the arrays."""
        return set(self._record.read())

    def put(self, name: str, array: NDArray[Any], keep: Collection[str]) -> None:
        """Write an array, and drop the arrays whose names are not in `keep`.

        Raises:
            OSError: there is no memory for the array, which is then not written.
        """

        def drop(document: dict[str, Any]) -> None:
            for other in document.keys() - {name, *keep}:
                del document[other]

        def add(document: dict[str, Any]) -> None:
            end = max((start + length for start, length, _ in document.values()), default=0)
            os.truncate(self._file, end)
            if name in document:
                return
            start = _gap(document.values(), array.nbytes)
            view = np.ascontiguousarray(array).view(np.uint8).data
            done = 0
            while done < array.nbytes:
                done += os.pwrite(self._file, view[done:], start + done)
            document[name] = [start, array.nbytes, array.dtype.str]

        # Names are dropped before their memory is given back or used again: a writer that dies
        # leaves no name of an array that is cut off or half overwritten.
        self._record.change(drop)
        self._record.change(add)

    def get(self, name: str) -> NDArray[Any] | None:
        """Return a copy of an array, or None if there is no array of this name.

        Raises:
            OSError: the memory of the array is cut off.
        """

        def copy(document: dict[str, Any]) -> NDArray[Any] | None:
            if name not in document:
                return None
            start, length, dtype = document[name]
            array: NDArray[Any] = np.empty(length // np.dtype(dtype).itemsize, dtype)
            view, done = array.view(np.uint8).data, 0
            while done < length:
                read = os.preadv(self._file, [view[done:]], start + done)
                if read == 0:
                    raise OSError(f"Expected {length} bytes of shared weights `{name}`, got {done}")
                done += read
            return array

        return self._record.look(copy)


def _gap(taken: Collection[list[Any]], length: int) -> int:
    """Return the lowest start of `length` bytes outside of the spans that are taken."""
    start = 0
    for first, bytes_, _ in sorted(taken):
        if start + length <= first:
            break
        start = max(start, first + bytes_)
    return start
