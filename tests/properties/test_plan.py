"""Properties of the plan: every row once, equal counts, one order, exact resumption."""

import collections
import dataclasses
import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_cases import (
    batches_of,
    cases,
    even_slices,
    in_turn,
    legs,
    plain_outputs,
    plain_remaining,
    progress_of,
    real_rows,
    shapes,
    worlds,
)

from fastload.plan.position import Position, WorkerSlot, advance, remaining_rows
from fastload.plan.units.units import RowUnits
from support.plan_definition import rows_of

thorough = settings(max_examples=2 * settings.default.max_examples, deadline=None)
brief = settings(max_examples=settings.default.max_examples // 2, deadline=None)


@thorough
@given(cases(), legs, shapes)
def test_ranks_and_workers_deliver_what_the_definition_says(case, legs, shape):
    world, workers = shape
    row_at = case.row_at()
    progress = progress_of(case, [leg for leg in legs if leg[:2] != shape])
    positions = plain_remaining(case, progress)
    left = remaining_rows(case.row_groups.total_rows, case.options, progress)
    assert left == len(positions)
    outputs = plain_outputs(case, positions, world)
    most = case.batches(progress, world, None, workers)
    assert most == max(len(batches) for batches, _ in outputs)
    for rank, (batches, _) in enumerate(outputs):
        assert case.batches(progress, world, rank, workers) == len(batches)
        for worker, part in enumerate(even_slices(batches, workers)):
            read = case.plan(progress, world, rank, workers, worker)
            expected = [row_at[p] for batch in part for p, _ in batch]
            assert [tuple(row) for row in rows_of(read)] == expected


@thorough
@given(cases(), worlds)
def test_ranks_end_to_end_are_the_sequence(case, world):
    sequence = case.sequence()
    plans = [case.plan([], world, rank) for rank in range(world)]
    rows = [[tuple(row) for row in rows_of(read)] for read in plans]
    if case.options.uneven != "keep":
        assert len({len(r) for r in rows}) == 1
    # Rows of each rank's slice.
    own = [len(sequence) // world + (rank < len(sequence) % world) for rank in range(world)]
    starts = [0, *itertools.accumulate(own)]
    for rank, delivered in enumerate(rows):
        kept = delivered[: own[rank]]
        assert kept == sequence[starts[rank] :][: len(kept)]
        lost = own[rank] - len(kept)
        dropped = case.options.uneven == "drop" and len(sequence) % world > 0
        unfinished = case.options.batch_size - 1 if case.options.drop_last else 0
        assert lost <= dropped + unfinished
        repeats = delivered[own[rank] :]
        assert len(repeats) <= (case.options.uneven in ("wrap", "pad"))
        if repeats:
            assert repeats == [kept[-1] if kept else sequence[-1]]
        assert plans[rank].padding == (len(repeats) if case.options.uneven == "pad" else 0)


@thorough
@given(cases(drop_last=False), legs, shapes)
def test_every_row_once_over_all_legs(case, legs, shape):
    world, workers = shape
    progress = ()
    seen = collections.Counter()
    for leg_world, leg_workers, delivered in legs:
        delivered %= case.batches(progress, leg_world, None, leg_workers) + 1
        for rank in range(leg_world):
            batches = in_turn(case, progress, leg_world, rank, leg_workers)
            seen.update(real_rows(batches[:delivered]))
        progress = advance(progress, leg_world, leg_workers, delivered)
    unlost = remaining_rows(case.row_groups.total_rows, case.options, progress)
    for rank in range(world):
        seen.update(real_rows(in_turn(case, progress, world, rank, workers)))
    participants = sum(leg.world for leg in advance(progress, world, workers, 1))
    everything = set(case.sequence())
    assert set(seen) <= everything
    if case.options.uneven == "wrap":
        assert set(seen) == everything
        assert seen.total() <= len(everything) + participants
    else:
        assert all(times == 1 for times in seen.values())
    if case.options.uneven in ("pad", "keep"):
        assert set(seen) == everything
    if case.options.uneven == "drop":
        finishers = [world, *(leg.world for leg in progress)] if not unlost else [world]
        assert len(everything) - len(seen) < max(finishers)


@brief
@given(cases(), shapes, st.integers(0, 99), st.integers(0, 99))
def test_the_same_world_goes_on_as_if_never_interrupted(case, shape, first, second):
    world, workers = shape
    for rank in range(world):
        whole = in_turn(case, [], world, rank, workers)
        progress = ()
        for delivered in (first, second):
            left = case.batches(progress, world, None, workers)
            progress = advance(progress, world, workers, delivered % (left + 1))
            assert len(progress) <= 1
        delivered = sum(leg.delivered for leg in progress)
        assert in_turn(case, progress, world, rank, workers) == whole[delivered:]
        assert case.batches(progress, world, rank, workers) == len(whole[delivered:])


@brief
@given(cases(), legs, shapes, st.integers(0, 5))
def test_skipped_batches_are_the_workers_own_first_ones(case, legs, shape, skip):
    world, workers = shape
    progress = progress_of(case, legs)
    for rank, worker in itertools.product(range(world), range(workers)):
        whole = case.plan(progress, world, rank, workers, worker)
        rest = case.plan(progress, world, rank, workers, worker, skip)
        assert batches_of(rest) == batches_of(whole)[skip:]


@brief
@given(cases(), legs, shapes)
def test_counts_are_equal_and_need_no_workers(case, legs, shape):
    world, workers = shape
    progress = progress_of(case, legs)
    counts = [case.batches(progress, world, rank, workers) for rank in range(world)]
    for rank in range(world):
        assert counts[rank] == len(in_turn(case, progress, world, rank, workers))
    if case.options.uneven != "keep":
        assert counts == [case.batches(progress, world, rank) for rank in range(world)]
        assert len(set(counts)) == 1


@brief
@given(cases(limit=None), st.integers(0, 200))
def test_limit_is_a_prefix(case, limit):
    limited = dataclasses.replace(case, options=dataclasses.replace(case.options, limit=limit))
    assert limited.sequence() == case.sequence()[:limit]


@brief
@given(cases(offset=0), st.integers(0, 200), worlds)
def test_offset_leaves_out_a_prefix(case, offset, world):
    options = dataclasses.replace(case.options, offset=offset, uneven="keep", drop_last=False)
    rest = dataclasses.replace(case, options=options)
    without_limit = dataclasses.replace(options, offset=0, limit=None)
    whole = dataclasses.replace(case, options=without_limit).sequence()
    stop = None if options.limit is None else offset + options.limit
    plans = [rest.plan([], world, rank) for rank in range(world)]
    delivered = [tuple(row) for read in plans for row in rows_of(read)]
    assert delivered == rest.sequence() == whole[offset:stop]


@brief
@given(cases(limit=None, offset=0, shuffle=True))
def test_windows_are_near_equal_and_permuted_within(case):
    stored = dataclasses.replace(
        case, options=dataclasses.replace(case.options, uneven="keep", drop_last=False)
    )
    read = stored.plan([], 1, 0)
    whole = np.diff(read.takes, axis=1).ravel()
    count = max(1, case.rows // case.options.shuffle_window) if case.rows else 0
    assert read.rows == 0 or whole.max() - whole.min() <= 1
    assert len(read.keys) == count
    assert len(set(read.keys.tolist())) == len(read.keys)
    assert sorted(stored.sequence()) == sorted(
        (f, g, row)
        for rows, f, g in zip(
            case.row_groups.rows, case.row_groups.file, case.row_groups.index, strict=True
        )
        for row in range(rows)
    )


@brief
@given(cases(), legs, shapes)
def test_plans_are_well_formed(case, legs, shape):
    world, workers = shape
    progress = progress_of(case, legs)
    rows_in = {
        (f, g): rows
        for rows, f, g in zip(
            case.row_groups.rows, case.row_groups.file, case.row_groups.index, strict=True
        )
    }
    stripe_rows = case.stripe_batches * case.options.batch_size
    for rank, worker in itertools.product(range(world), range(workers)):
        read = case.plan(progress, world, rank, workers, worker)
        for array, width in ((read.pieces, 4), (read.takes, 2), (read.windows, 2)):
            assert array.dtype == np.int64
            assert array.shape[1] == width
            assert array.flags.c_contiguous
        assert read.keys.dtype == np.uint64
        assert len(read.windows) == len(read.keys) + 1
        assert read.windows[0].tolist() == [0, 0]
        assert read.windows[-1].tolist() == [len(read.pieces), len(read.takes)]
        assert (np.diff(read.windows, axis=0) > 0).all()
        for file, group, start, stop in read.pieces:
            assert 0 <= start < stop <= rows_in[file, group]
        assert (read.keys[1:] != read.keys[:-1]).all() or not read.shuffled
        for v, (first, last) in enumerate(itertools.pairwise(read.windows)):
            pieces = read.pieces[first[0] : last[0]]
            takes = read.takes[first[1] : last[1]]
            length = (pieces[:, 3] - pieces[:, 2]).sum()
            assert (takes[:, 0] < takes[:, 1]).all()
            assert takes[0, 0] >= 0
            assert takes[-1, 1] <= length
            if not read.shuffled:
                full = v < len(read.keys) - 1 and case.row_groups.stored is None
                assert takes.tolist() == [[0, length]]
                assert length <= stripe_rows
                begun = v >= case.stripe_batches.bit_length()
                assert length == stripe_rows or not full or (case.ramp and not begun)


@brief
@given(
    cases(),
    shapes,
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 3), st.booleans()),
        max_size=8,
    ),
)
def test_what_units_keep_from_pass_to_pass_changes_no_plan(case, shape, passes):
    """Passes come in any order, some with parts of their plan or of another computed ahead."""
    stripe_rows = case.stripe_batches * case.options.batch_size
    world, workers = shape
    kept = RowUnits(case.row_groups, case.options)
    for seed, epoch, ahead, expected in passes:
        at = Position(seed, epoch, ())
        part = WorkerSlot(world, workers, rank=epoch % world)
        plans = []
        for units in (kept, RowUnits(case.row_groups, case.options)):
            mine = units.share(at, part)
            if units is kept:
                foreseen = at if expected else Position(seed, epoch + 1, ())
                parts = units.prepare(foreseen, mine)
                for _ in range(ahead):
                    next(parts, None)
            plans.append(units.read_plan(at, mine, stripe_rows=stripe_rows, ramp=case.ramp))
        for field in dataclasses.fields(plans[0]):
            one, other = (getattr(plan, field.name) for plan in plans)
            np.testing.assert_array_equal(one, other, field.name)
