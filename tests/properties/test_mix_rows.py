"""A mix end to end: rows as often as they should come, however often and wherever it is resumed."""

import tempfile
from collections import Counter, defaultdict
from contextlib import ExitStack

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fastload
from fastload import FastParquetDataset
from support.deliveries import deliver
from support.sample_files import write_files

# A source may have no batch.
pytestmark = pytest.mark.filterwarnings("ignore:Expected a batch of each source")

group_rows = st.one_of(st.integers(0, 3), st.integers(0, 40))
files = st.lists(st.lists(group_rows, max_size=4), min_size=1, max_size=2)
options = st.fixed_dictionaries(
    {
        "batch_size": st.integers(2, 30),
        "shuffle": st.booleans(),
        "shuffle_window": st.sampled_from([5, 64]),
        "seed": st.integers(0, 2**64 - 1),
        "uneven": st.sampled_from(["wrap", "pad"]),
        "limit": st.one_of(st.none(), st.integers(0, 60)),
    }
)
# World size, workers and steps of each rank. Processes take their time.
places = st.tuples(st.integers(1, 3), st.sampled_from([0] * 12 + [2]))
legs = st.lists(st.tuples(places, st.integers(0, 12)), max_size=3)


@st.composite
def runs(draw):
    sources = draw(st.lists(st.tuples(files, options), min_size=1, max_size=3))
    weights = st.sampled_from([1, 1.5, 3])
    return {
        "sources": sources,
        "weights": draw(st.one_of(st.none(), st.tuples(*[weights] * len(sources)))),
        "seed": draw(st.integers(0, 2**64 - 1)),
        "stop": draw(st.sampled_from(["first", "all", "repeat"])),
    }


def deliver_run(paths, run, place, state, steps):
    """What each rank delivers, and the state after that."""

    def mix_of(rank, world):
        shape = {"rank": rank, "world_size": world, "threads": 0, "memory_budget": "64MB"}
        datasets = {
            str(number): FastParquetDataset(paths[number], **shape, **options)
            for number, (_, options) in enumerate(run["sources"])
        }
        return fastload.mix(datasets, run["weights"], run["seed"], run["stop"])

    def ids(batch):
        real = batch["id"][batch["__valid__"]] if "__valid__" in batch else batch["id"]
        return (real.tolist(),)

    return deliver(mix_of, ids, place, state, steps)


@settings(
    max_examples=settings.default.max_examples // 4,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(runs(), legs, places)
def test_rows_as_often_as_they_should_come(run, legs, place):
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        paths = []
        for sizes, _ in run["sources"]:
            paths.append(stack.enter_context(tempfile.TemporaryDirectory(dir=directory)))
            write_files(paths[-1], sizes)
        seen, state, delivered = defaultdict(Counter), None, []
        for where, steps in [*legs, (place, None)]:
            ranks, state = deliver_run(paths, run, where, state, steps)
            delivered.append(ranks)
            for source, ids in (batch for batches in ranks for batch in batches):
                seen[source].update(ids)
        worlds = sum(where[0] for where, _ in [*legs, (place, None)])
        for source, (sizes, options) in enumerate(run["sources"]):
            rows, limit = sum(map(sum, sizes)), options["limit"]
            rows = rows if limit is None else min(rows, limit)
            repeats = seen[source].total() - len(seen[source])
            if run["stop"] == "all":
                assert len(seen[source]) == rows
            if run["stop"] == "repeat":
                # With a limit another repetition has other rows.
                assert len(seen[source]) >= rows
            if run["stop"] != "repeat":
                assert repeats <= (worlds if options["uneven"] == "wrap" else 0)
        if all(where == place for where, _ in legs):
            whole, _ = deliver_run(paths, run, place, None, None)
            ends = zip(*delivered, strict=True)
            assert whole == [[batch for batches in parts for batch in batches] for parts in ends]
