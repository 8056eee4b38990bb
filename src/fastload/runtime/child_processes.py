"""Which processes end when: callbacks for the end of another process, the end with the parent.

And how Ctrl-C ends workers.
"""

from __future__ import annotations

import contextlib
import inspect
import multiprocessing
import os
import select
import signal
import threading
from multiprocessing import synchronize
from multiprocessing.connection import wait
from typing import TYPE_CHECKING

from torch.utils.data import get_worker_info

from fastload.runtime.platform import LINUX

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

__all__ = [
    "call_at_end_of",
    "end_with_parent",
    "release_locks_at_interrupt",
    "worker_ends_with_its_pass",
]


class _Watch:
    """Waits for processes to end, in a thread that runs while any process is watched."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: dict[int, Callable[[], None]] = {}  # by pidfd
        self._poll: select.epoll | None = None

    def add(self, pid: int, ended: Callable[[], None]) -> None:
        pidfd = os.pidfd_open(pid)
        with self._lock:
            self._ends[pidfd] = ended
            if self._poll is None:
                self._poll = select.epoll()
                threading.Thread(
                    target=self._run, args=(self._poll,), name="fastload-watch", daemon=True
                ).start()
            self._poll.register(pidfd, select.EPOLLIN)

    def close(self) -> None:
        """Close the descriptors in a child of fork(), which lacks the watching thread."""
        for pidfd in self._ends:
            os.close(pidfd)
        if self._poll is not None:
            self._poll.close()

    def _run(self, poll: select.epoll) -> None:
        with poll:
            while True:
                for pidfd, _ in poll.poll():
                    with self._lock:
                        ended = self._ends.pop(pidfd)
                        poll.unregister(pidfd)
                        os.close(pidfd)
                    ended()
                with self._lock:
                    if not self._ends:
                        self._poll = None
                        return


_watch = _Watch()
_follower = 0  # the number of the process that already ends with its parent


def _after_fork() -> None:
    global _watch  # noqa: PLW0603
    _watch.close()
    _watch = _Watch()


os.register_at_fork(after_in_child=_after_fork)


def call_at_end_of(pid: int, ended: Callable[[], None]) -> None:
    """Call `ended` in a thread once a process has ended; at once if the process is gone.

    `ended` is never called on a system that can't watch processes (Linux before 5.3, and all
    systems but Linux).
    """
    if not LINUX:
        return
    try:
        _watch.add(pid, ended)
    except ProcessLookupError:
        ended()
    except OSError:
        return


def end_with_parent() -> None:
    """End this process as soon as the process that started it by multiprocessing has ended.

    Idempotent.
    """
    global _follower  # noqa: PLW0603
    parent = multiprocessing.parent_process()
    if parent is None or _follower == os.getpid():
        return
    _follower = os.getpid()

    def follow() -> None:
        with contextlib.suppress(OSError):
            wait([parent.sentinel])
            os._exit(1)

    threading.Thread(target=follow, name="fastload-parent", daemon=True).start()


def release_locks_at_interrupt() -> None:
    """Ignore Ctrl-C in a worker of a DataLoader while the worker holds a lock of multiprocessing.

    A KeyboardInterrupt can end a `with` block of such a lock between the acquisition and the block,
    and then no process ever releases the lock. DataLoader waits for the lock of the event by which
    the loader ends its workers, so the program would hang. A worker that ignores Ctrl-C ends by
    that event.

    Does nothing outside the main thread, and where the program has its own handler of SIGINT.
    """
    if (
        get_worker_info() is not None
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ):
        signal.signal(signal.SIGINT, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    caller = frame
    while caller is not None:
        if caller.f_code.co_filename == synchronize.__file__:
            return
        caller = caller.f_back
    signal.default_int_handler(number, frame)


def worker_ends_with_its_pass() -> bool:
    """Return True in a worker of a DataLoader without `persistent_workers`.

    torch tells a worker whether it is persistent by an argument of the worker's main function, and
    by nothing else. Without such a function among the callers, the worker counts as one that ends.
    """
    if get_worker_info() is None:
        return False
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_name != "_worker_loop":
        frame = frame.f_back
    return frame is None or not frame.f_locals.get("persistent_workers", False)
