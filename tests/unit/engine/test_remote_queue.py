"""The queue of reads from a store, in a child of fork()."""

import os

from fastload.runtime.native import core


def in_fork(check):
    """Return True if `check` returns True in a child of fork()."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if check() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_reads_are_the_parents():
    queue = core.RemoteQueue()

    def check():
        closed = queue.closed
        queue.fail(0, changed=False, message="no")
        queue.close()
        return closed and queue.take(1) == [] and queue.finish(0, b"", take=True) is None

    assert in_fork(check)
    assert not queue.closed
    queue.close()
