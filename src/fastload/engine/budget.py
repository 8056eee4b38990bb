"""Division of memory_budget into memory for windows, for fetches and for the consumer.

Threads work in parallel on units of work, into which the core (`csrc/fastload/plan/unit.cc`)
divides a window: it makes one unit of each column, except that columns of a stack share units.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.schema.projection import OutputPlan

__all__ = ["Budget", "divide_budget", "resolve_window", "work_units"]

_MIB = 1 << 20
# A window mixes rows well and stays in memory; a larger window costs more than it gains.
_WINDOW_ROWS = 2**19
_WINDOW_BYTES = 512 * _MIB
# The most rows, and bytes, decoded as one piece of work without shuffle: about a row group, since
# each piece of a column begins with a dictionary that is not in the CPU's cache.
_STRIPE_ROWS = 2**18
_STRIPE_BYTES = 128 * _MIB
# Where the size of stripes decides which rows are delivered, the size depends on the data alone.
# Even a small budget has room for stripes of this size.
_FIXED_STRIPE_BYTES = 16 * _MIB
# The bytes of one read: large enough that the fixed cost of a request vanishes, small enough that
# memory holds two.
_MOST_SEGMENT_BYTES = 8 * _MIB
_LEAST_SEGMENT_BYTES = 64 << 10
_MOST_FETCH_BYTES = 256 * _MIB
# Reads take half of what is left up to so many bytes, and a quarter of more, so that most of the
# rest can keep pages.
_FEW_FETCH_BYTES = 64 * _MIB
# Bytes of fetches for each thread, so that no thread waits for memory to read small pages into;
# very small budgets give less.
_LEAST_FETCH_BYTES = _MIB
_LEAST_FETCH_SHARE = 16
# Two open windows leave the threads idle where the consumer takes the last batches of one while the
# other is ready; small windows end often. So there are up to so many where all together take little
# of the budget, or no more than what canonical slices have room for.
_SMALL_WINDOWS = 4
_SMALL_SHARE = 64
# A consumer that keeps no batches still holds one while it asks for the next. Where strings vary
# in length, each of the two may be twice as large as the average batch.
_LEAST_LENT_BATCHES = 4
_LEAST_BATCH_BYTES = 4096  # the core's smallest buffer
# Smaller batches share a buffer, so many in one, until a few such runs are cut ahead of the
# consumer; the batches that are cut take little of the budget.
_RUN_BATCHES = 256
_LEAST_RUN_BATCHES = 16
_RUNS_AHEAD = 4
_CUT_SHARE = 16
# What the core notes of a buffer: where its outputs lie, and who still fills it.
_BUFFER_NOTES = 640
# Fewer kept pages than this save too little of a pass to be worth their memory.
_LEAST_KEPT_BYTES = 16 * _MIB
# The share of the budget that kept pages leave free, for orders of rows and what else is small.
_FREE_SHARE = 16


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of a pipeline, in bytes and counts.

    Attributes:
        memory_bytes: the whole memory that was divided; the most bytes that null lists of a
            fixed size become, since a footer counts such a list as one value.
        threads: threads of the core; reduced if there is no memory for the scratch of all threads.
        stripe_rows: rows of one window without shuffle, a multiple of the batch size.
        open_windows: the number of windows whose memory is allocated at a time; each has rows of
            all `slices`.
        window_bytes: decoded bytes of all open windows.
        staged_bytes: the part of `window_bytes` for values (strings, lists) that are kept outside
            of the batches until the sizes of the batches are known.
        fetch_bytes: compressed bytes in memory.
        segment_bytes: bytes of one read.
        lend_bytes: batch memory that the consumer may hold; beyond it, batches are copied.
        kept_bytes: decompressed pages that stay in memory from one pass to the next, while the
            consumer holds no more than `least_lent_bytes`; memory that the consumer holds beyond
            that is taken from the kept pages.
        least_lent_bytes: the part of `lend_bytes` that kept pages never take.
        slices: number of canonical slices that share a window; 1 = none.
        run_batches: the number of small batches that share a buffer until they are handed out; 1 =
            each has its own.
    """

    memory_bytes: int
    threads: int
    stripe_rows: int
    open_windows: int
    window_bytes: int
    staged_bytes: int
    fetch_bytes: int
    segment_bytes: int
    lend_bytes: int
    kept_bytes: int = 0
    least_lent_bytes: int = 0
    slices: int = 1
    run_batches: int = 1

    def open_windows_of(self, lanes: int) -> int:
        """Return how many windows of `lanes` slices may be open at a time.

        A rank that delivers fewer than all slices has room for more windows of each.
        """
        of_slice = self.open_windows * self.slices // lanes
        return max(self.open_windows, min(_SMALL_WINDOWS, of_slice)) * lanes


