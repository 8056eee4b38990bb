"""The threads of steps, where the system refuses a thread."""

import threading

import pytest

from fastload.steps.block import BlockJob
from fastload.steps.thread_pool import StepPool


def refuse(_thread):
    raise RuntimeError("can't start new thread")


def test_a_job_runs_after_the_system_has_refused_a_thread(monkeypatch):
    pool, over = StepPool(1), threading.Event()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start"):
            pool.begin(BlockJob(lambda block: block, {}))
    pool.begin(BlockJob(lambda _: over.set(), {}))
    assert over.wait(20)
    pool.close()
