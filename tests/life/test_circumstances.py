"""Some cells of the table of circumstances: `make test-circumstances` runs all."""

import pytest
from circumstances import CIRCUMSTANCES, LIMIT_S, cell, is_expected

# New interpreters are dear: their circumstances have one way each.
CELLS = [
    ("development mode", "fork"),
    ("optimized", "loop"),
    ("no HOME", "steps"),
    ("HOME is no directory", "loop"),
    *((name, "loop") for name in CIRCUMSTANCES if CIRCUMSTANCES[name].forked),
    ("64 descriptors", "cache"),
    ("chdir", "spawn"),
    ("chdir", "forkserver"),
    ("threads apart", "inline"),
    ("threads share a dataset", "mix"),
    ("threads share a pass", "shuffle"),
    ("fork in mid-pass", "fork"),
    ("no grad", "filters"),
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
