"""How well a dataset is shuffled, in numbers."""

# ruff: noqa: SLF001 - the order of a dataset is told from its plan, without reading the files.

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fastload.dataset.dataset import FastParquetDataset
from fastload.plan import read_plan as plan
from fastload.plan.intervals import edges_of
from fastload.runtime.native import core

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from fastload.plan.intervals import Int64s

__all__ = ["ShuffleQuality", "order_quality", "shuffle_quality"]

# Rows looked at in one step, so that arrays stay in a cache or near it.
_STEP_ROWS = 1 << 18
# Pairs of neighbours that are looked at, at most twice as many: their mean is known to 0.2 %.
_PAIRS = 1 << 17


@dataclass(frozen=True, slots=True, order=True)
class ShuffleQuality:
    """How near an order is to a uniform permutation; ordered by `score`, which float() gives.

    score: 1 = the rows of a batch are spread over the dataset as those of a uniform
        permutation, 0 = as stored. It is the mean variance of stored positions within a
        batch over that of all rows, 1 - epsilon squared (Kelley, PNAS 21, 1935; the unbiased
        correlation ratio of an analysis of variance), and at most 1. A window of k row groups
        has about 1 - 1/k.
    effective_rows: what a batch is worth where the label depends on the position, as in a
        file sorted by it or by date: the mean over the batch is as uncertain as that of so
        many rows drawn at random. It is the batch size over the design effect (Kish, Survey
        Sampling, 1965). The strictest of these numbers: about the row groups in a window.
    neighbour_distance: how far apart rows stored next to each other are delivered, over what
        a uniform permutation gives, (rows + 1) / 3: about the share of the dataset in a window.
    rank_correlation: Spearman's, of stored and delivered position. Near 0 as soon as row
        groups are permuted, however clumped the rows within them are.
    batch_rows: of a batch.
    rows: of the dataset.
    """

    score: float
    effective_rows: float
    neighbour_distance: float
    rank_correlation: float
    batch_rows: int
    rows: int

    def __float__(self) -> float:
        return self.score

    def __str__(self) -> str:
        return (
            f"score {self.score:.3f}, {self.effective_rows:.1f} effective rows in batches of "
            f"{self.batch_rows}, neighbour distance {self.neighbour_distance:.3f}, rank "
            f"correlation {self.rank_correlation:+.3f}, of {self.rows} rows"
        )


def shuffle_quality(
    dataset: FastParquetDataset, *, batch_rows: int | None = None, epoch: int = 0
) -> ShuffleQuality:
    """How well one epoch of a dataset is shuffled, to choose a `shuffle_window` by.

        print(shuffle_quality(FastParquetDataset(path, shuffle=True, shuffle_window=2**16)))

    Told from the plan: no value is read. Stored position is a row's number in the files, in the
    order of `dataset.files`, among those that `filters` and `split` leave. The order is that of
    the whole epoch as one process delivers it, before `limit`. It takes a second for 10 M rows,
    and memory for one window: 20 bytes a row.

    Args:
        dataset: of batches or rows, shuffled or not.
        batch_rows: rows that make a batch; None = the dataset's `batch_size`.
        epoch: which one. Few row groups lie well or badly by chance: look at several epochs.

    Raises:
        TypeError: it is no FastParquetDataset.
        ValueError: fewer than two rows in the dataset or a batch.
    """
    if not isinstance(dataset, FastParquetDataset):
        raise TypeError(f"Expected a FastParquetDataset, got {type(dataset).__name__}")
    row_groups = dataset._rows.row_groups
    batch_rows = dataset._batch_rows if batch_rows is None else batch_rows
    options = replace(dataset._options, batch_size=1, limit=None, drop_last=False, uneven="keep")
    read_plan = plan.read_plan(row_groups, options, epoch, (), 1, 0, stripe_rows=_STEP_ROWS)
    return order_quality(_delivered(read_plan, row_groups), row_groups.total_rows, batch_rows)


