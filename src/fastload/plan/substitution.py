"""The choice of rows that stand in for the rows of an unreadable row group. Pure.

A row group fails in one window of a worker's share of a leg: all its pieces in the window fail
together. Only rows of the rank stand in: rows that the plans of the rank's workers deliver in
the leg. A shuffled window may have other rows too: rows of other ranks, and rows beyond `limit`.

A failed piece of n rows is replaced by n rows of the nearest readable pieces of its window that
have rows of the rank; of two pieces at equal distance, the earlier one comes first. Pieces are
taken until they have an eighth as many rows of the rank as the failed piece, and are then repeated
from the first on. Only if the window has less than a thousandth as many, pieces of the rank's
other windows follow, the nearest first. If the n rows are all the rank's, the window delivers them
as they are. Else the places of the failed piece that the rank delivers are directed to the rank's
own rows among the n rows, one after the other.

If a substitute turns out to be unreadable, its row group has failed in the window too, and the
window's substitutes are chosen anew.

The result does not depend on the order in which failures are found: the more row groups of a
window have failed, the further each search goes, so every order ends with the same failed row
groups. The result does not depend on the batch at which a run was resumed either, because the
share is that of the whole leg.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import cached_property
from itertools import cycle, zip_longest
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastload.plan.intervals import Int64s, edges_of
from fastload.plan.permutation import permutation

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from fastload.plan.read_plan import ReadPlan

__all__ = ["NothingReadableError", "Substitution"]

# Most repeats of a piece where the window has more pieces: each repeat is read anew.
_REPEATS = 8
# Most repeats of a piece where the rank has more windows. If all pieces together would be repeated
# more often, nothing can stand in.
_MOST_REPEATS = 1000

_Piece = tuple[int, int, int, int]  # file, row group, start row, stop row
_RowGroup = tuple[int, int]  # file, row group
_Bools = NDArray[np.bool_]

# A range that every piece contains.
_ALWAYS = (1 << 62, 0)


class _Candidate(NamedTuple):
    """A piece that may stand in, and which of its rows are the rank's, bool (rows,)."""

    piece: _Piece
    own: _Bools

    def cut(self, rows: int) -> _Candidate:
        """Return at most `rows` rows, from the first row of the rank on if enough rows follow."""
        size = min(rows, len(self.own))
        first = min(int(self.own.argmax()), len(self.own) - size)
        file, row_group, start, _ = self.piece
        piece = (file, row_group, start + first, start + first + size)
        return _Candidate(piece, self.own[first : first + size])


class _Pool:
    """Candidates that are readable, as far as known, for a failed piece.

    Args:
        wanted: number of rows of the failed piece.

    Attributes:
        rows: number of rows of the candidates.
        own: number of these rows that are the rank's.
    """

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._candidates: list[_Candidate] = []
        self.rows = 0
        self.own = 0

    @property
    def room(self) -> int:
        """Number of rows that are still wanted."""
        return self._wanted - self.rows

    def add(self, candidate: _Candidate) -> None:
        """Add a candidate of at most `room` rows."""
        self._candidates.append(candidate)
        self.rows += len(candidate.own)
        self.own += int(candidate.own.sum())

    def repeated(self) -> list[_Candidate]:
        """Return the candidates, repeated from the first on until they have the rows wanted."""
        result: list[_Candidate] = []
        left = self._wanted
        for (file, row_group, start, stop), own in cycle(self._candidates):
            size = min(stop - start, left)
            result.append(_Candidate((file, row_group, start, start + size), own[:size]))
            left -= size
            if not left:
                break
        return result


class _Changed(NamedTuple):
    """A window with substitutes.

    Attributes:
        pieces: the pieces, and for each whether its rows are substitutes. They have as many rows
            as the window has without damage.
        moves: for each row of the window, the row that is delivered in its place, (rows,); None =
            each row itself.
    """

    pieces: list[tuple[_Piece, bool]]
    moves: Int64s | None


