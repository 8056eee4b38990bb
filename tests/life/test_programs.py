"""Programs at random: `make test-life PROGRAMS=5000` runs more of them."""

import os

import pytest
from programs import fails

PROGRAMS = int(os.environ.get("PROGRAMS", "80"))
TOGETHER = 10


@pytest.mark.slow
@pytest.mark.timeout(120 * TOGETHER)
@pytest.mark.parametrize("first", range(0, PROGRAMS, TOGETHER))
def test_programs(first):
    """Each delivers the rows, values and marks that the oracle expects."""
    failed = [fails(seed) for seed in range(first, min(first + TOGETHER, PROGRAMS))]
    assert not any(failed), "\n".join(filter(None, failed))
