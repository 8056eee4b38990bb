"""Warming: which rows are whose."""

import numpy as np
import pytest

from fastload.dataset.ranks import Rank
from fastload.dataset.warm import _plan_of
from fastload.plan.options import Options
from fastload.plan.sequence import RowGroups
from support.plan_definition import rows_of

ROWS = np.array([1000] * 24 + [6])
GROUPS = RowGroups(ROWS, np.zeros(25, np.int64), np.arange(25))


@pytest.mark.parametrize("shares", [1, 3, 16])
@pytest.mark.parametrize("shuffle", [False, True])
def test_shares_make_up_what_a_rank_reads(shares, shuffle):
    options = Options(batch_size=40, shuffle=shuffle, shuffle_window=500)
    for number in range(2):
        rank = Rank(number, 2, "arguments")
        whole = rows_of(_plan_of(GROUPS, options, rank, (0, 1), 40))
        assert len(whole) == (24_006 if shuffle else 12_003)
        parts = [_plan_of(GROUPS, options, rank, (i, shares), 40) for i in range(shares)]
        assert np.array_equal(np.concatenate([rows_of(part) for part in parts]), whole)
