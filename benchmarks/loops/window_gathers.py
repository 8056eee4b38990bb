"""What do ways to shuffle a window cost, in loops that do nothing else?

    python benchmarks/loops/window_gathers.py [--rows N] [--repeats N]

The loops are compiled by numba and run on one thread; they are models, not the core's code. Printed
are nanoseconds a value to move a window of 8-byte values to shuffled places: by one gather over the
window; by dealing to buckets and gathering from each bucket, for several sizes of bucket, and with
160 unused slots between buckets; then for 2-byte codes, one column at a time and two and four
columns' codes in one record; then for codes of 1, 2 and 4 bytes that are looked up as they are
gathered, by one gather over the window and from buckets of 2**13 rows; then to look up codes in a
table of 200 KB, beside a copy.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numba
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support import turns

if TYPE_CHECKING:
    from collections.abc import Callable

_GAP = 160


@numba.njit(nogil=True)
def _gather(values: Any, order: Any, out: Any) -> None:
    for i in range(len(order)):
        out[i] = values[order[i]]


@numba.njit(nogil=True)
def _deal_and_gather(
    values: Any, bucket_of: Any, starts: Any, order: Any, dealt: Any, out: Any
) -> None:
    ends = starts.copy()
    for i in range(len(values)):
        bucket = bucket_of[i]
        dealt[ends[bucket]] = values[i]
        ends[bucket] += 1
    for i in range(len(order)):
        out[i] = dealt[order[i]]


@numba.njit(nogil=True)
def _look_up(codes: Any, order: Any, table: Any, out: Any) -> None:
    for i in range(len(order)):
        out[i] = table[codes[order[i]]]


@numba.njit(nogil=True)
def _deal_and_look_up(codes: Any, slots: Any, order: Any, table: Any, dealt: Any, out: Any) -> None:
    for i in range(len(codes)):
        dealt[slots[i]] = codes[i]
    for i in range(len(order)):
        out[i] = table[dealt[order[i]]]


def _looking_up(
    rng: np.random.Generator, codes: np.ndarray, bucket_rows: int
) -> dict[str, Callable[[], None]]:
    """Return calls that put the values of codes in a random order, by the ways' names."""
    rows, table = len(codes), rng.integers(0, 2**40, int(codes.max()) + 1)
    buckets = rows // bucket_rows
    bucket_of = rng.integers(0, buckets, rows, np.int32)
    counts = np.bincount(bucket_of, minlength=buckets)
    starts = np.cumsum(counts) - counts + _GAP * np.arange(buckets)
    slots = np.empty(rows, np.uint32)
    for b in range(buckets):
        slots[bucket_of == b] = starts[b] + np.arange(counts[b])
    parts = [starts[b] + rng.permutation(counts[b]) for b in range(buckets)]
    by_slot, by_row = (np.concatenate(parts).astype(np.uint32), rng.permutation(rows))
    order = by_row.astype(np.uint32)
    dealt, out = np.zeros(rows + buckets * _GAP, codes.dtype), np.zeros(rows, np.int64)
    return {
        "one gather": lambda: _look_up(codes, order, table, out),
        "two steps": lambda: _deal_and_look_up(codes, slots, by_slot, table, dealt, out),
    }


def _dealing(
    rng: np.random.Generator, values: np.ndarray, bucket_rows: int, gap: int
) -> Callable[[], None]:
    """Return a call that deals to buckets and gathers from each; the order is made before."""
    rows = len(values)
    buckets = -(-rows // bucket_rows)
    bucket_of = rng.integers(0, buckets, rows, np.int32)
    counts = np.bincount(bucket_of, minlength=buckets)
    # A power of two apart, as arenas lie, but for the gap.
    apart = (1 << int(counts.max() - 1).bit_length()) + gap
    starts = np.arange(buckets, dtype=np.int64) * apart
    order = np.concatenate([starts[b] + rng.permutation(counts[b]) for b in range(buckets)])
    dealt = np.zeros(buckets * apart, values.dtype)
    out = np.zeros_like(values)
    return lambda: _deal_and_gather(values, bucket_of, starts, order, dealt, out)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1 << 19)
    parser.add_argument("--repeats", type=int, default=11)
    arguments = parser.parse_args()
    rows = arguments.rows
    rng = np.random.default_rng(1)
    values = rng.integers(0, 2**40, rows)
    order, out = rng.permutation(rows), np.zeros_like(values)
    ways = {"8 bytes, one gather": lambda: _gather(values, order, out)}
    for bits in (15, 14, 13, 12):
        for gap in (0, _GAP):
            name = f"8 bytes, buckets of 2**{bits}, gap {gap}"
            ways[name] = _dealing(rng, values, 1 << bits, gap)
    columns = dict.fromkeys(ways, 1)
    for together, dtype in ((1, np.uint16), (2, np.uint32), (4, np.uint64)):
        name = f"2 bytes, {together} columns in a record"
        ways[name] = _dealing(rng, rng.integers(0, 2**16, rows).astype(dtype), 1 << 15, _GAP)
        columns[name] = together
    for entries, code_dtype in ((200, np.uint8), (1000, np.uint16), (60_000, np.uint32)):
        codes = rng.integers(0, entries, rows).astype(code_dtype)
        for way, call in _looking_up(rng, codes, 1 << 13).items():
            ways[f"{codes.itemsize} bytes looked up, {way}"] = call
    table, codes = rng.integers(0, 2**40, 25_000), rng.integers(0, 25_000, rows)
    ways["8 bytes, from a table of 200 KB"] = lambda: _gather(table, codes, out)
    ways["8 bytes, copied"] = lambda: np.copyto(out, values)
    costs = turns.in_turns(ways, arguments.repeats)
    first = costs["8 bytes, one gather"].seconds
    print(f"{'':36}{'ns a value':>10}{'of one gather':>15}")
    for name, cost in costs.items():
        each_s = cost.seconds / columns.get(name, 1)
        print(f"{name:36}{each_s / rows * 1e9:10.2f}{each_s / first:15.2f}")


if __name__ == "__main__":
    main()
