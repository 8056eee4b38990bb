"""Compilation of kernels, in a process that forks meanwhile."""

import os
import signal
import threading
import time
from types import SimpleNamespace

from fastload.runtime.disk.private_directory import remove_abandoned_once
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


def test_files_of_killed_writers_are_removed(tmp_path):
    left = tmp_path / ".new-left"
    left.write_bytes(b"half")
    os.utime(left, (0, 0))
    remove_abandoned_once.cache_clear()  # as in the next process
    library = SimpleNamespace(has_dynamic_globals=False)
    result = SimpleNamespace(library=library, _reduce=lambda: ("code",))
    kernel_code._Disk(tmp_path / "key", lambda: None).save_overload(None, result)
    assert [path.name for path in tmp_path.iterdir()] == ["key"]
