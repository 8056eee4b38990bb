"""Programs at random: `make test-life PROGRAMS=5000` runs more of them."""

import os

import pytest
from programs import LIMIT_S, failures, report

PROGRAMS = int(os.environ.get("PROGRAMS", "80"))
TOGETHER = 20


@pytest.mark.slow
@pytest.mark.timeout(LIMIT_S * TOGETHER)
@pytest.mark.parametrize("first", range(0, PROGRAMS, TOGETHER))
def test_programs(first):
    """Each delivers the rows, values and marks that the oracle expects."""
    seeds = range(first, min(first + TOGETHER, PROGRAMS))
    failed = [report(seed, message) for seed, message in failures(seeds)]
    assert not failed, "\n".join(failed)