def resolve_window(shuffle_window: int | None, row_bytes: int) -> int:
    """Return the most rows to shuffle at once; ranks may choose fewer (`choose_window`).

    Args:
        shuffle_window: the user's number; None = 2**19 rows, or fewer if they decode to more than
            512 MiB.
        row_bytes: decoded bytes of a row.
    """
    if shuffle_window is not None:
        return shuffle_window
    return max(1, min(_WINDOW_ROWS, _WINDOW_BYTES // row_bytes))


def divide_budget(
    memory_budget: int,
    *,
    batch_size: int,
    row_bytes: int,
    staged_row_bytes: int,
    total_rows: int,
    shuffle_window: int | None,
    columns: int,
    work: WorkUnits,
    threads: int,
    prefetch: int,
    row_group_rows: int = 0,
    fixed_stripes: bool = False,
    once: bool = False,
    slices: int = 1,
    buffers: int = 1,
) -> Budget:
    """Divide `memory_budget` bytes.

    Args:
        memory_budget: the bytes that this process may use.
        batch_size: rows of a batch.
        row_bytes: decoded bytes of a row in a batch.
        staged_row_bytes: bytes of a row (strings, lists) that are kept outside of the batch until
            the size of the batch is known.
        total_rows: rows of the epoch.
        shuffle_window: rows of a window; None without shuffle.
        columns: the number of leaf columns to decode.
        work: the units of work in a window.
        threads: the most threads of the core; 0 = the thread that waits for a batch does the work.
        prefetch: the number of batches to have ready ahead of the consumer.
        row_group_rows: rows of a whole row group; 0 = stripes need not end with row groups.
        fixed_stripes: stripe_rows does not depend on the budget, threads and prefetch.
        once: no other epoch follows in stored order, so memory for one epoch's rows is enough, and
            no pages are kept.
        slices: number of canonical slices, whose windows `shuffle_window` divides; 1 = none.
        buffers: the number of buffers for the rows of a batch: several where parts of a batch wait
            for each other, or where a row is as long as several batches.

    Returns:
        The limits of the pipeline.

    Raises:
        ValueError: the windows, or a few batches, alone exceed the budget; the message names
            the bytes needed and the largest window (or batch) that fits.
    """
    of_buffer = batch_size * row_bytes // buffers
    run_batches, cut_bytes, beside = _runs(memory_budget, of_buffer, slices)
    values = row_bytes + staged_row_bytes
    held = values + beside * buffers // (batch_size * run_batches)
    batch_bytes = max(_LEAST_BATCH_BYTES, batch_size * row_bytes)
    lent_batches = _LEAST_LENT_BATCHES
    if once:
        lent_batches = min(lent_batches, max(1, -(-total_rows // batch_size)))
    least_lent = lent_batches * batch_bytes
    least_fetched = min(_LEAST_FETCH_BYTES * max(1, threads), memory_budget // _LEAST_FETCH_SHARE)
    if shuffle_window is None:
        scratch = 0
        stripe_rows, open_windows = _stripes(
            memory_budget,
            batch_size=batch_size,
            values=values,
            held=held,
            buffers=buffers,
            total_rows=total_rows,
            units=work.units,
            threads=threads,
            prefetch=prefetch,
            row_group_rows=row_group_rows,
            fixed=fixed_stripes,
            once=once,
        )
        needed = open_windows * stripe_rows * held
    else:
        stripe_rows = batch_size
        threads, open_windows, needed, scratch = _windows(
            memory_budget,
            batch_size=batch_size,
            row_bytes=row_bytes,
            held=held,
            total_rows=total_rows,
            shuffle_window=shuffle_window,
            work=work,
            threads=threads,
            least_beside=least_lent + least_fetched,
        )
    left = memory_budget - needed - scratch - cut_bytes
    wanted = max(left // 4, min(left // 2, _FEW_FETCH_BYTES))
    most_fetched = min(_MOST_FETCH_BYTES, wanted, left - least_lent)
    fetch_bytes = max(_LEAST_SEGMENT_BYTES, least_fetched, most_fetched)
    segments = 2 * max(1, columns)
    segment_bytes = fetch_bytes // segments
    lend_bytes = max(least_lent, left - fetch_bytes)
    # The core keeps as much memory of past pages for reuse as of past reads.
    kept_bytes = lend_bytes - least_lent - fetch_bytes - memory_budget // _FREE_SHARE
    return Budget(
        memory_bytes=memory_budget,
        threads=threads,
        stripe_rows=stripe_rows,
        open_windows=open_windows,
        window_bytes=needed,
        staged_bytes=needed * staged_row_bytes // held,
        fetch_bytes=fetch_bytes,
        segment_bytes=max(_LEAST_SEGMENT_BYTES, min(_MOST_SEGMENT_BYTES, segment_bytes)),
        lend_bytes=lend_bytes,
        kept_bytes=0 if once or kept_bytes < _LEAST_KEPT_BYTES else kept_bytes,
        least_lent_bytes=least_lent,
        slices=1 if shuffle_window is None else slices,
        run_batches=run_batches,
    )


def _runs(memory_budget: int, batch_bytes: int, slices: int) -> tuple[int, int, int]:
    """Return how small batches share buffers.

    Args:
        memory_budget: the bytes that this process may use.
        batch_bytes: bytes of the rows of a batch.
        slices: number of canonical slices, all of which a batch takes rows of; 1 = none.

    Returns:
        The number of batches in a buffer, the bytes of the batches that are cut ahead, and the
        bytes that a buffer takes beside rows.
    """
    if batch_bytes >= _LEAST_BATCH_BYTES or slices > 1:
        return 1, 0, max(0, _LEAST_BATCH_BYTES - batch_bytes) + _BUFFER_NOTES
    of_batches = _RUNS_AHEAD * (_LEAST_BATCH_BYTES + _BUFFER_NOTES)
    most = memory_budget // _CUT_SHARE // of_batches
    batches = max(_LEAST_RUN_BATCHES, min(_RUN_BATCHES, most))
    return batches, batches * of_batches, max(0, _LEAST_BATCH_BYTES - batches * batch_bytes)


def _stripes(
    memory_budget: int,
    *,
    batch_size: int,
    values: int,
    held: int,
    buffers: int,
    total_rows: int,
    units: int,
    threads: int,
    prefetch: int,
    row_group_rows: int,
    fixed: bool,
    once: bool,
) -> tuple[int, int]:
    """Return the rows of a window without shuffle, and the number of open windows.

    Raises:
        ValueError: the windows exceed the budget.
    """
    if fixed:
        most = min(_FIXED_STRIPE_BYTES // values, total_rows + batch_size - 1)
    else:
        most = min(memory_budget // 8, _STRIPE_BYTES) // held
    batches = max(1, min(_STRIPE_ROWS, most) // batch_size)
    if not fixed:
        # Stripes that end with row groups may be a little larger than other stripes.
        most = min(memory_budget // 6, _STRIPE_BYTES) // held
        most_batches = min(_STRIPE_ROWS, most) // batch_size
        batches = _ending_with_row_groups(most_batches, batch_size, row_group_rows) or batches
    stripe_rows = batches * batch_size
    ahead = -(-prefetch * batch_size // stripe_rows)
    busy = -(-2 * max(1, threads) // units)
    open_windows = 1 + max(2, ahead, busy)
    if once:
        open_windows = min(open_windows, max(1, -(-total_rows // stripe_rows)))
    # No more windows than half of the budget holds, but two.
    open_windows = min(open_windows, max(2, memory_budget // 2 // (stripe_rows * held)))
    needed = open_windows * stripe_rows * held
    if needed > memory_budget:
        # A smaller batch leaves more of its buffer unused.
        most = memory_budget // open_windows - buffers * _BUFFER_NOTES
        fits = most // values
        if fits * values < buffers * _LEAST_BATCH_BYTES:
            fits = max(0, most - buffers * _LEAST_BATCH_BYTES) // values
        raise ValueError(
            f"Expected a memory_budget of at least {needed} bytes for {open_windows} stripes "
            f"of {stripe_rows} rows of {held} bytes, got {memory_budget}"
            if stripe_rows > batch_size
            else f"Expected a memory_budget of at least {needed} bytes for batches of "
            f"{batch_size} rows of {held} bytes, {open_windows} at a time, got "
            f"{memory_budget}: the largest batch_size that fits is {fits}"
        )
    return stripe_rows, open_windows


class _Windows(NamedTuple):
    """The division of the budget with shuffle.

    Attributes:
        threads: the number of threads whose scratch the budget has room for.
        open: the number of open windows.
        window_bytes: bytes of the open windows, and of a batch that lies in two windows.
        scratch_bytes: bytes of the scratch of all threads.
    """

    threads: int
    open: int
    window_bytes: int
    scratch_bytes: int


def _windows(
    memory_budget: int,
    *,
    batch_size: int,
    row_bytes: int,
    held: int,
    total_rows: int,
    shuffle_window: int,
    work: WorkUnits,
    threads: int,
    least_beside: int,
) -> _Windows:
    """Divide the budget with shuffle, leaving `least_beside` bytes for fetches and the consumer.

    Raises:
        ValueError: the windows exceed the budget.
    """
    windows = max(1, total_rows // shuffle_window)
    open_windows = min(2, windows)
    rows = -(-total_rows // windows)
    scratch = rows * work.scratch_row_bytes  # for one thread
    needed = rows * open_windows * held + batch_size * row_bytes
    if needed + scratch > memory_budget:
        fits = _largest_window(
            memory_budget - batch_size * row_bytes, total_rows, held, work.scratch_row_bytes
        )
        raise ValueError(
            f"Expected a memory_budget of at least {needed + scratch} bytes for {open_windows} "
            f"windows of {rows} rows of {held} bytes, got {memory_budget}: "
            + (
                f"the largest shuffle_window that fits is {fits}"
                if fits > 0
                else f"not even a batch of {batch_size} rows fits"
            )
        )
    # Open more windows if the open ones have no work for all threads.
    if not work.shared:
        while open_windows < min(windows, 1 + -(-threads // work.units)):
            busy = min(threads, open_windows * work.units)
            if needed + rows * held + busy * scratch > memory_budget // 2:
                break
            open_windows += 1
            needed += rows * held
    while (
        open_windows < min(windows, _SMALL_WINDOWS)
        and needed + rows * held <= memory_budget // _SMALL_SHARE
    ):
        open_windows += 1
        needed += rows * held
    # An epoch of one window leaves the threads idle until its last batch is handed out, unless the
    # budget has room for the window of the next epoch, beside the scratch of most threads.
    if open_windows == 1:
        both = needed + rows * held
        room = (memory_budget - both - least_beside) // max(1, scratch)
        if room >= min(max(1, threads), max(2, -(-threads // 2))):
            threads = min(threads, room)
            return _Windows(threads, 2, both, max(1, threads) * scratch)
    # The order has to be the same on every machine, so the windows keep their size, and a small
    # budget reduces the threads. Half of the rest is for fetches and for batches.
    left = memory_budget - needed - least_beside
    threads = min(threads, max(1, left // max(1, 2 * scratch)))
    return _Windows(threads, open_windows, needed, max(1, threads) * scratch)


def _ending_with_row_groups(most: int, batch_size: int, row_group_rows: int) -> int:
    """Return the batches of a stripe that ends where a row group does, at most `most`.

    Returns 0 if only short stripes do. Such stripes need fewer pieces: a stripe has one piece of
    each column for each row group that it overlaps.
    """
    whole, rest = divmod(row_group_rows, batch_size)
    if not whole or rest or not most:
        return 0
    if whole <= most:
        return most - most % whole
    least_parts = -(-whole // most)
    for parts in range(least_parts, 2 * least_parts + 1):
        if whole % parts == 0 and 2 * whole > most * parts:
            return whole // parts
    return 0


def _largest_window(free_bytes: int, total_rows: int, held: int, scratch: int) -> int:
    """Return the largest shuffle_window whose windows fit; 0 if none fits."""
    rows = free_bytes // (2 * held + scratch)  # rows of one window, while two are open
    if rows < 1:
        return 0
    # An epoch has W = total // window windows, and the larger ones have ceil(total / W) rows.
    windows = -(-total_rows // rows)
    return total_rows // windows


# The most bytes of a row in one unit of a stack.
_STACK_BYTES = 256
# When a stack of at least this many columns is shuffled, its rows are copied one by one.
_WIDE_STACK = 12
# Scratch of a thread for each row of a shuffled window. A stack takes a cache line. A column takes
# a multiple of the value's size: the value, a code of half its size, an entry in the table of
# codes, and a flag for valid values.
_STACK_SCRATCH_BYTES = 64
_COLUMN_SCRATCH = 3


class WorkUnits(NamedTuple):
    """The units of work in a window.

    Attributes:
        units: the number of units, at least 1.
        shared: threads share the rows of some units when rows are shuffled.
        scratch_row_bytes: bytes that a thread needs, in addition to its output, for each row of a
            shuffled window.
    """

    units: int
    shared: bool
    scratch_row_bytes: int


def work_units(outputs: Sequence[OutputPlan]) -> WorkUnits:
    """Return the units of work for the outputs of a dataset.

    Args:
        outputs: the outputs of the dataset.
    """
    columns: set[int] = set()
    stacked = scratch = 0
    shared = False
    for output in outputs:
        if output.kind == "stack":
            most = _STACK_BYTES // output.field.dtype.itemsize
            whole, rest = divmod(len(output.columns), most)
            stacked += whole + bool(rest)
            narrow = 0 < rest < _WIDE_STACK
            shared |= whole > 0 or not narrow
            scratch = max(scratch, _STACK_SCRATCH_BYTES if narrow else 0)
        elif output.columns:
            columns.update(output.columns)
            plain = output.kind in ("column", "valid", "stack_valid")
            shared |= output.kind in ("list", "mask", "pad", "ragged")
            # A column is decoded for its validity, too.
            item = 8 if output.kind == "stack_valid" else output.field.item_bytes
            scratch = max(scratch, _COLUMN_SCRATCH * item if plain else 0)
    return WorkUnits(max(1, stacked + len(columns)), shared, scratch)
