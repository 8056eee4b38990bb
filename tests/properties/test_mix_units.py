"""A mix of plain and packed datasets and ones by tokens: units come as often as they should."""

import tempfile
from collections import Counter
from functools import partial
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from packed_cases import EXAMPLES, Oracle, Run, budgets, files, options, packs

import fastload
from fastload import FastParquetDataset, Pack
from fastload.plan.permutation import stream_key
from support.deliveries import deliver, steps_to_ask

pytestmark = pytest.mark.timeout(1200 + EXAMPLES)
# World size, workers and steps of each rank. Processes take their time.
places = st.tuples(st.integers(1, 3), st.sampled_from([0] * 24 + [2]))
legs = st.lists(st.tuples(places, st.integers(0, 8)), max_size=2)
# Several row groups: in another order, they make other windows.
row_groups = st.lists(st.integers(0, 12), min_size=3, max_size=9)
few_files = st.lists(st.lists(row_groups, min_size=3, max_size=5), min_size=1, max_size=1)
small_packs = st.builds(Pack, st.just("t"), st.just(12), along=st.just(["l"]))


@st.composite
def sources(draw):
    spec = draw(st.one_of(st.none(), packs, small_packs, budgets))
    groups = draw(st.one_of(files, few_files, few_files))
    # Padding is marked, so that a unit that came again on purpose can be told from others.
    drawn = {**draw(options()), "uneven": "pad", "drop_last": False}
    # Repetitions in other orders have other numbers of units.
    drawn["shuffle"] = draw(st.sampled_from([True, True, True, False]))
    drawn["shuffle_window"] = draw(st.sampled_from([3, 8, 20]))
    if spec is None:
        drawn = {**drawn, "filters": None, "limit": None, "columns": ["id"]}
    if spec is None or isinstance(spec, Pack):
        drawn["batch_size"] = draw(st.integers(1, 3))
    return Run(groups, spec, drawn, [], 3)


class Source:
    """A source of a mix, in a folder of its own.

    Attributes:
        documents: the rows of the files.
    """

    def __init__(self, run, directory):
        self._run = run
        self._paths = run.write(directory)
        self.documents = run.documents
        self._document_of = {t: n for n, d in enumerate(self.documents) for t in d.tokens}

    def open(self, rank, world):
        arguments = self._run.options if self._run.spec is None else self._run.arguments
        if not self._run.packed:
            arguments = {**arguments, "columns": ["id"]}
            if self._run.spec is not None:
                arguments["columns"] = ["id", "t"]
        return FastParquetDataset(
            self._paths, rank=rank, world_size=world, threads=0, memory_budget="64MB", **arguments
        )

    def units(self, repetition):
        """The units of a repetition, as the definition has them."""
        if self._run.spec is None:
            return Counter((n,) for n in range(len(self.documents)))
        seed = self._run.options["seed"]
        drawn = {**self._run.options, "seed": stream_key(seed, repetition) if repetition else seed}
        oracle = Oracle(Run(self._run.files, self._run.spec, drawn, [], self._run.epoch))
        if self._run.packed:
            return Counter(
                tuple(t for d, first, size in row for t in d.tokens[first : first + size])
                for row in oracle.units
            )
        numbers = {(d.file, d.row): n for n, d in enumerate(self.documents)}
        return Counter(tuple(numbers[d.file, d.row] for d in unit) for unit in oracle.units)

    def units_of(self, batch):
        """The units of a batch that are no padding."""
        valid = batch["__valid__"].tolist()
        if self._run.packed:
            rows = zip(batch["t"].tolist(), batch["t__document"].tolist(), valid, strict=True)
            return [
                tuple(t for t, d in zip(tokens, documents, strict=True) if d >= 0)
                for tokens, documents, real in rows
                if real
            ]
        if self._run.spec is None:
            return [(n,) for n, real in zip(batch["id"].tolist(), valid, strict=True) if real]
        assert len(set(valid)) == 1
        return [tuple(batch["id"].tolist())] if valid[0] else []

    def rows_of(self, batch):
        """The file and row of each row, or piece of a row, of a batch."""
        if not self._run.packed:
            numbers = batch["id"].tolist()
        else:
            rows = zip(batch["t"].tolist(), batch["t__document"].tolist(), strict=True)
            numbers = [
                self._document_of[tokens[documents.index(document)]]
                for tokens, documents in rows
                for document in range(max(documents) + 1)
            ]
        return [(self.documents[n].file, self.documents[n].row) for n in numbers]


