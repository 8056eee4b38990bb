"""Errors of worker processes."""

import contextlib
import traceback

import pytest


@contextlib.contextmanager
def worker_raises(error, match):
    """Like `pytest.raises`, for an error that DataLoader raises for a worker.

    torch keeps such an error in a cycle with the loader's iterator. Once Python's garbage collector
    frees the cycle, torch waits five seconds for each worker, so the cycle is broken here.
    """
    with pytest.raises(error, match=match) as info:
        yield
    traceback.clear_frames(info.tb)
