"""What on_error="skip" left out, as its processes tell it."""

import copy
import os
import pickle
import warnings

import pytest

from fastload.rows.skip_report import SkipReport

MESSAGE = r"Row group 3 of a\.parquet is left out: Expected X.*\. Others come, because of on_error="


def add(report, file, group, error="Expected X, got Y - at a.parquet, row group 3, column `b`"):
    report.add(file, "a.parquet", group, error, "Others come")


def test_entries_in_order_and_once():
    report = SkipReport()
    with pytest.warns(UserWarning, match=MESSAGE):
        add(report, 0, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        add(report, 1, 3, "no")
        add(report, 0, 3, "other")
        add(report, 0, 2, "x" * 500 + "\n\n y")
        add(report, 0, 1, "Expected X, got Y - at a.parquet, row group 1")
    first, second, third, fourth = report.entries
    assert first == (0, 3, "Expected X, got Y - at column `b`")
    assert second == (1, 3, "no")
    assert third == (0, 2, "x" * 197 + "...")
    assert fourth == (0, 1, "Expected X, got Y")


def test_a_forked_process_adds_to_it():
    report = SkipReport([(9, 9, "")])
    if not (child := os.fork()):
        add(report, 0, 3)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    add(report, 0, 3)
    assert [entry[:2] for entry in report.entries] == [(9, 9), (0, 3)]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))])
def test_copies_stand_alone(copied):
    report = SkipReport([(9, 9, "why")])
    other = copied(report)
    add(other, 0, 3)
    assert report.entries == [(9, 9, "why")]
    assert [entry[:2] for entry in other.entries] == [(9, 9), (0, 3)]


def test_its_size_is_bounded():
    report = SkipReport([(0, k, "cause") for k in range(2000)])
    add(report, 1, 0)
    assert report.entries[-1] == (1, 0, "")
