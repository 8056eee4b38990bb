"""BackgroundValue: a thread that computes a value before the value is needed."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

__all__ = ["BackgroundValue"]

T = TypeVar("T")


class BackgroundValue(Generic[T]):
    """A thread that computes a value before the value is needed, one value at a time.

    The thread begins with the first value, and ends with `close` or with this object. A copy, a
    pickle and a child of fork() begin without a thread.
    """

    def __init__(self) -> None:
        self._pid = -1
        self._pool: ThreadPoolExecutor | None = None
        self._latest: tuple[Hashable, Future[T]] | None = None

    def begin(self, name: Hashable, compute: Callable[[], T]) -> None:
        """Begin to compute the value of a name, unless a value is being computed.

        Args:
            name: the name of the value.
            compute: computes the value; should hold the GIL for short times only.
        """
        latest = self._latest
        if self._pool is None or self._pid != os.getpid():
            self._pid, latest = os.getpid(), None
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="fastload-plan")
        if latest is not None and (latest[0] == name or not latest[1].done()):
            return
        try:
            self._latest = name, self._pool.submit(compute)
        except RuntimeError:  # the system refuses a thread, or the interpreter is ending
            self._latest = None

    def take(self, name: Hashable) -> T | None:
        """Wait for the value of a name and hand the value over.

        Returns:
            The value; None if the value was not begun here, or if `compute` raised an exception.
            The caller then computes the value itself.
        """
        latest = self._latest
        if latest is None or latest[0] != name or self._pid != os.getpid():
            return None
        self._latest = None
        return None if latest[1].exception() else latest[1].result()

    def close(self) -> None:
        """End the thread after the value that it computes. Idempotent."""
        pool, self._pool, self._latest = self._pool, None, None
        if pool is not None and self._pid == os.getpid():
            pool.shutdown(wait=False)

    def __reduce__(self) -> tuple[type[BackgroundValue[T]], tuple[()]]:
        return type(self), ()
