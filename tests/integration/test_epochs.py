"""Each pass is of the next epoch, however the one before ended."""

import copy
import itertools
import pickle

import pytest
from torch.utils.data import DataLoader

from fastload import DataWait, DevicePrefetcher, FastParquetDataset, SourceChangedError, mix
from support.sample_files import away, ids_of, write_sample

ROWS = 1000


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("epochs") / "sample.parquet", ROWS)


def dataset_of(path, **options):
    options = {"batch_size": 64, "shuffle": True, "shuffle_window": 300, **options}
    return FastParquetDataset(path, threads=2, **options)


@pytest.fixture(scope="module")
def orders(path):
    """The ids of each epoch's rows, from datasets that deliver no other."""
    orders = []
    for epoch in range(4):
        with dataset_of(path) as dataset:
            dataset.set_epoch(epoch)
            orders.append(ids_of(dataset))
    assert len({tuple(order) for order in orders}) == 4
    assert all(sorted(order) == list(range(ROWS)) for order in orders)
    return orders


@pytest.fixture
def dataset(path):
    with dataset_of(path) as dataset:
        yield dataset


@pytest.mark.parametrize("wrap", [iter, lambda dataset: DataLoader(dataset, batch_size=None)])
def test_each_pass_advances(dataset, orders, wrap):
    assert [ids_of(wrap(dataset)) for _ in range(3)] == orders[:3]


def test_one_loader_for_all_passes(dataset, orders):
    loader = DataLoader(dataset, batch_size=None)
    assert len(loader) == len(dataset) == 16
    assert [ids_of(loader) for _ in range(3)] == orders[:3]


def test_without_shuffle_all_epochs_are_alike(path):
    with dataset_of(path, shuffle=False) as dataset:
        assert ids_of(dataset) == ids_of(dataset) == list(range(ROWS))


def test_set_epoch(dataset, orders):
    dataset.set_epoch(2)
    assert ids_of(dataset) == orders[2]
    assert ids_of(dataset) == orders[3]
    dataset.set_epoch(1)
    dataset.set_epoch(0)
    assert ids_of(dataset) == orders[0]


def test_set_epoch_takes_effect_at_the_next_pass(dataset, orders):
    running = iter(dataset)
    first = next(running)
    dataset.set_epoch(3)
    assert ids_of([first, *running]) == orders[0]
    assert ids_of(dataset) == orders[3]


def test_abandoned_pass_counts(dataset, orders):
    next(iter(dataset))
    iter(dataset)
    assert ids_of(dataset) == orders[2]


def test_a_pass_whose_first_batch_fails_takes_no_epoch(tmp_path, orders):
    moved = write_sample(tmp_path / "sample.parquet", ROWS)
    with dataset_of(moved) as dataset:
        with away(moved):
            for _ in range(2):
                running = iter(dataset)
                for _ in range(2):
                    with pytest.raises(SourceChangedError):
                        next(running)
        state = dataset.state_dict()
        assert (state["epoch"], state["progress"]) == (0, [])
        assert [ids_of(dataset) for _ in range(2)] == orders[:2]
    with dataset_of(moved) as fresh:
        fresh.load_state_dict(state)
        assert ids_of(fresh) == orders[0]


def test_a_pass_of_a_mix_whose_first_batch_fails_takes_no_epoch(path, tmp_path):
    moved = write_sample(tmp_path / "sample.parquet", ROWS)
    with mix({"a": dataset_of(path), "b": dataset_of(path)}) as mixed:
        expected = [ids_of(mixed) for _ in range(2)]
    with mix({"a": dataset_of(moved), "b": dataset_of(moved)}) as mixed:
        with away(moved), pytest.raises(SourceChangedError):
            next(iter(mixed))
        assert [ids_of(mixed) for _ in range(2)] == expected


def test_a_resumed_pass_whose_first_batch_fails_resumes_again(tmp_path, orders):
    moved = write_sample(tmp_path / "sample.parquet", ROWS)
    with dataset_of(moved) as dataset:
        state = dataset.state_dict(after=next(iter(dataset)))
    with dataset_of(moved) as dataset:
        dataset.load_state_dict(state)
        with away(moved), pytest.raises(SourceChangedError):
            next(iter(dataset))
        dataset.set_epoch(0)  # keeps the progress
        assert ids_of(dataset) == orders[0][64:]
        assert ids_of(dataset) == orders[1]


def test_a_pass_that_fails_after_its_first_batch_takes_its_epoch(dataset, orders, monkeypatch):
    running = iter(dataset)
    next(running)
    with monkeypatch.context() as patched:
        patched.setattr(running._feed, "next", _warns)
        with pytest.raises(UserWarning):
            next(running)
    assert ids_of(dataset) == orders[1]


def test_an_epoch_that_was_set_stays_when_a_first_batch_fails(tmp_path, orders):
    moved = write_sample(tmp_path / "sample.parquet", ROWS)
    with dataset_of(moved) as dataset:
        with away(moved):
            running = iter(dataset)
            dataset.set_epoch(1)
            with pytest.raises(SourceChangedError):
                next(running)
        assert ids_of(dataset) == orders[1]


