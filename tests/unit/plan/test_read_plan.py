"""Read plans worked out by hand, and what is refused."""

import pickle

import numpy as np
import pytest

from fastload.plan.options import Options
from fastload.plan.permutation import stream_key
from fastload.plan.position import (
    BatchPosition,
    Leg,
    Position,
    WorkerSlot,
    advance,
    batches,
    remaining_rows,
)
from fastload.plan.read_plan import read_plan, row_group_plan
from fastload.plan.sequence import RowGroups
from support.plan_definition import epoch_rows, rows_of
from support.worker_plan import worker_plan


def row_groups(*rows, file=None, index=None):
    file = [0] * len(rows) if file is None else file
    index = list(range(len(rows))) if index is None else index
    return RowGroups(*(np.array(a, np.int64) for a in (rows, file, index)))


def read(groups, options, progress=(), world=1, rank=0, workers=1, worker=0, **kwargs):
    kwargs = {"stripe_rows": 4 * options.batch_size, "epoch": 0, **kwargs}
    return worker_plan(
        groups,
        options,
        progress=progress,
        part=WorkerSlot(world, workers, worker, rank),
        **kwargs,
    )


def test_stripes_cut_row_groups():
    groups = row_groups(5, 0, 6, file=[0, 0, 1], index=[0, 1, 0])
    got = read(groups, Options(batch_size=2), stripe_rows=4)
    assert got.rows == 11
    assert got.batches == 6
    assert got.pieces.tolist() == [[0, 0, 0, 4], [0, 0, 4, 5], [1, 0, 0, 3], [1, 0, 3, 6]]
    assert got.takes.tolist() == [[0, 4], [0, 4], [0, 3]]
    assert got.windows.tolist() == [[0, 0], [1, 1], [3, 2], [4, 3]]
    assert got.keys.tolist() == [0, 0, 0]


def test_the_first_stripes_of_a_ramp_are_small():
    read_rows = {"groups": row_groups(60), "options": Options(batch_size=2), "ramp": True}
    got = read(**read_rows, stripe_rows=16)
    assert got.takes[:, 1].tolist() == [2, 2, 4, 8, 16, 16, 12]
    got = read(**read_rows, stripe_rows=12)
    assert got.takes[:, 1].tolist() == [2, 2, 4, 12, 12, 12, 12, 4]
    assert read(**read_rows, stripe_rows=2).takes[:, 1].tolist() == [2] * 30


def test_a_repeat_without_shuffle_is_a_piece_of_its_own():
    got = read(row_groups(3), Options(batch_size=2, uneven="pad"), world=2, rank=1)
    assert got.pieces.tolist() == [[0, 0, 2, 3], [0, 0, 2, 3]]
    assert got.takes.tolist() == [[0, 2]]
    assert (got.rows, got.padding) == (2, 1)


def test_a_repeat_with_shuffle_is_a_take_of_its_own():
    options = Options(batch_size=2, shuffle=True, shuffle_window=100)
    got = read(row_groups(3), options, world=2, rank=1)
    assert got.pieces.tolist() == [[0, 0, 0, 3]]
    assert got.takes.tolist() == [[2, 3], [2, 3]]
    assert got.windows.tolist() == [[0, 0], [1, 2]]
    assert (got.rows, got.padding) == (2, 0)


def test_an_empty_rank_repeats_the_last_row_within_the_limit():
    got = read(row_groups(9), Options(batch_size=4, limit=2), world=3, rank=2)
    assert got.pieces.tolist() == [[0, 0, 1, 2]]


def test_a_window_is_read_whole_and_once_for_all_that_is_taken_of_it():
    options = Options(batch_size=1, shuffle=True, shuffle_window=8, uneven="keep")
    # Two workers had four batches each; the first delivered two, the second one.
    got = read(row_groups(4, 4), options, progress=[Leg(1, 2, 3)])
    assert sorted(got.pieces.tolist()) == [[0, 0, 0, 4], [0, 1, 0, 4]]
    assert got.takes.tolist() == [[2, 4], [5, 8]]
    assert got.keys.tolist() == [stream_key(0, 0, 1, 0)]


