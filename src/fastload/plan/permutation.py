"""The random order: counter-based SplitMix64 streams, and what is drawn from them.

Pure. The core draws the same numbers for the rows of a window; this module is the oracle that
tests compare the core with.

- SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators"
  (OOPSLA 2014).
- Bounding a number by multiply and shift: Lemire, "Fast random integer generation in an
  interval" (ACM TOMACS 2019).
- Shuffling a bucket: Durstenfeld (CACM 1964, algorithm 235).
- Dealing elements to buckets first: Rao (Sankhya A 23, 1961) and Sandelius (J. R. Stat. Soc. B
  24, 1962). The result is as uniform as Durstenfeld's, but each step stays in a CPU cache.

`augment` draws its random numbers from the seeds of rows. The seed of a row is `stream_key(seed,
epoch, 3, step, file, row)`, made of the dataset's seed, the epoch, the number of the step in
`augment`, the index of the row's file in `dataset.files`, and the row's number in the file. So the
seed of a row does not depend on how an epoch is cut or read: not on ranks, workers, threads,
batches and resumes, nor on shuffle, filters and limit. The steps of one dataset draw independent
numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Permute = Callable[[int, int], NDArray[np.integer]]
    """A function that returns the permutation of n rows that a key names, as `permutation`."""

__all__ = [
    "below",
    "permutation",
    "seeds_of",
    "step_key",
    "stream_key",
    "stream_keys",
    "stream_value",
    "stream_values",
]

_MASK = (1 << 64) - 1
# 2**64 divided by the golden ratio, made odd: SplitMix64's increment.
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FACTORS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
# Most rows that are shuffled as one bucket; more rows are dealt to buckets of half this size at
# least first. A bucket of 2-byte codes fits an L1 cache, one of 8-byte values an L2 cache.
_BUCKET_ROWS = 1 << 13
# Bits of a draw from which one bucket is taken, so that there are at most 2**16 buckets.
_BUCKET_BITS = 16
# `below` multiplies in 32-bit halves, so a bound must fit in 32 bits.
_MOST_ROWS = (1 << 32) - 1


def mix64(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Apply the finalizer of SplitMix64, a bijection on 64-bit integers (Stafford's variant 13)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(_FACTORS[0])
    z = (z ^ (z >> np.uint64(27))) * np.uint64(_FACTORS[1])
    return z ^ (z >> np.uint64(31))


def fold(key: NDArray[np.uint64], part: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the keys of the streams named by `key` and then `part`; the arrays broadcast."""
    return mix64((key ^ mix64(part + _GAMMA)) + _GAMMA)


