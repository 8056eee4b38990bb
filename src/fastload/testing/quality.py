"""Measures of how well a dataset is shuffled."""

# ruff: noqa: SLF001 - the order of a dataset is computed from its plan, without reading files.

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fastload.dataset.dataset import FastParquetDataset
from fastload.plan.intervals import edges_of
from fastload.plan.position import WorkerSlot
from fastload.plan.read_plan import ReadPlan, read_plan
from fastload.runtime.native import core

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from fastload.plan.intervals import Int64s
    from fastload.plan.sequence import RowGroups

__all__ = ["ShuffleQuality", "shuffle_quality"]

# Number of rows processed in one step, small enough that arrays stay in or near the CPU's cache.
_STEP_ROWS = 1 << 18


@dataclass(frozen=True, slots=True, order=True)
class ShuffleQuality:
    """The closeness of an order to a uniform permutation.

    Values are compared by `score`; float() returns the score.

    Attributes:
        score: 1 = the rows of a batch are spread over the dataset as in a uniform permutation,
            0 = the rows are in stored order. The score is the mean variance of stored positions
            within a batch, divided by the variance of all rows' positions, and at most 1. In other
            words, it is 1 - epsilon squared (Kelley, PNAS 21, 1935; the unbiased correlation ratio
            of an analysis of variance). A window of k row groups scores about 1 - 1/k.
        effective_rows: number of randomly drawn rows that a batch is worth if the label depends on
            the position, as in a file sorted by label or by date: the mean over the batch is as
            uncertain as the mean over this number of rows drawn at random. It is the batch
            size over the design effect (Kish, Survey Sampling, 1965), and the strictest of these
            measures: about the number of row groups in a window.
        batch_rows: number of rows in a batch.
        rows: number of rows in the dataset.
    """

    score: float
    effective_rows: float
    batch_rows: int
    rows: int

    def __float__(self) -> float:
        return self.score

    def __str__(self) -> str:
        return (
            f"score {self.score:.3f}, {self.effective_rows:.1f} effective rows in batches of "
            f"{self.batch_rows}, of {self.rows} rows"
        )


def shuffle_quality(
    dataset: FastParquetDataset, *, batch_rows: int | None = None, epoch: int = 0
) -> ShuffleQuality:
    """Measure how well one epoch of a dataset is shuffled, to help to choose a `shuffle_window`.

    Example:
        ds = FastParquetDataset("train", columns=["f1"], shuffle=True, shuffle_window=2**16)
        print(shuffle_quality(ds))

    The measures are computed from the plan; no value is read. The stored position of a row is the
    row's number in the files, in the order of `dataset.files`, among the rows that `filters` and
    `split` keep. The order is that of the whole epoch as one process delivers the epoch, before
    `offset` and `limit`. The function takes a second for 10 M rows, and memory for
    one window: 20 bytes per row.

    Args:
        dataset: A dataset, shuffled or not.
        batch_rows: Number of rows in a batch; None means the dataset's `batch_size`.
        epoch: Number of the epoch.
            A few row groups may lie well or badly by chance, so measure several epochs.

    Raises:
        TypeError: `dataset` is not a FastParquetDataset.
        ValueError: The dataset or a batch has fewer than two rows.
    """
    if not isinstance(dataset, FastParquetDataset):
        raise TypeError(f"Expected a FastParquetDataset, got {type(dataset).__name__}")
    row_groups = dataset._rows.row_groups
    batch_rows = dataset._batch_rows if batch_rows is None else batch_rows
    options = replace(
        dataset._options,
        batch_size=1,
        limit=None,
        offset=0,
        drop_last=False,
        uneven="keep",
    )
    whole = read_plan(row_groups, options, epoch, WorkerSlot(1), stripe_rows=_STEP_ROWS)
    return order_quality(_delivered(whole, row_groups), row_groups.total_rows, batch_rows)


def order_quality(parts: Iterable[Int64s], rows: int, batch_rows: int) -> ShuffleQuality:
    """Measure how close any order of rows is to a uniform permutation.

    Args:
        parts: stored positions, 0 to rows - 1, in delivered order, in any number of arrays.
        rows: number of rows.
        batch_rows: number of rows in a batch; the last batch may be short.

    Raises:
        ValueError: `rows` or `batch_rows` is less than 2, or the parts have another number of rows.
    """
    if rows < 2 or batch_rows < 2:
        raise ValueError(
            f"Expected at least 2 rows in a dataset and a batch, got {rows} and {batch_rows}"
        )
    sums = np.zeros(-(-rows // batch_rows))  # sum of the centred positions of each batch
    centre = (rows - 1) / 2
    at = 0
    for stored in _steps(parts):
        if at + len(stored) > rows:
            raise ValueError(f"Expected {rows} rows, got more")
        delivered = np.arange(at, at + len(stored))
        first = at // batch_rows
        of_batch = np.bincount(delivered // batch_rows - first, stored - centre)
        sums[first : first + len(of_batch)] += of_batch
        at += len(stored)
    if at != rows:
        raise ValueError(f"Expected {rows} rows, got {at}")
    squares = rows * (rows * rows - 1) / 12  # sum of the squares of all centred positions
    score, effective_rows = _spread(sums, squares, rows, batch_rows)
    return ShuffleQuality(score, effective_rows, batch_rows, rows)


def _spread(
    sums: NDArray[np.float64], squares: float, rows: int, batch_rows: int
) -> tuple[float, float]:
    """Return the score and the effective rows.

    Both come from an analysis of variance of positions, with batches as groups.
    """
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


def _steps(parts: Iterable[Int64s]) -> Iterator[Int64s]:
    for part in parts:
        for start in range(0, len(part), _STEP_ROWS):
            yield part[start : start + _STEP_ROWS]


def _delivered(whole: ReadPlan, row_groups: RowGroups) -> Iterator[Int64s]:
    """Yield stored positions in delivered order, window by window.

    The result equals that of `plan.rows_of`; the core computes the permutations.
    """
    pieces = whole.pieces
    group = np.searchsorted(row_groups.file, pieces[:, 0]) + pieces[:, 1]
    bounds = pieces[:, 2:] + edges_of(row_groups.rows)[group, np.newaxis]
    for v, key in enumerate(whole.keys.tolist()):
        (piece, take), (piece_stop, take_stop) = whole.windows[v : v + 2].tolist()
        window = np.concatenate([np.arange(a, b) for a, b in bounds[piece:piece_stop].tolist()])
        if whole.shuffled:
            window = window[core.permutation(len(window), key)]
        for a, b in whole.takes[take:take_stop].tolist():
            yield window[a:b]
