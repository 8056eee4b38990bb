"""The seeds of rows: their definition, and values kept for good."""

import numpy as np

from fastload.plan.permutation import seeds_of, step_key, stream_key


def test_each_is_the_key_of_a_stream():
    file = np.array([0, 1, 1, 70_000], np.int32)
    row = np.array([0, 0, 2**40, 5], np.int64)
    for seed, epoch, step in ((0, 0, 0), (-1, 3, 1), (2**64 - 1, 2**24 - 1, 7)):
        seeds = seeds_of(step_key(seed, epoch, step), file, row)
        assert seeds.dtype == np.uint64
        pairs = zip(file.tolist(), row.tolist(), strict=True)
        assert seeds.tolist() == [stream_key(seed, epoch, 3, step, *pair) for pair in pairs]


def test_values_of_every_release():
    file, row = np.zeros(2, np.int32), np.arange(2)
    assert seeds_of(step_key(0, 0, 0), file, row).tolist() == [
        0xD77663E53EA35CE7,
        0x2A2570F2CFEF1BC3,
    ]


def test_neighbours_have_nothing_in_common():
    rows = 1000
    numbers = [
        seeds_of(step_key(seed, epoch, step), np.full(rows, file, np.int32), np.arange(rows))
        for seed, epoch, step, file in np.ndindex(2, 2, 2, 2)
    ]
    together = np.concatenate(numbers)
    assert len(np.unique(together)) == 16 * rows
    uniform = (together >> np.uint64(11)) * 2.0**-53
    assert abs(uniform.mean() - 0.5) < 4 / np.sqrt(12 * 16 * rows)
    assert np.abs(np.corrcoef([n.astype(np.float64) for n in numbers]) - np.eye(16)).max() < 0.2
