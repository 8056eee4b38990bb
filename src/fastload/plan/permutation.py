"""The random order: counter-based SplitMix64 streams and the permutations drawn from them.

Pure. The core draws the same numbers for the rows of a window; this is the oracle of that code.
SplitMix64 is from Steele, Lea and Flood, "Fast splittable pseudorandom number generators"
(OOPSLA 2014); the bound by multiply and shift from Lemire, "Fast random integer generation in
an interval" (ACM TOMACS 2019); the shuffle of a bucket is Durstenfeld's (CACM 1964, algorithm
235), and that of the buckets the one of Rao (Sankhya A 23, 1961) and Sandelius (J. R. Stat. Soc.
B 24, 1962): uniform like the other, but each step stays in a cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["below", "fold", "mix64", "permutation", "stream_key", "stream_keys", "stream_values"]

_MASK = (1 << 64) - 1
# 2**64 divided by the golden ratio, made odd: SplitMix64's increment.
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
# Rows that are shuffled as one; more are dealt to buckets of about so many each. A bucket of 8-byte
# values, and the next one, fit an L2 cache of 1 MiB.
_BUCKET_ROWS = 1 << 15
# High products are taken in 32-bit halves, so the bound must fit in one.
_MOST_ROWS = (1 << 32) - 1


def mix64(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of SplitMix64, a bijection on 64-bit integers (variant 13 of Stafford)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def fold(key: NDArray[np.uint64], part: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Keys of the streams whose names go on with `part`: arrays that broadcast."""
    return mix64((key ^ mix64(part + _GAMMA)) + _GAMMA)


def stream_keys(parts: tuple[int, ...], last: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Keys of the streams `(*parts, l)` for every `l` of `last` (n,), as uint64 (n,).

    Each part is taken modulo 2**64 and hashed by itself before it is folded in, so that streams
    of neighbouring seeds and epochs have nothing in common: (0, 1) is not (1, 0).
    """
    key = np.zeros(1, np.uint64)
    for part in parts:
        key = fold(key, np.array([part & _MASK], np.uint64))
    return fold(key, last.astype(np.uint64))


def stream_key(*parts: int) -> int:
    """Key of the stream named by these integers: at least one, each taken modulo 2**64."""
    key = np.zeros(1, np.uint64)
    for part in parts:
        key = fold(key, np.array([part & _MASK], np.uint64))
    return int(key[0])


def stream_values(key: int, count: int, first: int = 0) -> NDArray[np.uint64]:
    """`count` numbers of a stream from `first` on: number i is `mix64(key + (i + 1) * gamma)`."""
    steps = np.arange(first + 1, first + count + 1, dtype=np.uint64) * _GAMMA
    return mix64(steps + np.array([key & _MASK], np.uint64))


def permutation(n: int, key: int) -> NDArray[np.int64]:
    """A permutation of 0 .. n-1 as int64 (n,), the same on every machine and release.

    Up to 2**15 elements are shuffled by Durstenfeld's method with the stream `key`. More are
    dealt to K = ceil(n / 2**15) buckets first: number i of that stream, r, sends element i to
    bucket (r * K) >> 64. Each bucket b, its elements in ascending order, is then shuffled with
    the stream (key, b); the buckets follow one another.

    Raises:
        ValueError: n is negative, or at least 2**32.
    """
    if not 0 <= n <= _MOST_ROWS:
        raise ValueError(f"Expected between 0 and 2**32 - 1 things to permute, got {n}")
    buckets = -(-n // _BUCKET_ROWS)
    if buckets <= 1:
        return _shuffled(n, key)
    bucket = below(stream_values(key, n), np.full(1, buckets, np.uint64))
    dealt = np.argsort(bucket, kind="stable")
    parts = np.split(dealt, np.cumsum(np.bincount(bucket, minlength=buckets))[:-1])
    return np.concatenate(
        [part[_shuffled(len(part), stream_key(key, b))] for b, part in enumerate(parts)]
    )


def below(draws: NDArray[np.uint64], bounds: NDArray[np.uint64]) -> NDArray[np.int64]:
    """(draws * bounds) >> 64, int64 (n,): a number below each bound, which is less than 2**32."""
    half = np.uint64(32)
    low = (draws & np.uint64(0xFFFFFFFF)) * bounds >> half
    return (((draws >> half) * bounds + low) >> half).astype(np.int64)


def _shuffled(n: int, key: int) -> NDArray[np.int64]:
    """Durstenfeld's shuffle from the back.

    For i = n-1 .. 1, the next number r of the stream swaps element i with element
    (r * (i + 1)) >> 64.
    """
    chosen = below(stream_values(key, max(0, n - 1)), np.arange(n, 1, -1, dtype=np.uint64))
    order = list(range(n))
    for i, j in zip(range(n - 1, 0, -1), chosen.tolist(), strict=True):
        order[i], order[j] = order[j], order[i]
    return np.array(order, np.int64)