class NothingReadableError(LookupError):
    """No row of the rank can stand in for unreadable rows."""


class Substitution:
    """A worker's share of a leg, with substitutes for rows that cannot be read.

    Args:
        plan_of: returns the plan of the whole share of a worker of this rank.
        worker: number of this worker.
        workers: number of workers of this rank.
    """

    def __init__(self, plan_of: Callable[[int], ReadPlan], worker: int, workers: int) -> None:
        self._plan_of = plan_of
        self._worker = worker
        self._workers = workers
        self._plan = plan_of(worker)
        self._failed: defaultdict[int, set[_RowGroup]] = defaultdict(set)  # by window
        self._changed: dict[int, _Changed] = {}  # by window
        # Row ranges that failed. A piece that contains such a range fails without being tried.
        self._unreadable: defaultdict[_RowGroup, set[tuple[int, int]]] = defaultdict(set)
        self._own: dict[int, _Bools] = {}  # by key of a window: which of its rows are the rank's

    def without(self, lost: Collection[_RowGroup]) -> list[tuple[int, int, int]]:
        """Take row groups for unreadable; return where they are: window, file and row group."""
        if not lost:
            return []
        for group in lost:
            self._unreadable[group].add(_ALWAYS)
        found = []
        for window in range(len(self._plan.keys)):
            groups = {piece[:2] for piece in _pieces_of(self._plan, window)}
            found += [(window, *group) for group in sorted(groups.intersection(lost))]
        return found

    def leave_out(self, window: int, file: int, row_group: int) -> None:
        """Replace the rows of a row group in a window.

        Args:
            window: number of the window in the whole share.
            file: index of the file.
            row_group: index of the row group in the file.

        Raises:
            NothingReadableError: the rank has no readable rows to stand in for the row group.
        """
        group = (file, row_group)
        changed = self._changed.get(window)
        pieces = [p for p, _ in changed.pieces] if changed else _pieces_of(self._plan, window)
        tried = {piece[2:] for piece in pieces if piece[:2] == group}
        if len(tried) == 1:
            self._unreadable[group] |= tried
        self._failed[window].add(group)
        self._changed[window] = self._substituted(window)

    def after(self, rows: int) -> tuple[ReadPlan, int, int]:
        """Return the share without its first `rows` rows, which were delivered as whole batches.

        Returns:
            The plan, the number of its first window in the whole share, and the number of rows at
            its start that were delivered already: without shuffle, windows are read as a whole.
        """
        plan = self._plan
        if rows >= plan.rows:
            return _plan(plan, 0, len(plan.keys), plan.takes[:0], []), len(plan.keys), 0
        starts = edges_of(plan.takes[:, 1] - plan.takes[:, 0])
        take = int(np.searchsorted(starts, rows, side="right")) - 1
        window = int(np.searchsorted(plan.windows[:, 1], take, side="right")) - 1
        lead = 0
        if not plan.shuffled:
            take = int(plan.windows[window, 1])
            lead = rows - int(starts[take])
        takes = plan.takes[take:].copy()
        takes[0, 0] += rows - lead - starts[take]
        parts = [(w, self._changed[w]) for w in sorted(self._changed) if w >= window]
        return _plan(plan, plan.rows - rows + lead, window, takes, parts), window, lead

    def _substituted(self, window: int) -> _Changed:
        inside = self._candidates(self._plan, window)
        edges = edges_of(np.array([len(candidate.own) for candidate in inside]))
        failed = self._failed[window]
        while True:
            known = len(failed)
            result: list[tuple[_Piece, bool]] = []
            moves = np.arange(edges[-1])
            for number, (piece, mine) in enumerate(inside):
                if piece[:2] not in failed:
                    result.append((piece, False))
                    continue
                before, after = reversed(inside[:number]), iter(inside[number + 1 :])
                near = list(_alternating(before, after))
                chosen = self._stand_ins(near, self._elsewhere(window), mine, failed)
                result += [(stand_in.piece, True) for stand_in in chosen]
                places = edges[number] + np.flatnonzero(mine)
                rows = edges[number] + np.flatnonzero(np.concatenate([c.own for c in chosen]))
                moves[places] = np.resize(rows, len(places))
            if len(failed) == known:
                stays = bool((moves == np.arange(len(moves))).all())
                return _Changed(result, None if stays else moves)

    def _stand_ins(
        self,
        near: Sequence[_Candidate],
        elsewhere: Iterator[_Candidate],
        mine: _Bools,
        failed: set[_RowGroup],
    ) -> list[_Candidate]:
        """Return pieces with as many rows as a failed piece; some of the rows are the rank's.

        Args:
            near: the other pieces of the window, the nearest first.
            elsewhere: pieces of the rank's other windows, the nearest first.
            mine: which rows of the failed piece are the rank's, bool (rows,).
            failed: row groups that failed; candidates that are known to fail are added.
        """
        pool = _Pool(len(mine))
        wanted = max(1, int(mine.sum()))
        for candidates in near, elsewhere:
            own = (candidate for candidate in candidates if candidate.own.any())
            self._add(own, pool, failed, lambda: pool.own * _REPEATS >= wanted)
            if pool.own * _MOST_REPEATS >= wanted:
                break
        if not pool.own:
            raise NothingReadableError
        # Rows that the rank does not deliver fill the window up, so that fewer pieces are repeated.
        others = (candidate for candidate in near if not candidate.own.any())
        self._add(others, pool, failed, lambda: pool.rows * _REPEATS >= len(mine))
        if pool.rows * _MOST_REPEATS < len(mine):
            raise NothingReadableError
        return pool.repeated()

    def _add(
        self,
        candidates: Iterable[_Candidate],
        pool: _Pool,
        failed: set[_RowGroup],
        enough: Callable[[], bool],
    ) -> None:
        """Add candidates to a pool until `enough`; add row groups that fail to `failed`."""
        for candidate in candidates:
            if not pool.room or enough():
                return
            if candidate.piece[:2] in failed:
                continue
            candidate = candidate.cut(pool.room)
            file, row_group, start, stop = candidate.piece
            if any(start <= a and b <= stop for a, b in self._unreadable[file, row_group]):
                failed.add((file, row_group))
            else:
                pool.add(candidate)

    def _elsewhere(self, window: int) -> Iterator[_Candidate]:
        """Yield pieces of the rank's other windows, the nearest first."""
        windows, offset = self._windows_of_rank
        here = offset + window
        # Two workers that share a window both read the whole window, so its pieces are left out.
        inside = set(_pieces_of(self._plan, window))

        def candidates(numbers: range, step: int) -> Iterator[_Candidate]:
            for number in numbers:
                plan, other = windows[number]
                if inside.issuperset(_pieces_of(plan, other)):
                    continue
                for candidate in self._candidates(plan, other)[::step]:
                    if candidate.piece not in inside:
                        yield candidate

        before = candidates(range(here - 1, -1, -1), -1)
        yield from _alternating(before, candidates(range(here + 1, len(windows)), 1))

    def _candidates(self, plan: ReadPlan, window: int) -> list[_Candidate]:
        """Return all pieces of a window."""
        pieces = _pieces_of(plan, window)
        edges = edges_of(np.array([stop - start for _, _, start, stop in pieces]))
        own = np.split(self._own_rows(plan, window), edges[1:-1])
        return list(map(_Candidate, pieces, own))

    def _own_rows(self, plan: ReadPlan, window: int) -> _Bools:
        """Return which rows of a window the rank delivers, bool (rows,)."""
        rows = sum(stop - start for _, _, start, stop in _pieces_of(plan, window))
        if not plan.shuffled:
            return np.ones(rows, np.bool_)
        key = int(plan.keys[window])
        if key not in self._own:
            delivered = np.zeros(rows, np.bool_)
            for other in self._plans_of_rank:
                for number in np.flatnonzero(other.keys == plan.keys[window]).tolist():
                    first, stop = other.windows[number : number + 2, 1].tolist()
                    for start, end in other.takes[first:stop].tolist():
                        delivered[start:end] = True
            if delivered.all():
                self._own[key] = delivered
            else:
                self._own[key] = np.zeros(rows, np.bool_)
                self._own[key][permutation(rows, key)] = delivered
        return self._own[key]

    @cached_property
    def _plans_of_rank(self) -> list[ReadPlan]:
        """Plans of all workers of the rank."""
        return [
            self._plan if worker == self._worker else self._plan_of(worker)
            for worker in range(self._workers)
        ]

    @cached_property
    def _windows_of_rank(self) -> tuple[list[tuple[ReadPlan, int]], int]:
        """Plan and number of all windows of the rank, and the index of the share's first window."""
        plans = self._plans_of_rank
        windows = [(plan, window) for plan in plans for window in range(len(plan.keys))]
        return windows, sum(len(plan.keys) for plan in plans[: self._worker])


