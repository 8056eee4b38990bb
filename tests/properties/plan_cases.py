"""Datasets, options and progress to test plans with, and the definition on plain lists."""

import dataclasses
import itertools

import numpy as np
from hypothesis import strategies as st

from fastload.plan.options import Options
from fastload.plan.position import Leg, WorkerSlot, batches
from fastload.plan.sequence import RowGroups
from support.plan_definition import epoch_rows, rows_of
from support.worker_plan import worker_plan


@dataclasses.dataclass(frozen=True)
class Case:
    row_groups: RowGroups
    options: Options
    epoch: int
    stripe_batches: int
    ramp: bool = False

    @property
    def rows(self):
        return self.options.limited(self.row_groups.total_rows)

    def plan(self, progress, world, rank, workers=1, worker=0, skip_batches=0):
        return worker_plan(
            self.row_groups,
            self.options,
            self.epoch,
            progress,
            WorkerSlot(world, workers, worker, rank),
            stripe_rows=self.stripe_batches * self.options.batch_size,
            ramp=self.ramp,
            skip_batches=skip_batches,
        )

    def batches(self, progress, world, rank, workers=1):
        total = self.row_groups.total_rows
        return batches(total, self.options, progress, world, rank, workers)

    @property
    def positions(self):
        """The positions of the epoch's rows."""
        return range(self.options.offset, self.options.offset + self.rows)

    def sequence(self):
        """The row at each position of the epoch, in order."""
        return [tuple(row) for row in epoch_rows(self.row_groups, self.options, self.epoch)]

    def row_at(self):
        """The row at each position, by position."""
        return dict(zip(self.positions, self.sequence(), strict=True))


def row_groups_of(sizes_by_file):
    rows = [rows for sizes in sizes_by_file for rows in sizes]
    file = [f for f, sizes in enumerate(sizes_by_file) for _ in sizes]
    index = [i for sizes in sizes_by_file for i, _ in enumerate(sizes)]
    return RowGroups(*(np.array(a, np.int64) for a in (rows, file, index)))


def filtered(row_groups, factor):
    """As if so many times the rows were stored, and most of them left out by filters."""
    return dataclasses.replace(row_groups, stored=row_groups.rows * factor)


sizes = st.one_of(st.integers(0, 3), st.integers(0, 25))
files = st.lists(st.lists(sizes, max_size=4), max_size=4)
row_groups = st.one_of(files, files.map(lambda f: [[9, 0, 5], *f, [30]])).map(row_groups_of)
uneven = st.sampled_from(["wrap", "drop", "pad", "keep"])
worlds = st.integers(1, 5)
worker_counts = st.integers(1, 4)
shapes = st.tuples(worlds, worker_counts)


@st.composite
def cases(draw, **fixed):
    drawn = {
        "batch_size": draw(st.integers(1, 9)),
        "shuffle": draw(st.booleans()),
        "shuffle_window": draw(st.integers(1, 60)),
        "seed": draw(st.integers(0, 2**64 - 1)),
        "drop_last": draw(st.booleans()),
        "uneven": draw(uneven),
        "limit": draw(st.one_of(st.none(), st.integers(0, 120))),
        "offset": draw(st.one_of(st.just(0), st.integers(0, 60))),
    }
    options = Options(**{**drawn, **fixed})
    factor = draw(st.sampled_from([0, 1, 5, 40]))
    groups = draw(row_groups)
    groups = filtered(groups, factor) if factor else groups
    epoch, stripe_batches = draw(st.integers(0, 3)), draw(st.integers(1, 9))
    return Case(groups, options, epoch, stripe_batches, draw(st.booleans()))


# World, workers, and batches to deliver, modulo how many there are and one more.
legs = st.lists(st.tuples(worlds, worker_counts, st.integers(0, 99)), max_size=3)


def progress_of(case, legs):
    progress = []
    for world, workers, delivered in legs:
        left = case.batches(progress, world, None, workers)
        progress.append(Leg(world, workers, delivered % (left + 1)))
    return progress


def batches_of(read):
    """The batches of a plan: lists of (row, whether it is real)."""
    real = read.rows - read.padding
    rows = [(tuple(row), i < real) for i, row in enumerate(rows_of(read))]
    assert len(rows) == read.rows
    batches = [rows[i : i + read.batch_rows] for i in range(0, read.rows, read.batch_rows)]
    assert len(batches) == read.batches
    return batches


def in_turn(case, progress, world, rank, workers):
    """A rank's batches in the order in which a DataLoader asks its workers for them."""
    queues = [batches_of(case.plan(progress, world, rank, workers, w)) for w in range(workers)]
    rounds = itertools.zip_longest(*queues)
    return [batch for batches in rounds for batch in batches if batch is not None]


def real_rows(batches):
    return [row for batch in batches for row, real in batch if real]


# The definition, on plain lists of positions.


def even_slices(things, parts):
    base, more = divmod(len(things), parts)
    ends = list(itertools.accumulate(base + (i < more) for i in range(parts)))
    return [things[a:b] for a, b in zip([0, *ends], ends, strict=False)]


def plain_outputs(case, positions, world):
    """For each rank its batches of (position, whether it is its own), and what it leaves out."""
    options = case.options
    slices = even_slices(positions, world)
    outputs = []
    for own in slices:
        rows = [(p, True) for p in own]
        if options.uneven == "drop":
            rows = rows[: len(positions) // world]
        if options.uneven in ("wrap", "pad") and len(rows) < len(slices[0]):
            rows.append((own[-1] if own else case.positions[-1], False))
        if options.drop_last:
            rows = rows[: len(rows) - len(rows) % options.batch_size]
        batches = [
            rows[i : i + options.batch_size] for i in range(0, len(rows), options.batch_size)
        ]
        outputs.append((batches, [p for p in own if (p, True) not in rows]))
    return outputs


def plain_remaining(case, progress):
    positions = list(case.positions)
    runs = itertools.groupby(progress, key=lambda leg: (leg.world, max(1, leg.workers)))
    for (world, workers), run in runs:
        delivered = sum(leg.delivered for leg in run)
        outputs = plain_outputs(case, positions, world)
        if delivered == max(len(batches) for batches, _ in outputs):
            return []
        left = []
        for in_order, dropped in outputs:
            for worker, part in enumerate(even_slices(in_order, workers)):
                turns = [turn for turn in range(delivered) if turn % workers == worker]
                left += [p for batch in part[len(turns) :] for p, own in batch if own]
            left += dropped
        positions = sorted(left)
    return positions
