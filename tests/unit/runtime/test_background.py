"""A value that a thread computes before the value is needed."""

from __future__ import annotations

import gc
import os
import pickle
import threading

import pytest

from fastload.runtime.background import BackgroundValue


def test_a_thread_computes_the_value() -> None:
    background: BackgroundValue[str] = BackgroundValue()
    background.begin("a", lambda: threading.current_thread().name)
    assert background.take("b") is None
    name = background.take("a")
    assert name is not None
    assert name.startswith("fastload-plan")
    assert background.take("a") is None  # it was handed over


def test_one_value_at_a_time() -> None:
    background: BackgroundValue[int] = BackgroundValue()
    go = threading.Event()
    background.begin("a", lambda: int(go.wait(10)))
    background.begin("b", lambda: 2)
    assert background.take("b") is None
    go.set()
    assert background.take("a") == 1
    background.begin("b", lambda: 2)
    assert background.take("b") == 2
    background.begin("c", lambda: 3)
    background.begin("c", lambda: 4)
    assert background.take("c") == 3


def test_a_value_that_nobody_took_gives_way_to_the_next() -> None:
    background: BackgroundValue[int] = BackgroundValue()
    done = threading.Event()
    background.begin("a", lambda: done.set() or 1)
    assert done.wait(10)
    while background.take("b") is None:  # the thread may not have handed its value over yet
        background.begin("b", lambda: 2)
    assert background.take("a") is None


def test_what_the_computation_raises_is_left_to_the_caller() -> None:
    background: BackgroundValue[float] = BackgroundValue()
    background.begin("a", lambda: 1 / 0)
    assert background.take("a") is None


def test_copies_begin_without_a_value() -> None:
    background: BackgroundValue[int] = BackgroundValue()
    background.begin("a", int)
    assert pickle.loads(pickle.dumps(background)).take("a") is None
    assert background.take("a") == 0


def test_a_child_of_fork_has_a_thread_of_its_own() -> None:
    background: BackgroundValue[int] = BackgroundValue()
    go = threading.Event()
    background.begin("a", lambda: int(go.wait(10)))
    child = os.fork()
    if not child:
        right = background.take("a") is None
        background.begin("a", lambda: 5)
        os._exit(0 if right and background.take("a") == 5 else 1)
    go.set()
    assert os.waitpid(child, 0)[1] == 0
    assert background.take("a") == 1


def test_without_a_thread_there_is_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    background: BackgroundValue[int] = BackgroundValue()
    background.begin("a", int)
    assert background.take("a") is None


def test_the_thread_ends_with_the_object() -> None:
    background: BackgroundValue[threading.Thread] = BackgroundValue()
    background.begin("a", threading.current_thread)
    thread = background.take("a")
    assert thread is not None
    del background
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()
