"""Files, arguments and interruptions of a run, at random."""

import os
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from fastload.rows.predicate import parse_split
from fastload.rows.row_hash import hash_columns

# Of each end-to-end property; `make test-semantics EXAMPLES=5000` sets it.
EXAMPLES = int(os.environ.get("FASTLOAD_EXAMPLES", "60"))


@dataclass(frozen=True)
class Leg:
    """A stretch of the run; `steps` batches of each rank, None for all that are left."""

    world: int
    workers: int
    steps: int | None


@dataclass(frozen=True)
class Run:
    files: list[list[int]]  # rows of each row group
    options: dict
    legs: list[Leg]
    epoch: int
    rows: int = field(init=False)

    def __post_init__(self):
        total = max(0, self._staying() - self.options["offset"])
        limit = self.options["limit"]
        object.__setattr__(self, "rows", total if limit is None else min(total, limit))

    def _staying(self):
        """How many ids filters and split leave."""
        ids = np.arange(sum(map(sum, self.files)))
        if self.options["filters"] is not None:
            ((_, _, first),) = self.options["filters"]
            ids = ids[ids >= first]
        if self.options["split"] is not None and len(ids):
            low, high = parse_split(self.options["split"]).bounds
            hashes = hash_columns([pa.array(ids)])
            ids = ids[[low <= h < high for h in hashes.tolist()]]
        return len(ids)


group_rows = st.one_of(st.integers(0, 3), st.integers(0, 60), st.just(150))
files = st.lists(st.lists(group_rows, max_size=5), min_size=1, max_size=5)


@st.composite
def options(draw):
    return {
        "batch_size": draw(st.one_of(st.integers(1, 9), st.integers(1, 500))),
        "shuffle": draw(st.booleans()),
        "shuffle_window": draw(st.sampled_from([1, 5, 64, 1000])),
        "seed": draw(st.integers(0, 2**64 - 1)),
        "drop_last": draw(st.booleans()),
        "uneven": draw(st.sampled_from(["wrap", "drop", "pad", "keep"])),
        "limit": draw(st.one_of(st.none(), st.none(), st.integers(0, 300))),
        "offset": draw(st.sampled_from([0, 0, 0, 7, 100])),
        "filters": draw(st.sampled_from([None, None, [("id", ">=", 70)]])),
        "split": draw(st.sampled_from([None, None, ("id", 0.2, 0.7), ("id", 0, 0.02)])),
    }


worlds = st.sampled_from([1, 1, 2, 3, 8])
# Processes take their time.
workers = st.sampled_from([0] * 14 + [1, 2])


@st.composite
def runs(draw):
    """Runs whose legs are on whatever worlds, or all on one."""
    steps = draw(st.lists(st.one_of(st.integers(0, 3), st.integers(0, 40)), max_size=3))
    pairs = st.tuples(worlds, workers)
    if draw(st.booleans()):
        places = [draw(pairs)] * (len(steps) + 1)
    else:
        places = [draw(pairs) for _ in range(len(steps) + 1)]
    legs = [Leg(*place, step) for place, step in zip(places, [*steps, None], strict=True)]
    return Run(draw(files), draw(options()), legs, draw(st.integers(0, 5)))