def order_quality(parts: Iterable[Int64s], rows: int, batch_rows: int) -> ShuffleQuality:
    """How near any order of rows is to a uniform permutation.

    Args:
        parts: stored positions, 0 to rows - 1, in delivered order, in as many arrays as is
            convenient.
        rows: how many they are.
        batch_rows: how many make a batch; the last may be short.

    Raises:
        ValueError: fewer than two rows or batch_rows, or the parts have more rows or fewer.
    """
    if rows < 2 or batch_rows < 2:
        raise ValueError(
            f"Expected at least 2 rows in a dataset and a batch, got {rows} and {batch_rows}"
        )
    sums = np.zeros(-(-rows // batch_rows))  # of the centred positions of each batch
    neighbours = _Neighbours(rows)
    centre = (rows - 1) / 2
    product = 0.0
    at = 0
    for stored in _steps(parts):
        if at + len(stored) > rows:
            raise ValueError(f"Expected {rows} rows, got more")
        delivered = np.arange(at, at + len(stored))
        centred = stored - centre
        product += float(centred @ (delivered - centre))
        first = at // batch_rows
        of_batch = np.bincount(delivered // batch_rows - first, centred)
        sums[first : first + len(of_batch)] += of_batch
        neighbours.note(stored, at)
        at += len(stored)
    if at != rows:
        raise ValueError(f"Expected {rows} rows, got {at}")
    squares = rows * (rows * rows - 1) / 12  # of all centred positions
    score, effective_rows = _spread(sums, squares, rows, batch_rows)
    return ShuffleQuality(
        score, effective_rows, neighbours.distance, product / squares, batch_rows, rows
    )


def _spread(
    sums: NDArray[np.float64], squares: float, rows: int, batch_rows: int
) -> tuple[float, float]:
    """Score and effective rows, by the analysis of variance of positions with batches as groups."""
    batches = len(sums)
    size = min(rows, batch_rows)
    if batches == 1:
        return 1.0, float(size)
    sizes = np.full(batches, batch_rows)
    sizes[-1] = rows - (batches - 1) * batch_rows
    between = float((sums**2 / sizes).sum())
    variance = squares / (rows - 1)
    score = (squares - between) / (rows - batches) / variance
    design_effect = between / (batches - 1) / variance
    return min(1.0, score), size / max(1.0, design_effect)


class _Neighbours:
    """How far apart rows i and i + 1 are delivered, for evenly many i.

    Args:
        rows: of the dataset.
    """

    def __init__(self, rows: int) -> None:
        self._rows = rows
        # Odd, so that it shares no period with row groups and windows of powers of two.
        self._stride = max(2, rows // _PAIRS) | 1
        self._delivered = np.zeros(((rows - 2) // self._stride + 1, 2), np.int64)

    def note(self, stored: Int64s, at: int) -> None:
        """Rows of these stored positions (n,) are delivered from `at` on."""
        pair, which = np.divmod(stored, self._stride)
        ours = np.flatnonzero((which < 2) & (pair < len(self._delivered)))
        self._delivered[pair[ours], which[ours]] = at + ours

    @property
    def distance(self) -> float:
        """The mean, over that of a uniform permutation."""
        return float(np.abs(np.diff(self._delivered)).mean()) * 3 / (self._rows + 1)


def _steps(parts: Iterable[Int64s]) -> Iterator[Int64s]:
    for part in parts:
        for start in range(0, len(part), _STEP_ROWS):
            yield part[start : start + _STEP_ROWS]


def _delivered(read_plan: plan.ReadPlan, row_groups: plan.RowGroups) -> Iterator[Int64s]:
    """Stored positions in delivered order, by windows: `plan.rows_of` with the core's shuffle."""
    pieces = read_plan.pieces
    group = np.searchsorted(row_groups.file, pieces[:, 0]) + pieces[:, 1]
    bounds = pieces[:, 2:] + edges_of(row_groups.rows)[group, np.newaxis]
    for v, key in enumerate(read_plan.keys.tolist()):
        (piece, take), (piece_stop, take_stop) = read_plan.windows[v : v + 2].tolist()
        window = np.concatenate([np.arange(a, b) for a, b in bounds[piece:piece_stop].tolist()])
        if read_plan.shuffled:
            window = window[core.permutation(key, len(window))]
        for a, b in read_plan.takes[take:take_stop].tolist():
            yield window[a:b]
