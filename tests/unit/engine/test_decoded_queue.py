"""The queues of the core in a child of fork()."""

import os

import pytest

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


def raises(call, *arguments, **named):
    with pytest.raises(RuntimeError, match="Expected a queue of this process, got one from before"):
        call(*arguments, **named)
    return True


def test_blocks_are_the_parents():
    queue = core.DecodedQueue(1)
    queue.ask(0, 3)

    def check():
        closed = queue.closed
        queue.wake()
        queue.fail(0, 3, corrupt=False, message="no")
        queue.close()
        return (
            closed
            and raises(queue.take)
            and raises(queue.ask, 0, 4)
            and raises(queue.wait, 0, 0.0)
            and raises(queue.open, 0, 3, "path", "name", 1)
        )

    assert in_fork(check)
    assert not queue.closed
    assert queue.take() == (0, 3)
    queue.close()


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