def test_a_pass_that_goes_on_after_its_first_batch_failed_takes_its_epoch(
    dataset, orders, monkeypatch
):
    running = iter(dataset)
    with monkeypatch.context() as patched:
        patched.setattr(running._feed, "next", _warns)  # a warning that is raised as an error
        with pytest.raises(UserWarning):
            next(running)
    assert ids_of(running) == orders[0]
    assert ids_of(dataset) == orders[1]


def _warns(mark):
    raise UserWarning


def test_second_iter_ends_the_first(dataset, orders):
    first = iter(dataset)
    begun = [next(first), next(first)]
    second = iter(dataset)
    head = next(second)
    for _ in range(3):
        with pytest.raises(
            RuntimeError,
            match=r"A second iter\(\) of the dataset ended this pass after 2 batches: .* iterate "
            r"over a copy: itertools.islice\(copy.copy\(dataset\), 5\)",
        ):
            next(first)
    assert ids_of([head, *second]) == orders[1]
    assert ids_of(begun) == orders[0][:128]


@pytest.mark.parametrize("options", [{}, {"preprocess": dict}])
@pytest.mark.parametrize(
    "wrap",
    [
        lambda dataset: dataset,
        lambda dataset: DataLoader(dataset, batch_size=None),
        DataWait,
        lambda dataset: DevicePrefetcher(dataset, "cpu"),
        lambda dataset: DataWait(DevicePrefetcher(DataLoader(dataset, batch_size=None), "meta")),
    ],
)
def test_a_loop_whose_pass_was_ended_raises(path, options, wrap):
    """The loop over a loader ends with an error, and never early without one."""
    with dataset_of(path, **options) as dataset:
        loader = wrap(dataset)
        with pytest.raises(RuntimeError, match=r"A second iter\(\) of .* ended this pass after"):
            [next(iter(loader)) for _ in loader]
        with pytest.raises(RuntimeError, match=r"A second iter\(\) of .* ended this pass after"):
            list(zip(loader, loader, strict=True))
        assert len(list(loader)) == len(dataset)


@pytest.mark.parametrize("persistent", [False, True])
def test_workers_that_drop_a_pass_stay_quiet(path, persistent):
    with dataset_of(path) as dataset:
        loader = DataLoader(dataset, batch_size=None, num_workers=2, persistent_workers=persistent)
        for taken in (3, 1):
            assert len(list(itertools.islice(loader, taken))) == taken
        assert sorted(ids_of(loader)) == list(range(ROWS))


def test_a_copy_is_read_while_a_pass_runs(dataset, orders):
    running = iter(dataset)
    first = next(running)
    with copy.copy(dataset) as other:
        assert ids_of(itertools.islice(other, 2)) == orders[1][:128]
    assert ids_of([first, *running]) == orders[0]
    assert ids_of(dataset) == orders[1]


def test_an_iterator_that_its_user_closed_is_exhausted(path):
    with dataset_of(path) as dataset:
        running = iter(dataset)
        next(running)
        running.close()
        iter(dataset)
        assert list(running) == []


def test_exhausted_pass_stays_so(dataset):
    running = iter(dataset)
    assert sum(batch.rows for batch in running) == ROWS
    iter(dataset)
    dataset.close()
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(running)


def test_length_is_of_the_whole_epoch(dataset):
    assert len(dataset) == 16
    running = iter(dataset)
    for _ in running:
        assert len(dataset) == 16
    assert len(dataset) == 16


def test_pickled_copy_goes_on_by_itself(dataset, orders):
    ids_of(dataset)
    with pickle.loads(pickle.dumps(dataset)) as copy:
        assert ids_of(copy) == orders[1]
        assert ids_of(copy) == orders[2]
    assert ids_of(dataset) == orders[1]


def test_closed_dataset(dataset, orders):
    running = iter(dataset)
    batch = next(running)
    dataset.close()
    dataset.close()
    assert ids_of([batch]) == orders[0][:64]
    with pytest.raises(RuntimeError, match=r"close\(\) of the dataset ended this pass after 1 bat"):
        next(running)
    calls = (dataset.__iter__, dataset.head, dataset.warm_cache, lambda: dataset.take([0]))
    for call in calls:
        with pytest.raises(RuntimeError, match="Expected an open dataset, got one that was closed"):
            call()


@pytest.mark.parametrize(
    ("epoch", "error"), [(-1, ValueError), (2**24, ValueError), (1.0, TypeError), (True, TypeError)]
)
def test_bad_epoch(dataset, epoch, error):
    with pytest.raises(error, match="Expected an epoch"):
        dataset.set_epoch(epoch)


@pytest.mark.parametrize("loading", [{}, {"num_workers": 2, "persistent_workers": True}])
def test_an_epoch_longer_than_one_before_is_no_fault(path, loading):
    with dataset_of(path, batch_size=10, weights="price") as dataset:
        loader, steps = DataLoader(dataset, batch_size=None, **loading), []
        for epoch in range(12):
            dataset.set_epoch(epoch)
            steps.append(len(dataset))
        dataset.set_epoch(steps.index(min(steps)))
        assert len(loader) == min(steps) < max(steps)
        dataset.set_epoch(steps.index(max(steps)))
        assert sum(1 for _ in loader) == max(steps)  # torch does not warn of a wrong len()
