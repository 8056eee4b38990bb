"""The choice of rows that stand in for the rows of an unreadable row group. Pure.

A row group fails in one window of a worker's share of a leg: all its pieces in the window fail
together. A failed piece of n rows is replaced by the rows of the nearest readable pieces. Pieces
of the same window come first, in order of distance; of two pieces at equal distance, the earlier
one comes first. Then come the pieces of the rank's other windows, in the same order outwards.
Pieces are taken until they have an eighth of n rows, and are then repeated from the first on. If
a substitute turns out to be unreadable, its row group has failed in the window too, and the
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
from itertools import chain, cycle, zip_longest
from typing import TYPE_CHECKING

import numpy as np

from fastload.plan.intervals import Int64s, edges_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fastload.plan.read_plan import ReadPlan

__all__ = ["NothingReadableError", "Substitution"]

# Most repeats of a piece where rows from further away can be taken: each repeat is read anew.
_REPEATS = 8
# Most repeats of a piece at all. If fewer rows can be read, nothing can stand in for the rest.
_MOST_REPEATS = 1000

_Piece = tuple[int, int, int, int]  # file, row group, start row, stop row
_RowGroup = tuple[int, int]  # file, row group


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
        self._changed: dict[int, list[tuple[_Piece, bool]]] = {}  # by window: piece, is substitute
        # Row ranges that failed. A piece that contains such a range fails without being tried.
        self._unreadable: defaultdict[_RowGroup, set[tuple[int, int]]] = defaultdict(set)

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
        pieces = [piece for piece, _ in self._changed.get(window) or self._marked(window)]
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

    def _pieces(self, window: int) -> list[_Piece]:
        first, stop = self._plan.windows[window : window + 2, 0].tolist()
        return list(_each(self._plan.pieces[first:stop]))

    def _marked(self, window: int) -> list[tuple[_Piece, bool]]:
        return [(piece, False) for piece in self._pieces(window)]

    def _substituted(self, window: int) -> list[tuple[_Piece, bool]]:
        pieces = self._pieces(window)
        failed = self._failed[window]
        while True:
            known = len(failed)
            result: list[tuple[_Piece, bool]] = []
            for number, piece in enumerate(pieces):
                if piece[:2] not in failed:
                    result.append((piece, False))
                    continue
                candidates = chain(_outwards(pieces, number), self._elsewhere(window))
                rows = piece[3] - piece[2]
                result += [(p, True) for p in self._stand_ins(candidates, rows, failed)]
            if len(failed) == known:
                return result

    def _stand_ins(
        self, candidates: Iterator[_Piece], rows: int, failed: set[_RowGroup]
    ) -> Iterator[_Piece]:
        """Yield pieces of `rows` rows; add candidates that are known to fail to `failed`."""
        pool: list[_Piece] = []
        have = 0
        for file, row_group, start, stop in candidates:
            stop = min(stop, start + rows - have)
            group = (file, row_group)
            if group in failed:
                continue
            if any(start <= a and b <= stop for a, b in self._unreadable[group]):
                failed.add(group)
                continue
            pool.append((file, row_group, start, stop))
            have += stop - start
            if have * _REPEATS >= rows:
                break
        if have * _MOST_REPEATS < rows:
            raise NothingReadableError
        left = rows
        for file, row_group, start, stop in cycle(pool):
            stop = min(stop, start + left)
            yield file, row_group, start, stop
            left -= stop - start
            if not left:
                return

    def _elsewhere(self, window: int) -> Iterator[_Piece]:
        """Yield pieces of the rank's other windows, the nearest first."""
        pieces, offset = self._pieces_of_rank
        first, stop = (self._plan.windows[window : window + 2, 0] + offset).tolist()
        # Two workers that share a window both read the whole window, so its pieces are left out.
        own = set(self._pieces(window))
        before = (piece for piece in _each(pieces[:first][::-1]) if piece not in own)
        yield from _alternating(before, (p for p in _each(pieces[stop:]) if p not in own))

    @cached_property
    def _pieces_of_rank(self) -> tuple[Int64s, int]:
        """Pieces of all workers of the rank, and the index of this worker's first piece."""
        pieces = [
            self._plan.pieces if worker == self._worker else self._plan_of(worker).pieces
            for worker in range(self._workers)
        ]
        return np.concatenate(pieces), sum(map(len, pieces[: self._worker]))


def _outwards(pieces: Sequence[_Piece], number: int) -> Iterator[_Piece]:
    return _alternating(reversed(pieces[:number]), iter(pieces[number + 1 :]))


def _alternating(before: Iterator[_Piece], after: Iterator[_Piece]) -> Iterator[_Piece]:
    pairs = zip_longest(before, after)
    return (piece for pair in pairs for piece in pair if piece is not None)


def _each(pieces: Int64s) -> Iterator[_Piece]:
    for piece in pieces:
        file, group, start, stop = piece.tolist()
        yield file, group, start, stop


def _plan(
    plan: ReadPlan,
    rows: int,
    window: int,
    takes: Int64s,
    changed: Sequence[tuple[int, list[tuple[_Piece, bool]]]],
) -> ReadPlan:
    """Return the windows of `plan` from `window` on, with `changed` pieces in some windows."""
    bounds = plan.windows[:, 0]
    counts = np.diff(bounds)
    parts = []
    substitutes = []
    at, size = int(bounds[window]), 0
    for number, marked in changed:
        parts.append(plan.pieces[at : bounds[number]])
        parts.append(np.array([piece for piece, _ in marked], np.int64))
        size += len(parts[-2])
        substitutes += [size + i for i, (_, substitute) in enumerate(marked) if substitute]
        size += len(marked)
        at = int(bounds[number + 1])
        counts[number] = len(marked)
    parts.append(plan.pieces[at:])
    first_take = plan.windows[window:, 1] - (len(plan.takes) - len(takes))
    return replace(
        plan,
        rows=rows,
        padding=min(plan.padding, rows),
        pieces=np.concatenate(parts),
        takes=takes,
        windows=np.stack([edges_of(counts[window:]), np.maximum(first_take, 0)], axis=1),
        keys=plan.keys[window:],
        substitutes=np.array(substitutes, np.int64),
    )
