"""SharedRecord: a document that several processes read and change."""

from __future__ import annotations

import multiprocessing
import sys
import threading
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from fastload.runtime.shared_record import SharedRecord

if TYPE_CHECKING:
    from types import FrameType


def _count(record: SharedRecord, times: int) -> None:
    def add(document: dict[str, Any]) -> None:
        document["counts"]["all"] += 1

    for _ in range(times):
        record.change(add)


def test_a_change_that_fails_changes_nothing() -> None:
    record = SharedRecord.of({"counts": {"all": 1}})

    def change(document: dict[str, Any]) -> None:
        document["new"] = True
        document["counts"]["all"] = 2
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        record.change(change)
    assert record.read() == {"counts": {"all": 1}}


def test_the_document_does_not_depend_on_the_one_that_was_given() -> None:
    given = {"counts": {"all": 1}}
    record = SharedRecord.of(given)
    before = record.read()
    _count(record, 1)
    assert given == before == {"counts": {"all": 1}}
    given["more"] = {}
    assert record.read() == {"counts": {"all": 2}}


def test_processes_change_one_document() -> None:
    record = SharedRecord.of({"counts": {"all": 0}})
    _count(record, 5)
    fork = multiprocessing.get_context("fork")
    others = [fork.Process(target=_count, args=(record, 500)) for _ in range(2)]
    for other in others:
        other.start()
    _count(record, 500)
    for other in others:
        other.join()
        assert other.exitcode == 0
    assert record.read() == {"counts": {"all": 1505}}


def test_a_change_keeps_the_lock_while_it_reads() -> None:
    record, other = (SharedRecord.of({"counts": {"all": 0}}) for _ in range(2))
    process = multiprocessing.get_context("fork").Process(target=_count, args=(record, 1))

    def change(document: dict[str, Any]) -> None:
        process.start()
        _count(other, 1)
        assert other.read() == {"counts": {"all": 1}}
        assert record.look(lambda before: before) == {"counts": {"all": 0}}
        process.join(0.5)
        assert process.is_alive()
        document["counts"]["all"] += 10

    record.change(change)
    process.join()
    assert process.exitcode == 0
    assert record.read() == {"counts": {"all": 11}}


def test_ctrl_c_leaves_no_lock_behind() -> None:
    """Not even while the traceback, and with it every frame, is alive."""
    record = SharedRecord.of({"counts": {"all": 0}})
    for event in count():
        interrupt = _interrupted(record, event)
        other = threading.Thread(target=_count, args=(record, 1), daemon=True)
        other.start()
        other.join(10)
        assert not other.is_alive(), f"the lock is held after event {event}"
        if interrupt is None:
            assert event > 3
            return


def _interrupted(record: SharedRecord, event: int) -> KeyboardInterrupt | None:
    """Change the record with Ctrl-C at an event; None if there is no such event.

    Python looks for Ctrl-C where its functions begin, and after the calls of C functions.
    """
    events = count()

    def profile(_frame: FrameType, name: str, _argument: object) -> None:
        if name != "c_call" and next(events) == event:
            raise KeyboardInterrupt

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        _count(record, 1)
    except KeyboardInterrupt as interrupt:
        return interrupt
    finally:
        sys.setprofile(before)
    return None
