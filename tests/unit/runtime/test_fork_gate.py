"""A fork waits for the threads that run functions of steps, and for those that are ending."""

import os
import subprocess
import sys
import threading
import time

import pytest

from fastload.runtime.fork_gate import ForkGate, gate
from fastload.steps.thread_pool import Job, StepPool

# Threads decode images and end; the process forks at once, and the child decodes on a thread.
FORKS = """
import os, sys, threading, time
import numpy as np
import cv2
from fastload.images import decode
from fastload.steps.thread_pool import Job, StepPool

photo = cv2.imencode(".jpg", np.zeros((40, 60, 3), np.uint8))[1].tobytes()

class Decoding(Job):
    def chunks(self, threads):
        return [(n, n + 1) for n in range(8)]

    def run(self, start, stop):
        decode(photo, size=24)
        if stop == 8:
            self._end(None)

def decoded():
    pool = StepPool(4)
    job = Decoding()
    pool.begin(job)
    job.wait()
    pool.close()

for _ in range(int(sys.argv[1])):
    decoded()
    child = os.fork()
    if not child:
        decoded()
        os._exit(0)
    end = time.monotonic() + 60
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > end:
            os.kill(child, 9)
            sys.exit("the child hangs")
        time.sleep(0.001)
"""


def test_a_child_decodes_images_after_threads_of_the_parent_have_ended():
    pytest.importorskip("cv2")
    command = [sys.executable, "-c", FORKS, "300"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")


class Holding(Job):
    """A job whose function runs until it is told to end."""

    def __init__(self):
        super().__init__()
        self.begun, self.may_end = threading.Event(), threading.Event()

    def chunks(self, threads):
        return [(0, 1)]

    def run(self, start, stop):
        self.begun.set()
        self.may_end.wait()
        self._end(None)


def test_a_fork_waits_for_a_function_in_work():
    pool, job = StepPool(1), Holding()
    pool.begin(job)
    assert job.begun.wait(30)
    ending = threading.Timer(0.3, job.may_end.set)
    ending.start()
    child = os.fork()
    if not child:
        os._exit(0 if job.done else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    ending.join()
    pool.close()


def test_a_function_that_forks_itself_does_not_wait():
    class Forking(Holding):
        def run(self, start, stop):
            began = time.monotonic()
            child = os.fork()
            if not child:
                os._exit(0)
            os.waitpid(child, 0)
            self.seconds = time.monotonic() - began
            self._end(None)

    pool, job = StepPool(1), Forking()
    pool.begin(job)
    job.wait()
    pool.close()
    assert not gate._inside
    assert job.seconds < 9


def test_a_gate_that_was_reset_lets_threads_in():
    closed = ForkGate()
    with closed:
        pass
    closed.close()
    closed.reset()
    with closed:
        assert closed._inside == {threading.get_ident()}
    assert not closed._inside
