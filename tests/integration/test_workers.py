"""Behind the worker processes of a DataLoader."""

import contextlib
import gc
import multiprocessing
from itertools import islice

import pytest
from torch.utils.data import DataLoader

from fastload import FastParquetDataset, SourceChangedError
from support.sample_files import away, ids_of, write_sample
from support.worker_errors import worker_raises

ROWS = 1000
BATCH = 64
WORKERS = 2
# What wakes a test from a worker that hangs.
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("workers") / "sample.parquet", ROWS)


def dataset_of(path, **options):
    options = {"batch_size": BATCH, "shuffle": True, "shuffle_window": 300, **options}
    return FastParquetDataset(path, threads=1, memory_budget="64MB", **options)


def loader_of(dataset, **options):
    options = {"batch_size": None, "num_workers": WORKERS, **options}
    return DataLoader(dataset, timeout=TIMEOUT_S, **options)


@pytest.fixture
def dataset(path):
    with dataset_of(path) as dataset:
        yield dataset


def in_turns(batches, workers=WORKERS):
    """The batches of an epoch in the order of workers that own contiguous slices."""
    share, more = divmod(len(batches), workers)
    starts = [w * share + min(w, more) for w in range(workers + 1)]
    turns = [batches[starts[w] : starts[w + 1]] for w in range(workers)]
    return [turn[k] for k in range(share + 1) for turn in turns if k < len(turn)]


@pytest.fixture(scope="module")
def epochs(path):
    """The batches of ids of three epochs as two workers deliver them."""
    with dataset_of(path) as dataset:
        return [in_turns([batch["id"].tolist() for batch in dataset]) for _ in range(3)]


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_every_row_once_and_epochs_advance(dataset, epochs, context, persistent):
    loader = loader_of(dataset, multiprocessing_context=context, persistent_workers=persistent)
    passes = 3 if persistent or context == "fork" else 2
    for epoch in range(passes):
        batches = list(loader)
        assert [batch["id"].tolist() for batch in batches] == epochs[epoch]
        assert sorted(ids_of(batches)) == list(range(ROWS))
        assert batches[0]["name"].tolist() == [f"row {row}" for row in batches[0]["id"].tolist()]


@pytest.mark.parametrize("persistent", [False, True])
def test_set_epoch_reaches_workers(dataset, epochs, persistent):
    loader = loader_of(dataset, persistent_workers=persistent)
    for epoch in (2, 0):
        dataset.set_epoch(epoch)
        assert [batch["id"].tolist() for batch in loader] == epochs[epoch]
    assert [batch["id"].tolist() for batch in loader] == epochs[1]


@pytest.mark.parametrize("persistent", [False, True])
def test_abandoned_pass_counts(dataset, epochs, persistent):
    loader = loader_of(dataset, persistent_workers=persistent)
    next(iter(loader))
    assert [batch["id"].tolist() for batch in loader] == epochs[1]


@pytest.mark.parametrize("persistent", [False, True])
def test_a_pass_whose_first_batch_fails_takes_no_epoch(tmp_path, epochs, persistent):
    moved = write_sample(tmp_path / "sample.parquet", ROWS)
    with dataset_of(moved) as dataset:
        loader = loader_of(dataset, persistent_workers=persistent)
        with away(moved):
            for _ in range(2):
                with pytest.raises(SourceChangedError):
                    next(iter(loader))
        for epoch in epochs[:2]:
            assert [batch["id"].tolist() for batch in loader] == epoch


def test_workers_end_with_an_error_that_the_program_catches(tmp_path):
    moved = write_sample(tmp_path / "sample.parquet", ROWS)
    before = set(multiprocessing.active_children())
    with dataset_of(moved) as dataset, away(moved):
        gc.disable()
        try:
            with contextlib.suppress(SourceChangedError):
                next(iter(loader_of(dataset)))
            assert set(multiprocessing.active_children()) == before
        finally:
            gc.enable()


def test_passes_here_and_in_workers_share_the_epoch(dataset, epochs):
    ids_of(dataset)
    assert [batch["id"].tolist() for batch in loader_of(dataset)] == epochs[1]
    assert in_turns([batch["id"].tolist() for batch in dataset]) == epochs[2]


def test_state_needs_a_batch(dataset):
    ids_of(dataset)  # a pass of this process does not stand in for that of the workers
    batches = list(loader_of(dataset))
    with pytest.raises(RuntimeError, match=r"Expected state_dict\(after=batch\), got no batch"):
        dataset.state_dict()
    assert dataset.state_dict(after=batches[2])["progress"] == [[1, WORKERS, 3]]


@pytest.mark.parametrize("delivered", [1, 2, 7, 15])
def test_resume_goes_on_in_the_same_turns(path, epochs, delivered):
    with dataset_of(path) as dataset:
        batches = list(islice(loader_of(dataset), delivered))
        assert [batch["id"].tolist() for batch in batches] == epochs[0][:delivered]
        state = dataset.state_dict(after=batches[-1])
    with dataset_of(path) as dataset:
        dataset.load_state_dict(state)
        loader = loader_of(dataset)
        assert [batch["id"].tolist() for batch in loader] == epochs[0][delivered:]
        # The next epoch is whole, although its workers are forked with the loaded state.
        assert [batch["id"].tolist() for batch in loader] == epochs[1]
        dataset.set_epoch(2)
        assert [batch["id"].tolist() for batch in loader] == epochs[2]


def test_resume_with_another_number_of_workers(path):
    with dataset_of(path) as dataset:
        batches = list(islice(loader_of(dataset), 5))
        state = dataset.state_dict(after=batches[-1])
    for workers in (0, 3):
        with dataset_of(path) as dataset:
            dataset.load_state_dict(state)
            rest = list(loader_of(dataset, num_workers=workers) if workers else dataset)
        assert sorted(ids_of(batches) + ids_of(rest)) == list(range(ROWS))


def test_resume_at_an_epochs_end(path, epochs):
    with dataset_of(path) as dataset:
        state = dataset.state_dict(after=list(loader_of(dataset))[-1])
    with dataset_of(path) as dataset:
        dataset.load_state_dict(state)
        loader = loader_of(dataset)
        for epoch in (1, 2):
            assert [batch["id"].tolist() for batch in loader] == epochs[epoch]


@pytest.mark.parametrize("options", [{}, {"batch_size": 8}, {"num_workers": WORKERS}])
def test_batching_batches_is_refused(dataset, options):
    loader = DataLoader(dataset, **options)
    with worker_raises(TypeError, match=r"write DataLoader\(ds, batch_size=None\)"):
        next(iter(loader))


def test_single_rows_are_refused_with_what_to_write(path):
    with pytest.raises(TypeError, match=r"got None: .* batch\.iter_rows\(\) .*by_index\(\), batch"):
        dataset_of(path, batch_size=None)


def test_more_workers_than_batches(path):
    with dataset_of(path, limit=BATCH + 1) as dataset:
        assert len(ids_of(loader_of(dataset, num_workers=4))) == BATCH + 1
