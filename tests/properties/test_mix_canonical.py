"""A mix of sources with canonical_ranks: the same steps on any number of ranks."""

import itertools
import json
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from semantics_cases import EXAMPLES
from torch.utils.data import DataLoader

import fastload
from fastload import FastParquetDataset, Pack, TokenBudget
from fastload.plan.permutation import below, stream_key, stream_values

pytestmark = [
    pytest.mark.timeout(1200 + 2 * EXAMPLES),
    # A source may have no batch.
    pytest.mark.filterwarnings("ignore:Expected a batch of each source"),
]

SLICES = 6
WORLDS = [1, 2, 3, 6]
EPOCH = 3
# Tokens of document n are n * 100, n * 100 + 1, ...
TOKENS = 100

KINDS = {
    "plain": {"global_batch_size": 12, "columns": ["id"]},
    "filtered": {"global_batch_size": 6, "columns": ["id"], "filters": [("keep", "==", True)]},
    "packed": {"global_batch_size": 12, "pack": Pack("ids", 16)},
    "stream": {"global_batch_size": 6, "pack": Pack("ids", 16, fit="split")},
    "budget": {"batch_size": TokenBudget("ids", 40, long="alone"), "columns": ["id", "ids"]},
    "weighted": {"global_batch_size": 12, "columns": ["id"], "weights": "weight"},
}


@st.composite
def sources(draw):
    drawn = {
        "kind": draw(st.sampled_from(list(KINDS))),
        "rows": draw(st.one_of(st.integers(0, 30), st.integers(60, 160))),
        "options": {
            "uneven": draw(st.sampled_from(["wrap", "drop", "pad"])),
            "shuffle": draw(st.sampled_from([True, True, False])),
            "shuffle_window": draw(st.sampled_from([20, 150])),
            "drop_last": draw(st.booleans()),
            "seed": draw(st.integers(0, 2**64 - 1)),
        },
    }
    if drawn["kind"] != "weighted":
        drawn["options"]["limit"] = draw(st.sampled_from([None, None, 50]))
    return drawn


@st.composite
def mixes(draw):
    chosen = draw(st.lists(sources(), min_size=1, max_size=3))
    weights = st.tuples(*[st.sampled_from([1, 1.5, 4])] * len(chosen))
    return {
        "sources": chosen,
        "weights": draw(st.one_of(st.none(), weights)),
        "seed": draw(st.integers(0, 2**64 - 1)),
        "stop": draw(st.sampled_from(["first", "all", "repeat"])),
    }


legs = st.lists(st.tuples(st.sampled_from(WORLDS), st.integers(0, 9)), max_size=3)


def write(directory, rows):
    path = Path(directory) / f"{rows}.parquet"
    if path.exists():
        return path
    rng = np.random.default_rng(rows)
    lists = [[n * TOKENS + i for i in range(rng.integers(0, 30))] for n in range(rows)]
    table = pa.table(
        {
            "id": pa.array(np.arange(rows)),
            "keep": pa.array(rng.random(rows) < 0.7),
            "ids": pa.array(lists, pa.list_(pa.int32())),
            "weight": pa.array(rng.integers(1, 4, rows).astype(np.float64)),
        }
    )
    pq.write_table(table, path, row_group_size=17)
    return path


def open_source(directory, source, rank=0, world=1, **options):
    return FastParquetDataset(
        write(directory, source["rows"]),
        canonical_ranks=SLICES,
        rank=rank,
        world_size=world,
        threads=0,
        memory_budget="64MB",
        **{**KINDS[source["kind"]], **source["options"], **options},
    )


def open_mix(directory, mix, rank=0, world=1, state=None):
    datasets = {
        str(number): open_source(directory, source, rank, world)
        for number, source in enumerate(mix["sources"])
    }
    mixed = fastload.mix(datasets, mix["weights"], mix["seed"], mix["stop"])
    if state is not None:
        mixed.load_state_dict(state)
    mixed.set_epoch(EPOCH)
    return mixed


def units_of(batch):
    """The rows or packed rows of a batch, each a tuple of numbers."""
    if "ids__document" in batch:
        rows = zip(batch["ids"], batch["ids__document"] >= 0, strict=True)
        return [tuple(row[real].tolist()) for row, real in rows]
    return [(n,) for n in batch["id"].tolist()]


def steps_of(ranks):
    """The steps that ranks deliver together: source and units of each."""
    steps = []
    for batches in zip(*ranks, strict=True):
        assert len({source for source, _ in batches}) == 1
        steps.append((batches[0][0], sorted(unit for _, units in batches for unit in units)))
    return steps


