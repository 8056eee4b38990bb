"""The shuffle window that is chosen where the user gives none."""

import numpy as np
import pytest

from fastload.plan.options import Options, Window
from fastload.plan.rank_split import RankSplit, whole_epoch
from fastload.plan.sequence import RowGroups, ShuffleWindows, choose_window


def groups_of(rows, group):
    sizes = np.diff(np.append(np.arange(0, rows, group), rows))
    return RowGroups(sizes, np.zeros_like(sizes), np.arange(len(sizes)))


@pytest.mark.parametrize(
    ("rows", "world", "window"),
    [
        (8_000_000, 1, Window(2**19)),
        (8_000_000, 2, Window(500_000, 2)),
        (8_000_000, 512, Window(15_625, 512)),
        (8_000_000, 1024, Window(10_000)),  # a row group
        (100, 512, Window(100)),
    ],
)
def test_windows_follow_a_share(rows, world, window):
    assert choose_window(Options(1, shuffle=True), groups_of(rows, 10_000), world) == window


@pytest.mark.parametrize(
    "options",
    [
        Options(1, shuffle=True, limit=4_000_000),
        Options(1, shuffle=True, offset=4_000_000),
        Options(1, shuffle=True, limit=4_000_000, pack="p"),
        Options(1, limit=4_000_000, budget="b", forms_in_windows=True),
    ],
)
def test_windows_that_cannot_end_with_shares_are_a_quarter(options):
    groups = groups_of(8_000_000, 10_000)
    assert choose_window(options, groups, 64) == Window(15_625)
    assert choose_window(options, groups, 512) == Window(10_000)


def test_canonical_slices_choose_for_every_world():
    groups, canonical = groups_of(8_000_000, 10_000), Options(8, shuffle=True, canonical_ranks=8)
    assert {choose_window(canonical, groups, world) for world in (1, 2, 8)} == {Window(2**19)}
    few = groups_of(80_000, 100)
    assert choose_window(canonical, few, 2) == Window(80_000)


@pytest.mark.parametrize("rows", [1_000_003, 65_536, 999_000])
@pytest.mark.parametrize("world", [2, 3, 7, 64])
def test_windows_end_with_the_shares_of_ranks(rows, world):
    options = Options(1, shuffle=True, shuffle_window=2**13)
    options = options.in_windows(choose_window(options, groups_of(rows, 100), world))
    windows = ShuffleWindows.of(rows, options)
    edges = windows.all_edges()
    split = RankSplit(whole_epoch(rows, options), world, options, rows)
    for rank in range(world):
        start, stop = split.share(rank, 0, rows).positions[0].tolist()
        assert start in edges
        assert stop in edges
    assert np.diff(edges).max() <= 2**13 + 1
    assert [windows.number_at(edge) for edge in edges[:-1].tolist()] == list(range(len(edges) - 1))
