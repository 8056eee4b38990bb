"""The random streams: published values, an independent model, and values kept for good."""

import zlib

import numpy as np
import pytest

from fastload.plan.permutation import permutation, stream_key, stream_keys, stream_values
from fastload.runtime.native import core

MASK = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15


def model_mix64(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


def model_key(*parts):
    key = 0
    for part in parts:
        key = model_mix64((key ^ model_mix64(((part & MASK) + GAMMA) & MASK)) + GAMMA & MASK)
    return key


def model_permutation(n, key):
    if n <= 2**13:
        return model_shuffle(list(range(n)), key)
    bits = 1
    while n > 2 ** (13 + bits):
        bits += 1
    parts = [[] for _ in range(2**bits)]
    for i in range(n):
        field = model_mix64(key + (i // 4 + 1) * GAMMA & MASK) >> 16 * (i % 4) & 0xFFFF
        parts[field >> 16 - bits].append(i)
    shuffled = [model_shuffle(part, model_key(key, b)) for b, part in enumerate(parts)]
    return [element for part in shuffled for element in part]


def model_shuffle(order, key):
    n = len(order)
    for number, i in enumerate(range(n - 1, 0, -1)):
        draw = model_mix64(key + (number // 2 + 1) * GAMMA & MASK)
        half = draw >> 32 if number % 2 else draw & 0xFFFFFFFF
        j = half * (i + 1) >> 32
        order[i], order[j] = order[j], order[i]
    return order


def test_streams_are_splitmix64_as_published():
    # Vigna's splitmix64.c seeded with 0, and with 1234567 (the values of Rosetta Code).
    assert stream_values(0, 3).tolist() == [
        0xE220A8397B1DCDAF,
        0x6E789E6AA1B965F4,
        0x06C45D188009454F,
    ]
    assert stream_values(1234567, 3).tolist() == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


@pytest.mark.parametrize("parts", [(0,), (0, 0), (0, 1), (1, 0), (-1, 3, 2**63), (2**64 - 1, 3)])
def test_keys_equal_the_model(parts):
    assert stream_key(*parts) == model_key(*parts)


def test_keys_of_many_streams_equal_single_ones():
    last = np.array([0, 1, 7, 2**40])
    assert stream_keys((5, 6, 1), last).tolist() == [stream_key(5, 6, 1, w) for w in last.tolist()]


def test_seed_and_epoch_do_not_add_up():
    keys = {
        stream_key(seed, epoch, kind) for seed in range(8) for epoch in range(8) for kind in (0, 1)
    }
    assert len(keys) == 128


@pytest.mark.parametrize("n", [0, 1, 2, 3, 10, 257, 2**13, 2**13 + 1, 100_000])
@pytest.mark.parametrize("key", [0, 1, MASK, stream_key(7, 3)])
def test_permutations_equal_the_model(n, key):
    order = permutation(n, key)
    assert order.tolist() == model_permutation(n, key)
    assert sorted(order.tolist()) == list(range(n))


@pytest.mark.parametrize("n", [0, 1, 7, 2**13, 2**13 + 1, 300_000])
def test_the_core_draws_the_same(n):
    for key in (0, MASK, stream_key(7, n)):
        assert core.permutation(n, key).tolist() == permutation(n, key).tolist()


def test_every_permutation_of_three_is_about_as_likely():
    counts = {}
    for key in range(6000):
        order = tuple(permutation(3, stream_key(key)).tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 6
    # Five standard deviations of a count of mean 1000 are 144.
    assert all(856 < count < 1144 for count in counts.values())


def test_values_stay_as_they_are():
    """A change here would change every user's order: runs could not be resumed or repeated."""
    assert stream_key(0, 0, 0) == 0xCD7F3A87B5BB05BE
    assert stream_key(42, 7, 1, 3) == 0xA811560A4D177105
    assert permutation(10, stream_key(0, 0, 0)).tolist() == [7, 1, 9, 4, 8, 5, 6, 3, 0, 2]
    order = [1, 7, 5, 8, 4, 6, 2, 9, 3, 0, 11, 10]
    assert permutation(12, stream_key(42, 7, 1, 3)).tolist() == order
    order = permutation(100_000, stream_key(0, 0, 0))
    assert order[:5].tolist() == [70566, 34718, 89882, 61740, 40140]
    assert zlib.crc32(order.astype("<u4").tobytes()) == 1582357031


@pytest.mark.parametrize("n", [-1, 2**32])
def test_too_many_things_are_refused(n):
    with pytest.raises(ValueError, match="to permute, got"):
        permutation(n, 0)