def mix_of(opened, run, rank, world):
    datasets = {str(number): source.open(rank, world) for number, source in enumerate(opened)}
    mixed = fastload.mix(datasets, run["weights"], run["seed"], run["stop"])
    mixed.set_epoch(3)
    return mixed


def deliver_run(opened, run, place, state, steps):
    """What each rank delivers, and the state after the last batch."""

    def content_of(batch):
        number = int(batch.source)
        if "__source__" in batch:
            assert batch["__source__"].tolist() == [number] * len(batch["__valid__"])
        return opened[number].units_of(batch), opened[number].rows_of(batch)

    return deliver(partial(mix_of, opened, run), content_of, place, state, steps)


def check_units(source, seen, stop):
    """Check that units come from whole repetitions, and from a part of the last one."""
    first = source.units(0)
    for repetition in count():
        units = source.units(repetition) or first
        if not units or units - seen:
            break
        seen = seen - units
        if stop != "repeat":
            assert not seen
            return
    assert not seen - units
    assert stop == "first" or repetition or not first


def check_steps(found, steps):
    """Compare what `rows_of` says with the rows of the steps and their sources."""
    got = zip(*(found[name].tolist() for name in ("source", "file", "row")), strict=True)
    assert list(got) == [
        (str(number), *row) for step in steps for number, _, rows in step for row in rows
    ]


@st.composite
def runs(draw):
    chosen = draw(st.lists(sources(), min_size=1, max_size=4))
    weights = st.sampled_from([1, 1.5, 12])
    if draw(st.booleans()):
        # The other sources are repeated while a long one lasts.
        plain = {**draw(options()), "uneven": "pad", "drop_last": False, "batch_size": 2}
        plain |= {"filters": None, "limit": None, "columns": ["id"]}
        rows = draw(st.integers(40, 80))
        return {
            "sources": [*chosen, Run([[[None] * rows]], None, plain, [], 3)],
            "weights": [1] * (len(chosen) + 1),
            "seed": draw(st.integers(0, 2**64 - 1)),
            "stop": "repeat",
        }
    return {
        "sources": chosen,
        "weights": draw(st.one_of(st.none(), st.tuples(*[weights] * len(chosen)))),
        "seed": draw(st.integers(0, 2**64 - 1)),
        "stop": draw(st.sampled_from(["first", "all", "repeat", "repeat"])),
    }


@pytest.mark.filterwarnings("ignore:Expected a batch of each source")
@settings(
    max_examples=max(1, EXAMPLES * 2 // 5),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(runs(), legs, places)
def test_units_as_often_as_they_should_come(run, legs, place):
    with tempfile.TemporaryDirectory() as directory:
        opened = [Source(source, tempfile.mkdtemp(dir=directory)) for source in run["sources"]]
        state, delivered = None, []
        for where, steps in [*legs, (place, None)]:
            ranks, state = deliver_run(opened, run, where, state, steps)
            delivered.append(ranks)
        steps = [step for ranks in delivered for step in zip(*ranks, strict=True)]
        for number, source in enumerate(opened):
            of_source = [units for step in steps for own, units, _ in step if own == number]
            check_units(source, Counter(u for units in of_source for u in units), run["stop"])
        with mix_of(opened, run, 0, 1) as mixed:
            mixed.load_state_dict(state)
            mixed.set_epoch(3)
            check_steps(mixed.rows_of(range(len(steps))), steps)
            # Some steps alone: what is found of all does not say where each begins.
            for step in steps_to_ask(range(len(steps))):
                check_steps(mixed.rows_of(step), steps[step : step + 1])
        if all(where == place for where, _ in legs):
            whole, _ = deliver_run(opened, run, place, None, None)
            ends = zip(*delivered, strict=True)
            assert whole == [[batch for batches in parts for batch in batches] for parts in ends]
