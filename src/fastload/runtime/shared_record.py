"""Memory that several processes share: a small document, and large arrays by name."""

from __future__ import annotations

import fcntl
import os
import pickle
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

# The file begins with the number of changes; the pickled document follows.
_HEADER_BYTES = 8

# The kernel's lock belongs to a process, so the threads of a process take turns with this lock.
_threads = threading.RLock()
_locked: set[int] = set()  # descriptors of the records that this process has locked


def _new_lock() -> None:
    """Replace the lock in a child of fork(): a thread of the parent may have held the lock."""
    global _threads, _locked
    _threads, _locked = threading.RLock(), set()


os.register_at_fork(after_in_child=_new_lock)


class SharedRecord:
    """A document in an anonymous file, of which a crash leaves nothing behind.

    The kernel releases the lock of a process that dies.

    Args:
        fd: descriptor of the file; the record closes the descriptor.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._known: tuple[int, dict[str, Any]] = (0, {})  # number of changes, and the document
        weakref.finalize(self, os.close, fd)

    @classmethod
    def of(cls, document: dict[str, Any]) -> SharedRecord:
        """Make a new record that holds a document."""
        record = cls(anonymous_file())
        record._write(document)
        return record

    def read(self) -> dict[str, Any]:
        """Return the document as the last process left it. The caller must not change it.

        If the document has not changed since the last call, this takes no lock.
        """
        changes, document = self._known
        return document if changes == self._changes else self.look(lambda document: document)

    def look(self, look: Callable[[dict[str, Any]], _Result]) -> _Result:
        """Return what `look` makes of the document, which stays as it is meanwhile."""

        def work() -> _Result:
            self._known = self._changes, self._read()
            return look(self._known[1])

        return self._with_lock(work)

    def change(self, change: Callable[[dict[str, Any]], _Result]) -> _Result:
        """Call `change` with the document, and write the document back.

        `change` may read this record and change others. If it raises an exception, nothing changes.
        Return what `change` returns, whose parts must not be changed later.
        """

        def work() -> _Result:
            document = self._read()
            result = change(document)
            self._write(document)
            self._known = self._changes, document
            return result

        return self._with_lock(work)

    # A function and not a block of `with`: Ctrl-C can come between the lock and the block, and the
    # lock would then be held as long as the traceback lives.
    def _with_lock(self, work: Callable[[], _Result]) -> _Result:
        with _threads:
            outer = self.fd in _locked
            try:
                _locked.add(self.fd)
                fcntl.lockf(self.fd, fcntl.LOCK_EX)
                return work()
            finally:
                if not outer:
                    _locked.discard(self.fd)
                    fcntl.lockf(self.fd, fcntl.LOCK_UN)

    @property
    def _changes(self) -> int:
        return int.from_bytes(os.pread(self.fd, _HEADER_BYTES, 0), "little")

    def _read(self) -> dict[str, Any]:
        pickled = os.pread(self.fd, os.fstat(self.fd).st_size, _HEADER_BYTES)
        document: dict[str, Any] = pickle.loads(pickled)  # noqa: S301 - of fastload's processes
        return document

    def _write(self, document: dict[str, Any]) -> None:
        header = (self._changes + 1).to_bytes(_HEADER_BYTES, "little")
        os.pwrite(self.fd, header + pickle.dumps(document), 0)


class SharedArrays:
    """Arrays by name in an anonymous file, of which a crash leaves nothing behind.

    A record lists where each array lies. Whoever writes or reads an array holds the record's lock.

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
            taken = [(start, start + length) for start, length, _ in document.values()]
            ends = [0, *(stop for _, stop in taken)]
            os.truncate(self._file, max(ends))
            if name in document:
                return
            size = array.nbytes
            at = min(end for end in ends if all(end + size <= a or b <= end for a, b in taken))
            with open(self._file, "r+b", closefd=False) as file:
                file.seek(at)
                file.write(np.ascontiguousarray(array).view(np.uint8).data)
            document[name] = (at, size, array.dtype)

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
            array: NDArray[Any] = np.empty(length // dtype.itemsize, dtype)
            with open(self._file, "rb", closefd=False) as file:
                file.seek(start)
                done = file.readinto(array.view(np.uint8).data)
            if done < length:
                raise OSError(f"Expected {length} bytes of shared weights `{name}`, got {done}")
            return array

        return self._record.look(copy)
