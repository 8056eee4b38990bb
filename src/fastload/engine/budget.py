"""How memory_budget is divided: windows, fetches, and what the consumer may hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from fastload.engine.work_units import WorkUnits

__all__ = ["Budget", "divide_budget", "resolve_window"]

_MIB = 1 << 20
# A window mixes well and stays in memory; more than either of these costs more than it gains.
_WINDOW_ROWS = 2**19
_WINDOW_BYTES = 512 * _MIB
# Rows decoded as one piece of work without shuffle, and their bytes at most: about a row group,
# since each piece of a column begins with its dictionary out of cache.
_STRIPE_ROWS = 2**18
_STRIPE_BYTES = 128 * _MIB
# Where the stripes decide what is delivered, they depend on the data alone: no more than a small
# budget has room for.
_FIXED_STRIPE_BYTES = 16 * _MIB
# One read: large enough that a request's own cost vanishes, small enough to be held twice.
_MOST_SEGMENT_BYTES = 8 * _MIB
_LEAST_SEGMENT_BYTES = 64 << 10
_MOST_FETCH_BYTES = 256 * _MIB
# For each thread, but for very small budgets: none waits for memory to read small pages into.
_LEAST_FETCH_BYTES = _MIB
_LEAST_FETCH_SHARE = 16
# A consumer that keeps nothing still holds a batch while it asks for the next; both may be
# twice the average where strings vary.
_LEAST_LENT_BATCHES = 4
_LEAST_BATCH_BYTES = 4096  # the core's smallest block


@dataclass(frozen=True, slots=True)
class Budget:
    """Bytes and counts that a pipeline keeps to.

    threads: of the core; fewer than there might be, where there is no memory for their scratch.
    stripe_rows: rows of one window without shuffle, a multiple of the batch size.
    open_windows: windows whose memory is open at a time.
    window_bytes: decoded bytes of all open windows.
    staged_bytes: of those, what waits beside the batches for their sizes.
    fetch_bytes: compressed bytes in memory.
    segment_bytes: of one read.
    lend_bytes: batch memory that the consumer may hold; past it batches are copied.
    """

    threads: int
    stripe_rows: int
    open_windows: int
    window_bytes: int
    staged_bytes: int
    fetch_bytes: int
    segment_bytes: int
    lend_bytes: int


def resolve_window(shuffle_window: int | None, row_bytes: int) -> int:
    """Rows mixed at once: those asked for, else 2**19 or as many as decode to 512 MiB."""
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
) -> Budget:
    """Divides `memory_budget` bytes.

    Args:
        memory_budget: of this process.
        batch_size: rows.
        row_bytes: decoded bytes of a row in a batch.
        staged_row_bytes: bytes of a row that wait beside it for their batch's size (strings).
        total_rows: of the epoch.
        shuffle_window: rows, None without shuffle.
        columns: leaf columns decoded.
        work: that a window is.
        threads: of the core, at most; 0 = whoever waits for a batch does the work.
        prefetch: batches ready ahead of the consumer.
        row_group_rows: of a whole row group; 0 = that doesn't matter.
        fixed_stripes: stripe_rows does not depend on the budget, threads and prefetch.
        once: no other epoch follows in order, so that there is never more than what it has.

    Raises:
        ValueError: the windows, or a few batches, alone exceed the budget; the message names
            the bytes needed and the largest window (or batch) that fits.
    """
    held = row_bytes + staged_row_bytes
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
            held=held,
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
    left = memory_budget - needed - scratch
    most_fetched = min(_MOST_FETCH_BYTES, left // 2, left - least_lent)
    fetch_bytes = max(_LEAST_SEGMENT_BYTES, least_fetched, most_fetched)
    segments = 2 * max(1, columns)
    segment_bytes = fetch_bytes // segments
    return Budget(
        threads=threads,
        stripe_rows=stripe_rows,
        open_windows=open_windows,
        window_bytes=needed,
        staged_bytes=needed * staged_row_bytes // held,
        fetch_bytes=fetch_bytes,
        segment_bytes=max(_LEAST_SEGMENT_BYTES, min(_MOST_SEGMENT_BYTES, segment_bytes)),
        lend_bytes=max(least_lent, left - fetch_bytes),
    )


def _stripes(
    memory_budget: int,
    *,
    batch_size: int,
    held: int,
    total_rows: int,
    units: int,
    threads: int,
    prefetch: int,
    row_group_rows: int,
    fixed: bool,
    once: bool,
) -> tuple[int, int]:
    """Rows of a window without shuffle, and how many are open.

    Raises:
        ValueError: they exceed the budget.
    """
    if fixed:
        most = min(_FIXED_STRIPE_BYTES // held, total_rows + batch_size - 1)
    else:
        most = min(memory_budget // 8, _STRIPE_BYTES) // held
    batches = max(1, min(_STRIPE_ROWS, most) // batch_size)
    if not fixed:
        # A little more than usual, for stripes that are better cut.
        most = min(memory_budget // 6, _STRIPE_BYTES) // held
        most_batches = min(_STRIPE_ROWS, most) // batch_size
        batches = _ending_with_row_groups(most_batches, batch_size, row_group_rows) or batches
    stripe_rows = batches * batch_size
    ahead = -(-prefetch * batch_size // stripe_rows)
    busy = -(-2 * max(1, threads) // units)
    open_windows = 1 + max(2, ahead, busy)
    if once:
        open_windows = min(open_windows, max(1, -(-total_rows // stripe_rows)))
    while open_windows > 2 and open_windows * stripe_rows * held > memory_budget // 2:
        open_windows -= 1
    needed = open_windows * stripe_rows * held
    if needed > memory_budget:
        fits = memory_budget // (open_windows * held)
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
    """The threads that there is room for, how many windows are open, and bytes.

    window_bytes: of the windows, and a batch that lies in two.
    scratch_bytes: of all threads.
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
    """How windows are shuffled.

    least_beside: bytes that should be left.

    Raises:
        ValueError: they exceed the budget.
    """
    windows = max(1, total_rows // shuffle_window)
    open_windows = min(2, windows)
    rows = -(-total_rows // windows)
    scratch = rows * work.scratch_row_bytes  # of a thread
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
    # More windows where these have no work for all threads.
    if not work.shared:
        while open_windows < min(windows, 1 + -(-threads // work.units)):
            busy = min(threads, open_windows * work.units)
            if needed + rows * held + busy * scratch > memory_budget // 2:
                break
            open_windows += 1
            needed += rows * held
    # The order is the same on every machine, so it is threads that yield. Half of the rest is
    # for bytes on their way, and for batches.
    left = memory_budget - needed - least_beside
    threads = min(threads, max(1, left // max(1, 2 * scratch)))
    return _Windows(threads, open_windows, needed, max(1, threads) * scratch)


def _ending_with_row_groups(most: int, batch_size: int, row_group_rows: int) -> int:
    """Batches of a stripe, at most `most`, that ends where row groups do; 0 if only short ones do.

    Each row group that a stripe has a part of is another piece of each of its columns.
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
    """The largest shuffle_window whose windows fit; 0 when none does."""
    rows = free_bytes // (2 * held + scratch)  # of one window, two of them open
    if rows < 1:
        return 0
    # Of W = total // window windows the larger have ceil(total / W) rows.
    windows = -(-total_rows // rows)
    return total_rows // windows
