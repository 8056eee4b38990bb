"""The plan of a worker, as a pass makes the plan."""

from fastload.plan.position import Position
from fastload.plan.units.units import RowUnits


def worker_plan(
    row_groups, options, epoch, progress, part, *, stripe_rows, ramp=False, skip_batches=0
):
    """Return the plan of the rows that the worker in a slot delivers after `progress`.

    skip_batches: number of the worker's own batches to leave out at the start.
    """
    units = RowUnits(row_groups, options)
    at = Position(options.seed, epoch, tuple(progress), skip_batches)
    return units.read_plan(at, units.share(at, part), stripe_rows=stripe_rows, ramp=ramp)
