"""An epoch end to end: each row as `uneven` says, however often and wherever it is resumed."""

import tempfile
from collections import Counter
from itertools import islice

import pytest
from hypothesis import HealthCheck, given, settings
from semantics_cases import EXAMPLES, runs
from torch.utils.data import DataLoader

from fastload import FastParquetDataset
from support.sample_files import write_files

pytestmark = pytest.mark.timeout(1200 + 2 * EXAMPLES)


def batches_of(dataset, leg, steps):
    """The ids of each batch: all of them, and those that are not marked as repeats."""
    loader = dataset
    if leg.workers:
        loader = DataLoader(dataset, batch_size=None, num_workers=leg.workers, timeout=60)
    for batch in islice(loader, steps):
        real = batch["id"][batch["__valid__"]] if "__valid__" in batch else batch["id"]
        yield batch, batch["id"].tolist(), real.tolist()


def deliver(paths, run, leg, state, steps):
    """What each rank delivers, and the state after that."""
    ranks, states = [], []
    for rank in range(leg.world):
        with FastParquetDataset(
            paths, rank=rank, world_size=leg.world, threads=0, memory_budget="64MB", **run.options
        ) as dataset:
            if state is not None:
                dataset.load_state_dict(state)
            dataset.set_epoch(run.epoch)
            before = 0 if state is None else sum(leg[2] for leg in state["progress"])
            expected = len(dataset) - before
            after, delivered, one = dataset.state_dict(), [], None
            for one in batches_of(dataset, leg, steps):
                delivered.append(one[1:])
            if delivered:
                after = dataset.state_dict(after=one[0])
        assert len(delivered) == (expected if steps is None else min(steps, expected))
        ranks.append(delivered)
        states.append(after)
    counts = [len(delivered) for delivered in ranks]
    if run.options["uneven"] != "keep":
        assert len(set(counts)) == 1
        assert all(other == states[0] for other in states)
    # One that goes on for longer than the others.
    return ranks, states[counts.index(max(counts))]


def check_union(run, legs):
    """`legs`: the leg and what each rank delivered, of each leg."""
    uneven, batch_size = run.options["uneven"], run.options["batch_size"]
    seen, real = Counter(), Counter()
    for _, ranks in legs:
        for delivered in ranks:
            for ids, valid in delivered:
                assert len(ids) <= batch_size
                seen.update(ids)
                real.update(valid)
    assert len(seen) <= run.rows
    lost = run.rows - len(real)
    worlds = sum(leg.world for leg, _ in legs)
    allowed = worlds if uneven == "drop" else 0
    if run.options["drop_last"]:
        allowed += worlds * batch_size
    assert lost <= allowed
    if uneven == "keep" and not run.options["drop_last"]:
        assert lost == 0
    repeats = sum(real.values()) - len(real)
    assert repeats <= (worlds if uneven == "wrap" else 0)
    if uneven == "pad":
        assert sum(seen.values()) - sum(real.values()) <= worlds


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(runs())
def test_each_row_as_often_as_it_should_be(run):
    with tempfile.TemporaryDirectory() as directory:
        paths = write_files(directory, run.files)
        state, legs = None, []
        for leg in run.legs:
            ranks, state = deliver(paths, run, leg, state, leg.steps)
            legs.append((leg, ranks))
        check_union(run, legs)
        first = run.legs[0]
        if all((leg.world, leg.workers) == (first.world, first.workers) for leg in run.legs):
            whole, _ = deliver(paths, run, first, None, None)
            resumed = [
                [batch for _, ranks in legs for batch in ranks[rank]] for rank in range(first.world)
            ]
            assert resumed == whole
