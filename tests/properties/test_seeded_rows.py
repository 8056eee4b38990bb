"""A row has one seed in an epoch, whatever reads it, and steps give each row what is its own."""

import tempfile
from itertools import islice

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from semantics_cases import EXAMPLES, runs
from torch.utils.data import DataLoader

from fastload import FastParquetDataset, per_row
from fastload.plan import permutation
from support.sample_files import write_files

pytestmark = pytest.mark.timeout(1200 + 2 * EXAMPLES)


def seeds_of(run, step):
    """By row number, as it is defined."""
    rows = [sum(groups) for groups in run.files]
    file = np.repeat(np.arange(len(rows), dtype=np.int32), rows)
    row = np.concatenate([np.arange(count) for count in rows])
    key = permutation.step_key(run.options["seed"], run.epoch, step)
    return permutation.seeds_of(key, file, row)


def delivered(paths, run, leg, state, **options):
    """The batches of each rank, and the state after them."""
    ranks, after = [], state
    for rank in range(leg.world):
        with FastParquetDataset(
            paths,
            rank=rank,
            world_size=leg.world,
            threads=0,
            memory_budget="64MB",
            **options,
            **run.options,
        ) as dataset:
            if state is not None:
                dataset.load_state_dict(state)
            dataset.set_epoch(run.epoch)
            loader = dataset
            if leg.workers:
                loader = DataLoader(dataset, None, num_workers=leg.workers, timeout=60)
            for batch in islice(loader, leg.steps):
                if rank == 0:
                    after = dataset.state_dict(after=batch)
                ranks.append(batch)
    return ranks, after


@settings(
    max_examples=max(1, EXAMPLES // 2),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(runs(), st.integers(0, 2))
def test_seeds_of_rows(run, threads):
    expected, expected_of_row = seeds_of(run, 0), seeds_of(run, 1)
    half = per_row(lambda _, seed: seed // 2, "id", "half", threads=threads, seeds=True)
    options = {
        "preprocess": per_row(lambda number: 3 * number, "id", "thrice", threads=threads),
        "augment": [lambda batch, seeds: {"seed": seeds}, half],
    }
    with tempfile.TemporaryDirectory() as directory:
        paths = write_files(directory, run.files)
        state = None
        for leg in run.legs:
            batches, state = delivered(paths, run, leg, state, **options)
            for batch in batches:
                names = {"id", "seed", "half", "thrice", *({"__valid__"} & batch.keys())}
                assert set(batch) == names
                assert np.array_equal(batch["seed"].numpy(), expected[batch["id"].numpy()])
                assert np.array_equal(batch["half"], expected_of_row[batch["id"].numpy()] // 2)
                assert batch["thrice"].tolist() == (3 * batch["id"]).tolist()
