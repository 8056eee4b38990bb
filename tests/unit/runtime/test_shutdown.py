"""What is waited for before the interpreter ends."""

import _thread
import sys
import threading
import time

from fastload.runtime.shutdown import wait_for_foreign_threads


def is_waiting(thread):
    """Return True if a thread waits for foreign threads."""
    frame = sys._current_frames()[thread]
    while frame is not None and frame.f_code is not wait_for_foreign_threads.__code__:
        frame = frame.f_back
    return frame is not None


def test_a_thread_that_is_not_pythons_own_is_waited_for():
    waits, left = threading.get_ident(), []

    def work():
        while not is_waiting(waits):
            time.sleep(0.001)
        left.append(True)

    _thread.start_new_thread(work, ())
    wait_for_foreign_threads()
    assert left


def test_nobody_waits_for_ever():
    begun, ended = threading.Event(), threading.Event()

    def work():
        begun.set()
        ended.wait()

    _thread.start_new_thread(work, ())
    begun.wait()
    wait_for_foreign_threads()
    ended.set()