class Oracle:
    """The steps of a mix, by the definition: draws by a loop, and steps of each source alone."""

    def __init__(self, directory, mix):
        self._directory = directory
        self._mix = mix
        self._known = {}

    def steps_of(self, number, repetition):
        """The steps of a repetition of a source."""
        name = number, repetition
        if name not in self._known:
            source = self._mix["sources"][number]
            seed = source["options"]["seed"]
            own = stream_key(seed, repetition) if repetition else seed
            with open_source(self._directory, source, seed=own) as dataset:
                dataset.set_epoch(EPOCH)
                steps = [sorted(units_of(batch)) for batch in dataset]
            self._known[name] = steps or (self.steps_of(number, 0) if repetition else [])
        return self._known[name]

    def steps(self):
        mix, numbers = self._mix, range(len(self._mix["sources"]))
        key = stream_key(mix["seed"], EPOCH, 2, 0)
        whole = [len(self.steps_of(number, 0)) for number in numbers]
        given = mix["weights"] or whole
        weights = self._integers(given)
        used = [0] * len(whole)
        queues = [self._queue(number) for number in numbers]
        steps = []
        while any(weights):
            if mix["stop"] == "all":
                weights = [w if used[n] < whole[n] else 0 for n, w in enumerate(weights)]
            if mix["stop"] == "repeat":
                weights = [w if whole[n] else 0 for n, w in enumerate(weights)]
            done = all(u >= n for u, n in zip(used, whole, strict=True))
            if not any(weights) or (mix["stop"] == "repeat" and done):
                break
            total = np.array([sum(weights)], np.uint64)
            value = int(below(stream_values(key, 1, len(steps)), total)[0])
            ends = list(itertools.accumulate(weights))
            number = next(n for n, end in enumerate(ends) if value < end)
            if mix["stop"] == "first" and used[number] == whole[number]:
                break
            used[number] += 1
            steps.append((str(number), next(queues[number])))
        return steps

    def _queue(self, number):
        for repetition in itertools.count():
            yield from self.steps_of(number, repetition)

    def _integers(self, given):
        if not any(given):
            return [0] * len(given)
        scaled = [weight / max(given) for weight in given]
        return [max(1, int(w / sum(scaled) * 2**31)) if w else 0 for w in scaled]


def check(directory, mix, legs, expected, workers=0):
    """Check each leg, and one more to the end; steps of workers come in an order of their own."""
    state, done = None, 0
    for world, steps in [*legs, (6, len(expected))]:
        steps = min(steps, len(expected) - done)
        ranks, states = [], []
        for rank in range(world):
            with open_mix(directory, mix, rank, world, state) as mixed:
                assert len(mixed) == len(expected)
                after, batches, loader = mixed.state_dict(), [], mixed
                if workers:
                    loader = DataLoader(mixed, batch_size=None, num_workers=workers, timeout=60)
                iterator = iter(loader)
                for _ in range(steps):
                    batch = next(iterator)
                    after = mixed.state_dict(after=batch)
                    batches.append((batch.source, units_of(batch)))
                if steps == len(expected) - done:
                    assert next(iterator, None) is None
                ranks.append(batches)
                states.append(json.loads(json.dumps(after)))
        assert steps_of(ranks) == expected[done : done + steps]
        assert all(own == states[0] for own in states)
        state, done = states[0], done + steps
        if done == len(expected):
            break
    return state


def check_rows_of(directory, mix, state, expected):
    with open_mix(directory, mix, state=state) as mixed:
        for number, (source, units) in enumerate(expected):
            found = mixed.rows_of(number)
            assert set(found["source"]) <= {source}
            packed = mix["sources"][int(source)]["kind"] in ("packed", "stream")
            rows = sorted(n // TOKENS if packed else n for unit in units for n in unit)
            if packed:
                assert set(found["row"].tolist()) == set(rows)
            else:
                assert sorted(found["row"].tolist()) == rows


@settings(
    max_examples=max(1, EXAMPLES // 2),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(mixes(), legs)
def test_steps_are_those_of_the_definition(mix, legs):
    with tempfile.TemporaryDirectory() as directory:
        expected = Oracle(directory, mix).steps()
        state = check(directory, mix, legs, expected)
        check_rows_of(directory, mix, state, expected)


def fixed(stop, weights=(1, 2, 1)):
    options = {"uneven": "wrap", "shuffle": True, "shuffle_window": 60, "seed": 4}
    kinds = [("plain", 150), ("packed", 80), ("filtered", 60)]
    chosen = [{"kind": kind, "rows": rows, "options": options} for kind, rows in kinds]
    return {"sources": chosen, "weights": weights, "seed": 8, "stop": stop}


@pytest.mark.parametrize("stop", ["first", "all", "repeat"])
@pytest.mark.parametrize("legs", [[(3, 4), (1, 3), (2, 5)], [(2, 3), (6, 0), (2, 2)]])
def test_workers(tmp_path, stop, legs):
    mix = fixed(stop)
    with open_mix(tmp_path, mix) as mixed:
        loader = DataLoader(mixed, batch_size=None, num_workers=2, timeout=60)
        expected = steps_of([[(batch.source, units_of(batch)) for batch in loader]])
    oracle = Oracle(tmp_path, mix).steps()
    assert [source for source, _ in expected] == [source for source, _ in oracle]
    if stop == "all":
        assert sorted(expected) == sorted(oracle)
    state = check(tmp_path, mix, legs, expected, workers=2)
    check_rows_of(tmp_path, mix, state, expected)
