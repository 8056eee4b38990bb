"""Compilation of kernels, in a process that forks meanwhile."""

import os
import signal
import threading
import time

from fastload.steps import kernel_code


def test_fork_waits_for_a_compilation(monkeypatch):
    begun = threading.Event()

    class SlowCode:
        loaded = True

        def __init__(self, _kernel, _inputs):
            begun.set()
            time.sleep(0.5)

    monkeypatch.setattr(kernel_code, "KernelCode", SlowCode)
    thread = threading.Thread(target=kernel_code.compiled, args=(None, ()))
    thread.start()
    begun.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # ends a child that hangs
        kernel_code.compiled(None, ())
        os._exit(0)
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
