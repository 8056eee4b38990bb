"""What is waited for before the interpreter ends."""

import _thread
import time

from fastload.runtime.shutdown import wait_for_foreign_threads


def test_a_thread_that_is_not_pythons_own_is_waited_for():
    left = []

    def work():
        time.sleep(0.2)
        left.append(time.monotonic())

    _thread.start_new_thread(work, ())
    wait_for_foreign_threads()
    assert left


def test_nobody_waits_for_ever():
    ended = []

    def work():
        while not ended:
            time.sleep(0.01)

    _thread.start_new_thread(work, ())
    start = time.monotonic()
    wait_for_foreign_threads()
    ended.append(True)
    assert time.monotonic() - start < 30