def test_the_worker_whose_turn_it_is_comes_first():
    options = Options(batch_size=1)
    got = [
        rows_of(read(row_groups(6), options, [Leg(1, 2, 1)], workers=2, worker=w)) for w in range(2)
    ]
    # Worker 0 had rows 0-2 and delivered row 0; worker 1, with rows 3-5, is next.
    assert [rows[:, 2].tolist() for rows in got] == [[3, 4, 5], [1, 2]]


def test_progress_stays_short():
    progress = ()
    for _ in range(100):
        progress = advance(progress, 2, 4, 3)
    assert progress == (Leg(2, 4, 300),)
    assert advance(progress, 2, 0, 0) == progress
    assert advance(progress, 2, 0, 1) == (*progress, Leg(2, 1, 1))
    assert advance([Leg(2, 0, 300)], 2, 1, 3) == (Leg(2, 1, 303),)


def test_a_pickled_position_of_a_batch_keeps_its_slot():
    mark = BatchPosition(Position(3, 1, (Leg(1, 1, 4),)), WorkerSlot(4, 2, 1, rank=3), 5, "a", "b")
    assert pickle.loads(pickle.dumps(mark)) == mark


def test_a_finished_epoch_has_nothing_left():
    options = Options(batch_size=4, drop_last=True)
    finished = [Leg(2, 1, 1)]
    assert batches(10, options, [], world=2, rank=0) == 1
    assert remaining_rows(10, options, finished) == 0
    assert batches(10, options, finished, world=1, rank=0) == 0
    assert batches(10, options, finished, world=2, rank=1) == 0


def test_rows_dropped_in_an_unfinished_leg_are_split_anew():
    options = Options(batch_size=3, drop_last=True)
    assert remaining_rows(14, options, [Leg(2, 1, 1)]) == 8
    assert batches(14, options, [Leg(2, 1, 1)], world=1, rank=0) == 2


@pytest.mark.parametrize("uneven", ["wrap", "drop", "pad", "keep"])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("rows", [(), (0,), (0, 0)])
def test_no_rows_are_no_batches(rows, shuffle, uneven):
    options = Options(batch_size=4, shuffle=shuffle, uneven=uneven)
    assert batches(0, options, [], world=3, rank=1) == 0
    got = read(row_groups(*rows), options, world=3, rank=1)
    assert (got.rows, got.batches) == (0, 0)
    assert got.windows.tolist() == [[0, 0]]
    assert epoch_rows(row_groups(*rows), options, 0).shape == (0, 3)


def test_orders_stay_as_they_are():
    """A change here would change every user's order: runs could not be resumed or repeated."""
    options = Options(batch_size=4, shuffle=True, shuffle_window=6, seed=42)
    rows = epoch_rows(row_groups(3, 5, 4), options, 1)
    assert rows[:, 1:].tolist() == [
        [0, 0],
        [2, 2],
        [2, 1],
        [0, 2],
        [2, 0],
        [0, 1],
        [1, 3],
        [1, 0],
        [1, 4],
        [1, 2],
        [1, 1],
        [2, 3],
    ]


def test_epochs_and_seeds_have_orders_of_their_own():
    groups = row_groups(50, 50, 50)
    orders = {
        epoch_rows(groups, Options(4, shuffle=True, shuffle_window=75, seed=seed), epoch).tobytes()
        for seed in range(4)
        for epoch in range(4)
    }
    assert len(orders) == 16