def _pieces_of(plan: ReadPlan, window: int) -> list[_Piece]:
    first, stop = plan.windows[window : window + 2, 0].tolist()
    return [(file, group, a, b) for file, group, a, b in plan.pieces[first:stop].tolist()]


def _alternating(before: Iterator[_Candidate], after: Iterator[_Candidate]) -> Iterator[_Candidate]:
    pairs = zip_longest(before, after)
    return (candidate for pair in pairs for candidate in pair if candidate is not None)


def _plan(
    plan: ReadPlan, rows: int, window: int, takes: Int64s, changed: Sequence[tuple[int, _Changed]]
) -> ReadPlan:
    """Return the windows of `plan` from `window` on, with substitutes in some windows."""
    bounds = plan.windows[:, 0]
    counts = np.diff(bounds)
    first_take = np.maximum(plan.windows[window:, 1] - (len(plan.takes) - len(takes)), 0)
    take_counts = np.diff(first_take)
    parts, take_parts = [], []
    substitutes = []
    at, size, take = int(bounds[window]), 0, 0
    for number, (marked, moves) in changed:
        parts.append(plan.pieces[at : bounds[number]])
        parts.append(np.array([piece for piece, _ in marked], np.int64))
        size += len(parts[-2])
        substitutes += [size + i for i, (_, substitute) in enumerate(marked) if substitute]
        size += len(marked)
        at = int(bounds[number + 1])
        counts[number] = len(marked)
        if moves is not None:
            first, stop = first_take[number - window : number - window + 2].tolist()
            moved = _moved(takes[first:stop], moves, int(plan.keys[number]))
            take_parts += [takes[take:first], moved]
            take_counts[number - window] = len(moved)
            take = stop
    parts.append(plan.pieces[at:])
    take_parts.append(takes[take:])
    return replace(
        plan,
        rows=rows,
        padding=min(plan.padding, rows),
        pieces=np.concatenate(parts),
        takes=np.concatenate(take_parts),
        windows=np.stack([edges_of(counts[window:]), edges_of(take_counts)], axis=1),
        keys=plan.keys[window:],
        substitutes=np.array(substitutes, np.int64),
    )


def _moved(takes: Int64s, moves: Int64s, key: int) -> Int64s:
    """Return the takes of a shuffled window that deliver the row `moves[r]` in place of row r."""
    row_at = permutation(len(moves), key)
    position_of = np.empty(len(moves), np.int64)
    position_of[row_at] = np.arange(len(moves))
    taken = np.concatenate([np.arange(start, stop) for start, stop in takes.tolist()])
    taken = position_of[moves[row_at[taken]]]
    breaks = np.flatnonzero(np.diff(taken) != 1) + 1
    first, last = np.append(0, breaks), np.append(breaks, len(taken)) - 1
    return np.stack([taken[first], taken[last] + 1], axis=1)
