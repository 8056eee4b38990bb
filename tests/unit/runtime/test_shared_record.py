"""SharedRecord: a document that is private until it is shared, and then changed by all."""

from __future__ import annotations

import multiprocessing

import pytest

from fastload.runtime.shared_record import SharedRecord


def _count(record: SharedRecord, times: int) -> None:
    for _ in range(times):
        with record.changed() as document:
            document["counts"]["all"] += 1


@pytest.mark.parametrize("private", [False, True])
def test_a_change_that_fails_changes_nothing(private: bool) -> None:
    record = SharedRecord.of({"counts": {"all": 1}}, private=private)

    def change() -> None:
        with record.changed() as document:
            document["new"] = True
            document["counts"]["all"] = 2
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        change()
    assert record.read() == {"counts": {"all": 1}}


def test_a_private_document_does_not_depend_on_the_one_that_was_given() -> None:
    given = {"counts": {"all": 1}}
    record = SharedRecord.of(given, private=True)
    before = record.read()
    _count(record, 1)
    assert given == before == {"counts": {"all": 1}}
    given["more"] = {}
    assert record.read() == {"counts": {"all": 2}}


def test_processes_share_what_was_private_before() -> None:
    record = SharedRecord.of({"counts": {"all": 0}}, private=True)
    _count(record, 5)
    record.share()
    fork = multiprocessing.get_context("fork")
    others = [fork.Process(target=_count, args=(record, 500)) for _ in range(2)]
    for other in others:
        other.start()
    _count(record, 500)
    for other in others:
        other.join()
        assert other.exitcode == 0
    assert record.read() == {"counts": {"all": 1505}}