def test_window_edges_are_exact_for_very_many_rows():
    groups = row_groups(*[2**40 + 1] * 4)
    options = Options(batch_size=2**20, shuffle=True, shuffle_window=2**20 - 3)
    total, count = groups.total_rows, groups.total_rows // options.shuffle_window
    got = read(groups, options, world=2**20, rank=2**19 + 5)
    lengths = [
        (got.pieces[a:b, 3] - got.pieces[a:b, 2]).sum()
        for a, b in zip(got.windows[:-1, 0], got.windows[1:, 0], strict=True)
    ]
    number = (got.rows * (2**19 + 5) * count) // total
    assert lengths == [
        (i + 1) * total // count - i * total // count for i in range(number, number + len(lengths))
    ]


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_million_row_groups_are_planned_at_once(shuffle):
    count = 1_000_000
    groups = row_groups(*[1000] * count, file=np.arange(count) // 10, index=np.arange(count) % 10)
    options = Options(batch_size=4096, shuffle=shuffle)
    # A loop over the rows would take hours, and pytest's timeout would end the test.
    got = read(groups, options, [Leg(8, 4, 100)])
    assert got.rows == 1000 * count - 8 * 100 * 4096


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"batch_size": 0}, "Expected batch_size to be at least 1, got 0"),
        ({"shuffle_window": 0}, "Expected shuffle_window to be at least 1, got 0"),
        ({"limit": -1}, "Expected limit to be at least 0, got -1"),
        ({"uneven": "skip"}, "Expected uneven to be one of 'wrap', .*, got 'skip'"),
    ],
)
def test_wrong_options_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        Options(**{"batch_size": 4, **wrong})


@pytest.mark.parametrize("leg", [(0, 1, 0), (1, -1, 0), (1, 1, -1)])
def test_wrong_legs_are_refused(leg):
    with pytest.raises(ValueError, match="to be at least"):
        Leg(*leg)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"world": 2, "rank": 2}, "Expected rank to be between 0 and 1, got 2"),
        ({"workers": 2, "worker": -1}, "Expected worker to be between 0 and 1, got -1"),
        ({"skip_batches": -1}, "Expected skip_batches to be at least 0, got -1"),
        ({"stripe_rows": 6}, "Expected stripe_rows to be a multiple of 4 .batch_size., got 6"),
        ({"progress": [Leg(1, 1, 4)]}, "Expected at most 3 delivered batches .*, got 4"),
        ({"progress": [Leg(2, 1, 3)]}, "Expected at most 2 delivered .* on 2 ranks"),
    ],
)
def test_wrong_requests_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        read(row_groups(10), Options(batch_size=4), **wrong)


def test_wrong_row_groups_are_refused():
    with pytest.raises(ValueError, match="equal lengths, got 2, 1, 2"):
        row_groups(1, 2, file=[0])
    with pytest.raises(ValueError, match="at least 0, got -3"):
        row_groups(1, -3)


def test_windows_are_short_where_few_rows_stay():
    groups = RowGroups(
        rows=np.array([3, 40, 2, 0, 2, 2]),
        file=np.zeros(6, np.int64),
        index=np.arange(6),
        stored=np.array([100, 40, 100, 100, 100, 100]),
    )
    found = read(groups, Options(batch_size=10), stripe_rows=20)
    edges = np.append(0, np.cumsum(found.takes[:, 1] - found.takes[:, 0])).tolist()
    # Regular ones every 20 rows; before each row group that comes after 100 rows or more of
    # which few stay.
    assert edges == [0, 3, 20, 40, 45, 47, 49]


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 1000])
def test_the_plan_of_one_row_group_is_that_of_a_dataset_of_it(rows):
    one = RowGroups(*(np.array([number], np.int64) for number in (rows, 3, 7)))
    options = Options(batch_size=16, uneven="keep")
    expected = read_plan(one, options, 0, WorkerSlot(1), stripe_rows=64)
    found = row_group_plan(3, 7, rows, 16, 64)
    for name in ("pieces", "takes", "windows", "keys"):
        ours, theirs = getattr(found, name), getattr(expected, name)
        assert ours.dtype == theirs.dtype
        assert ours.flags.c_contiguous
        np.testing.assert_array_equal(ours, theirs)
    for name in ("batch_rows", "rows", "padding", "shuffled", "seed", "epoch"):
        assert getattr(found, name) == getattr(expected, name)
