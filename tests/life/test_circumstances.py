"""Some cells of the table of circumstances: `make test-circumstances` runs all."""

import pytest
from circumstances import CIRCUMSTANCES, LIMIT_S, cell, is_expected

CELLS = [
    *((name, "loop") for name in CIRCUMSTANCES),
    ("development mode", "fork"),
    ("no HOME", "steps"),
    ("64 descriptors", "cache"),
    ("chdir", "spawn"),
    ("threads share a dataset", "mix"),
    ("fork in mid-pass", "fork"),
    ("changed in place", "cache"),
    ("changed in place", "cache in order"),
    ("Ctrl-C", "fork"),
]


@pytest.mark.slow
@pytest.mark.timeout(2 * LIMIT_S)
@pytest.mark.parametrize(("name", "way"), CELLS)
def test_circumstances(name, way):
    ended = cell(name, way)
    assert is_expected(name, ended), ended
