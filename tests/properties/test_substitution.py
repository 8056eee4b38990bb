"""What stands in for unreadable rows, against damage that is known row by row."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from plan_cases import Case, cases, legs, progress_of, worlds

from fastload.plan.options import Options
from fastload.plan.position import WorkerSlot, turn
from fastload.plan.sequence import RowGroups
from fastload.plan.substitution import NothingReadableError, Substitution
from support.plan_definition import rows_of


class Damage:
    """Row groups of which some rows can't be read, and the passes that find out."""

    def __init__(self, bad, choose):
        self._bad = bad  # by (file, row group): rows
        self._choose = choose  # one of the failures in the first window that has some

    def fails(self, piece):
        file, group, start, stop = piece
        return any(start <= row < stop for row in self._bad.get((file, group), ()))

    def settle(self, share, rows):
        """The plan from `rows` on, when nothing in it fails any more, and its first rows."""
        for _ in range(10_000):
            left, first, lead = share.after(rows)
            found = self._first_failures(left)
            if not found:
                return left, lead
            window, groups = found
            share.leave_out(first + window, *self._choose(sorted(groups)))
        raise AssertionError("Expected an end of the search")

    def _first_failures(self, left):
        for window in range(len(left.keys)):
            first, stop = left.windows[window : window + 2, 0]
            groups = {tuple(p[:2]) for p in left.pieces[first:stop].tolist() if self.fails(p)}
            if groups:
                return window, groups
        return None


def rows_and_marks(left, lead):
    """Rows that a plan delivers, and which of them are real."""
    pieces = left.pieces.copy()
    pieces[:, 0] = 0
    pieces[left.substitutes, 0] = 1
    marks = rows_of(replace(left, pieces=pieces))[:, 0] == 0
    return [tuple(row) for row in rows_of(left).tolist()][lead:], marks[lead:].tolist()


def windows_of(plan):
    """For each row that a plan delivers: the key of its window, or 0 without shuffle."""
    windows = zip(plan.keys.tolist(), plan.windows[:-1, 1], plan.windows[1:, 1], strict=True)
    return [
        key
        for key, first, stop in windows
        for start, end in plan.takes[first:stop].tolist()
        for _ in range(end - start)
    ]


def rows_of_rank(case, progress, world, rank, workers):
    """The rows that a rank delivers in its last leg, each with the key of its window."""
    rows = set()
    for number in range(workers):
        of_worker, _ = share_of(case, progress, world, rank, workers, number)
        whole, _, _ = of_worker.after(0)
        rows |= set(zip(map(tuple, rows_of(whole).tolist()), windows_of(whole), strict=True))
    return rows


def share_of(case, progress, world, rank, workers, worker):
    total = case.row_groups.total_rows
    here = turn(total, case.options, progress, WorkerSlot(world, workers, worker, rank), 0)

    def plan_of(number):
        return case.plan(here.before, world, rank, workers, number)

    return Substitution(plan_of, here.worker, workers), here.delivered * case.options.batch_size


def bad_rows(case, draw):
    groups = case.row_groups
    bad = {}
    for file, index, rows in zip(groups.file, groups.index, groups.rows, strict=True):
        kind = draw(st.sampled_from(["sound", "sound", "whole", "part"]))
        if kind == "whole":
            bad[int(file), int(index)] = range(int(rows))
        elif kind == "part" and rows:
            bad[int(file), int(index)] = [draw(st.integers(0, int(rows) - 1))]
    return bad


