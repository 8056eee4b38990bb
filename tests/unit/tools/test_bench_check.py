"""The check of a contender's rows against those of the reference."""

import pytest
import torch

from fastload.tools.bench.check import fault, fingerprint

GOOD = {"a": torch.arange(10), "b": torch.arange(10).float()}


def batches(columns, size=4):
    return [
        {name: value[i : i + size] for name, value in columns.items()}
        for i in range(0, len(next(iter(columns.values()))), size)
    ]


def changed(name, row, value):
    column = GOOD[name].clone()
    column[row] = value
    return {**GOOD, name: column}


def swapped():
    return {**GOOD, "a": GOOD["a"][[1, 0, *range(2, 10)]]}


ORDER = torch.tensor([3, 1, 4, 0, 5, 9, 2, 6, 8, 7])


@pytest.mark.parametrize(
    ("columns", "shuffled", "sentence"),
    [
        ({name: value[:9] for name, value in GOOD.items()}, False, "Expected 10 rows, got 9"),
        (changed("b", 3, 3.5), False, "at column `b`"),
        (changed("b", 3, float("nan")), True, "at column `b`"),
        ({"a": GOOD["a"]}, False, "Expected columns ['a', 'b'], got ['a']"),
        ({**GOOD, "a": GOOD["a"].int()}, False, "Expected int64, got int32 - at column `a`"),
        (swapped(), False, "values in other rows"),
        (swapped(), True, "values in other rows"),
        ({name: value[ORDER] for name, value in GOOD.items()}, False, "in stored order"),
        (GOOD, True, "Expected shuffled rows, got the stored order"),
        ({name: value[[0, *range(9)]] for name, value in GOOD.items()}, True, "at column `a`"),
    ],
)
def test_a_wrong_contender_is_found_out(columns, shuffled, sentence):
    expected = fingerprint(batches(GOOD))
    got = fingerprint(batches(columns))
    assert sentence in fault(got, expected, shuffled=shuffled, ordered=not shuffled)


def test_right_rows_pass_however_they_are_cut():
    expected = fingerprint(batches(GOOD))
    assert not fault(fingerprint(batches(GOOD)), expected, shuffled=False, ordered=True)
    mixed = fingerprint(batches({name: value[ORDER] for name, value in GOOD.items()}))
    assert not fault(mixed, expected, shuffled=True, ordered=False)
    larger = fingerprint(batches(GOOD, 5))
    assert "batches of 4 rows" in fault(larger, expected, shuffled=False, ordered=True)


def test_nan_equals_nan_of_other_bits():
    quiet = torch.tensor([0x7FC00000], dtype=torch.int32).view(torch.float32)
    other = torch.tensor([0x7FC00001], dtype=torch.int32).view(torch.float32)
    assert fingerprint([{"x": quiet}]) == fingerprint([{"x": other}])
    assert fingerprint([{"x": quiet}]) != fingerprint([{"x": torch.zeros(1)}])
