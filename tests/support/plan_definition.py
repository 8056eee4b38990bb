"""The rows of a plan and of an epoch, slowly and plainly, as they are defined."""

import math

import numpy as np

from fastload.plan.permutation import permutation, stream_key
from fastload.plan.sequence import ROW_GROUP_STREAM, WINDOW_STREAM, windows_end_with_slices

_M = 2**64 - 1
_GAMMA = 0x9E3779B97F4A7C15


def rows_of(plan):
    """Return every row that a plan delivers, in order, as int64 (rows, 3).

    The columns are file, row group in the file and row in the row group.
    """
    delivered = [np.zeros((0, 3), np.int64)]
    for v, key in enumerate(plan.keys.tolist()):
        (piece, take), (piece_stop, take_stop) = plan.windows[v : v + 2].tolist()
        window = np.concatenate([_piece_rows(*p) for p in plan.pieces[piece:piece_stop].tolist()])
        if plan.shuffled:
            window = window[permutation(len(window), key)]
        delivered += [window[a:b] for a, b in plan.takes[take:take_stop].tolist()]
    return np.concatenate(delivered)


def epoch_rows(row_groups, options, epoch):
    """Return the whole sequence of an epoch, int64 (N, 3) with the columns of `rows_of`.

    This function shares no arithmetic with `read_plan`.
    """
    order, name = range(len(row_groups.rows)), (options.seed, epoch)
    if options.shuffle:
        key = stream_key(*name, ROW_GROUP_STREAM)
        order = permutation(len(order), key).tolist()
    parts = [np.zeros((0, 3), np.int64)]
    for g in order:
        rows = int(row_groups.rows[g])
        parts.append(_piece_rows(int(row_groups.file[g]), int(row_groups.index[g]), 0, rows))
    sequence = np.concatenate(parts)
    if options.shuffle:
        total, window, w = len(sequence), options.shuffle_window, 0
        slices = (options.canonical_ranks or 1) if windows_end_with_slices(options) else 1
        slices = slices if total // slices >= window else 1
        for part in np.array_split(sequence, slices):
            count = max(1, total // slices // window)
            for v in range(count):
                some = part[v * len(part) // count : (v + 1) * len(part) // count]
                some[:] = some[permutation(len(some), stream_key(*name, WINDOW_STREAM, w))]
                w += 1
    return sequence[options.offset :][: options.limited(len(sequence))]


def _piece_rows(file, row_group, start, stop):
    row = np.arange(start, stop)
    return np.stack([np.full_like(row, file), np.full_like(row, row_group), row], axis=1)


def copies_of(weights, seed, epoch):
    """Return how often each row comes, by the definition in the documentation."""
    key = 0
    for part in (seed, epoch, 4):
        key = _mix(((key ^ _mix((part + _GAMMA) & _M)) + _GAMMA) & _M)
    scale = len(weights) / math.fsum(weights)
    copies = []
    for row, weight in enumerate(weights):
        expected = float(weight) * scale
        drawn = (_mix((key + (row + 1) * _GAMMA) & _M) >> 11) * 2.0**-53
        copies.append(math.floor(expected) + (drawn < expected - math.floor(expected)))
    return copies


def _mix(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & _M
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & _M
    return z ^ (z >> 31)