@given(cases(), legs, worlds, st.integers(1, 3), st.data())
@settings(max_examples=settings.default.max_examples // 2)
def test_a_share_with_damage(case: Case, drawn, world, workers, data):
    progress = progress_of(case, drawn)
    rank, worker = data.draw(st.integers(0, world - 1)), data.draw(st.integers(0, workers - 1))
    bad = bad_rows(case, data.draw)
    share, before = share_of(case, progress, world, rank, workers, worker)
    want = case.plan(progress, world, rank, workers, worker)
    planned, marks = rows_and_marks(*share.after(before)[::2])
    assert planned == [tuple(row) for row in rows_of(want).tolist()]
    assert all(marks)
    own = rows_of_rank(case, progress, world, rank, workers)
    try:
        settled = Damage(bad, lambda groups: groups[0]).settle(share, before)
    except NothingReadableError:
        if case.options.shuffle:
            # All pieces with a row of the rank in some window are damaged.
            assert {row[:2] for row, _ in own} <= set(bad)
        else:
            of_rank = [case.plan(progress, world, rank, workers, n).pieces for n in range(workers)]
            assert {tuple(p[:2]) for p in np.concatenate(of_rank).tolist()} <= set(bad)
        return
    rows, marks = rows_and_marks(*settled)
    assert len(rows) == want.rows
    readable = {w for row, w in own if row[:2] not in bad}
    of_window = {w: {r for r, other in own if other == w} for w in readable}
    of_rank = {row for row, _ in own}
    window_of = windows_of(case.plan(progress, world, rank, workers, worker))
    for row, mark, place, window in zip(rows, marks, planned, window_of, strict=True):
        if not mark:
            # A row of the rank, and of the same window if that has one in a sound row group.
            assert row in of_window.get(window, of_rank)
        assert row[2] not in bad.get(row[:2], ())
        assert not mark or row == place
        # What is in a sound row group is where it belongs.
        assert mark or place[:2] in bad

    # Whatever is found first, and wherever the run goes on, the rows are the same.
    picks = data.draw(st.randoms(use_true_random=False))
    other, _ = share_of(case, progress, world, rank, workers, worker)
    assert rows_and_marks(*Damage(bad, picks.choice).settle(other, before)) == (rows, marks)
    size = case.options.batch_size
    later = data.draw(st.integers(0, -(-want.rows // size))) * size
    other, _ = share_of(case, progress, world, rank, workers, worker)
    rest = Damage(bad, picks.choice).settle(other, before + later)
    assert rows_and_marks(*rest) == (rows[later:], marks[later:])


@given(cases(), st.data())
@settings(max_examples=settings.default.max_examples // 2)
def test_substitutes_are_near(case, data):
    """They come from the same window, if the rank delivers a readable row of the window."""
    assume(case.row_groups.total_rows)
    share, _ = share_of(case, (), 1, 0, 1, 0)
    whole, _, _ = share.after(0)
    assume(len(whole.keys))
    window = data.draw(st.integers(0, len(whole.keys) - 1))
    first, stop = whole.windows[window : window + 2, 0]
    pieces = [tuple(p) for p in whole.pieces[first:stop].tolist()]
    failed = data.draw(st.sampled_from(pieces))
    sound = [p for p in pieces if p[:2] != failed[:2]]
    # drop_last and limit leave rows out, which do not stand in.
    delivered = set(map(tuple, rows_of(whole).tolist()))
    own = [p for p in sound if any((*p[:2], row) in delivered for row in range(*p[2:]))]
    assume(own)
    share.leave_out(window, *failed[:2])
    changed, _, _ = share.after(0)
    spans = {p[:2]: (p[2], p[3]) for p in sound}
    assume(len(spans) == len(sound))
    for file, group, start, stop in changed.pieces[changed.substitutes].tolist():
        low, high = spans[file, group]
        assert low <= start < stop <= high


def test_the_nearest_piece_stands_in():
    groups = RowGroups(*(np.array(a) for a in ([4, 3, 9, 5], [0] * 4, range(4))))
    share, _ = share_of(Case(groups, Options(batch_size=3), 0, 99), (), 1, 0, 1, 0)
    share.leave_out(0, 0, 2)
    left, first, lead = share.after(0)
    assert (first, lead) == (0, 0)
    assert left.pieces.tolist() == [[0, 0, 0, 4], *[[0, 1, 0, 3]] * 4, [0, 3, 0, 5]]
    assert left.substitutes.tolist() == [2, 3, 4]
    share.leave_out(0, 0, 1)
    left, _, _ = share.after(0)
    assert left.pieces.tolist() == [
        [0, 0, 0, 4],
        [0, 0, 0, 3],
        [0, 3, 0, 5],
        [0, 3, 0, 4],
        [0, 3, 0, 5],
    ]


def test_a_share_of_which_a_thousandth_can_be_read():
    groups = RowGroups(*(np.array(a) for a in ([1, 2000], [0] * 2, range(2))))
    share, _ = share_of(Case(groups, Options(batch_size=5), 0, 999), (), 1, 0, 1, 0)
    with pytest.raises(NothingReadableError):
        share.leave_out(0, 0, 1)
