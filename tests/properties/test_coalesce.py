"""Requests that bring ranges: all of them, within bounds, and no more than needed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fastload.runtime._core import coalesce

_RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), max_size=6)


def _bytes(ranges):
    return {at for offset, length in ranges for at in range(offset, offset + length)}


@given(_RANGES, st.integers(0, 10), st.integers(1, 20))
def test_requests_keep_to_their_bounds(ranges, hole_bytes, request_bytes):
    requests = coalesce(ranges, hole_bytes=hole_bytes, request_bytes=request_bytes)
    wanted = _bytes(ranges)
    assert wanted <= _bytes(requests)
    assert sum(length for _, length in requests) == len(_bytes(requests)), "read twice"
    assert requests == sorted(requests)
    for offset, length in requests:
        assert 0 < length <= request_bytes
        assert {offset, offset + length - 1} <= wanted
        hole = 0
        for at in range(offset, offset + length):
            hole = 0 if at in wanted else hole + 1
            assert hole <= hole_bytes


@given(_RANGES, st.integers(0, 10), st.integers(1, 20))
def test_no_other_requests_are_fewer(ranges, hole_bytes, request_bytes):
    wanted = sorted(_bytes(ranges))
    # fewest[i]: requests that bring wanted[i:], by trying every length of the first one.
    fewest = [0] * (len(wanted) + 1)
    for i in reversed(range(len(wanted))):
        best = len(wanted)
        for j in range(i, len(wanted)):
            if j > i and wanted[j] - wanted[j - 1] - 1 > hole_bytes:
                break
            if wanted[j] - wanted[i] + 1 > request_bytes:
                break
            best = min(best, 1 + fewest[j + 1])
        fewest[i] = best
    got = coalesce(ranges, hole_bytes=hole_bytes, request_bytes=request_bytes)
    assert len(got) == fewest[0]


@given(_RANGES, st.integers(0, 10))
def test_the_cost_is_least_where_requests_are_as_large_as_they_like(ranges, latency):
    """cost = requests x latency + bytes, of a link that carries a byte per unit of time."""
    wanted = sorted(_bytes(ranges))
    least = [0] * (len(wanted) + 1)
    for i in reversed(range(len(wanted))):
        least[i] = min(
            latency + wanted[j] - wanted[i] + 1 + least[j + 1] for j in range(i, len(wanted))
        )
    got = coalesce(ranges, hole_bytes=latency, request_bytes=1000)
    assert len(got) * latency + sum(length for _, length in got) == least[0]