def stream_keys(parts: tuple[int, ...], last: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the keys of the streams `(*parts, l)` for every `l` of `last` (n,), as uint64 (n,).

    Each part is taken modulo 2**64 and hashed by itself before it is folded in, so that streams
    of neighbouring seeds and epochs have nothing in common: (0, 1) is not (1, 0).
    """
    return fold(np.array([stream_key(*parts)], np.uint64), last.astype(np.uint64))


def stream_key(*parts: int) -> int:
    """Return the key of the stream that `parts` name: one integer or more, each modulo 2**64."""
    key, gamma = 0, int(_GAMMA)
    for part in parts:
        key = _mixed((key ^ _mixed(part + gamma)) + gamma)
    return key


def _mixed(z: int) -> int:
    """Return the same as `mix64` for one number, modulo 2**64: arrays of one number are slow."""
    z &= _MASK
    z = (z ^ (z >> 30)) * _FACTORS[0] & _MASK
    z = (z ^ (z >> 27)) * _FACTORS[1] & _MASK
    return z ^ (z >> 31)


def stream_values(key: int, count: int, first: int = 0) -> NDArray[np.uint64]:
    """Return the numbers `first` to `first + count - 1` of a stream, uint64 (count,).

    Number i of the stream `key` is `mix64(key + (i + 1) * gamma)`.
    """
    steps = np.arange(first + 1, first + count + 1, dtype=np.uint64) * _GAMMA
    return mix64(steps + np.array([key & _MASK], np.uint64))


def stream_value(key: int, number: int) -> int:
    """Return one number of a stream, as `stream_values` counts them."""
    return _mixed(key + (number + 1) * int(_GAMMA))


def permutation(n: int, key: int) -> NDArray[np.int64]:
    """Return a permutation of 0 .. n-1 as int64 (n,), the same on every machine and release.

    Up to 2**13 elements are shuffled by Durstenfeld's method with the stream `key`. More are dealt
    to K buckets first. K is the least power of two that is at least n / 2**13, and at most 2**16.
    Element i goes to the bucket that the highest log2(K) bits of its 16 bits name; these are bits
    16 * (i % 4) and following of number i // 4 of the stream `key`. Then the elements of each
    bucket b, in ascending order, are shuffled with the stream (key, b). The result is the buckets
    one after the other.

    Raises:
        ValueError: n is negative, or at least 2**32.
    """
    if not 0 <= n <= _MOST_ROWS:
        raise ValueError(f"Expected between 0 and 2**32 - 1 elements to permute, got {n}")
    if n <= _BUCKET_ROWS:
        return _shuffled(n, key)
    bucket_bits = min((-(-n // _BUCKET_ROWS) - 1).bit_length(), _BUCKET_BITS)
    buckets = 1 << bucket_bits
    bits = stream_values(key, -(-n * _BUCKET_BITS // 64)).astype("<u8").view("<u2")[:n]
    bucket = bits >> np.uint16(_BUCKET_BITS - bucket_bits)
    dealt = np.argsort(bucket, kind="stable")
    parts = np.split(dealt, np.cumsum(np.bincount(bucket, minlength=buckets))[:-1])
    return np.concatenate(
        [part[_shuffled(len(part), stream_key(key, b))] for b, part in enumerate(parts)]
    )


def below(draws: NDArray[np.uint64], bounds: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Scale each draw to a number below its bound, (draw * bound) >> 64; return int64 (n,).

    Every bound must be less than 2**32.
    """
    half = np.uint64(32)
    low = (draws & np.uint64(0xFFFFFFFF)) * bounds >> half
    return (((draws >> half) * bounds + low) >> half).astype(np.int64)


def _shuffled(n: int, key: int) -> NDArray[np.int64]:
    """Shuffle 0 .. n-1 from the back by Durstenfeld's method; return int64 (n,).

    For i = n-1 .. 1, the next half h of the stream's numbers, 32 bits and the lower half first,
    swaps element i with element (h * (i + 1)) >> 32.
    """
    halves = stream_values(key, n // 2).astype("<u8").view("<u4")[: max(0, n - 1)]
    bounds: NDArray[np.uint64] = np.arange(n, 1, -1, dtype=np.uint64)
    chosen = (halves.astype(np.uint64) * bounds) >> np.uint64(32)
    order = list(range(n))
    for i, j in zip(range(n - 1, 0, -1), chosen.tolist(), strict=True):
        order[i], order[j] = order[j], order[i]
    return np.array(order, np.int64)


# Third part, after seed and epoch, of the names of these streams. Orders and mixes use 0 to 2.
_SEED_STREAM = 3


def step_key(seed: int, epoch: int, step: int) -> int:
    """Return the key of a step, which `seeds_of` combines with rows.

    Args:
        seed: seed of the dataset.
        epoch: number of the epoch.
        step: number of the step in `augment`.
    """
    return stream_key(seed, epoch, _SEED_STREAM, step)


def seeds_of(key: int, file: NDArray[np.int32], row: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the seeds of B rows for a step, uint64 (B,). The core makes the same.

    Args:
        key: key of the step.
        file: index of each row's file, (B,).
        row: number of each row in its file, (B,).
    """
    whole = np.array([key], np.uint64)
    return fold(fold(whole, file.astype(np.uint64)), row.astype(np.uint64))
