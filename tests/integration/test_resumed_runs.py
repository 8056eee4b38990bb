"""A run that is stopped and resumed, on whatever machine, is the run that never stopped."""

import itertools
from functools import partial
from itertools import islice

import pytest
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from fastload import FastParquetDataset
from fastload.testing import assert_ranks_agree, assert_resumes_exactly, assert_same_batches
from support.sample_files import ids_of, write_files, write_sample

ROWS = 777
TIMEOUT_S = 60
# Machines that a run may go on on.
MACHINES = itertools.cycle(
    [
        {"threads": 1, "prefetch": 0},
        {"threads": 4, "prefetch": 16, "memory_budget": "1GB"},
        {"threads": 0, "memory_budget": "48MB"},
    ]
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("resumed") / "sample.parquet", ROWS)


def dataset_of(path, **options):
    options = {"batch_size": 50, "shuffle": True, "shuffle_window": 200, **options}
    return FastParquetDataset(path, **{"threads": 1, "memory_budget": "64MB", **options})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"shuffle": False},
        {"drop_last": True, "uneven": "drop"},
        {"uneven": "pad", "rank": 2, "world_size": 3, "batch_size": 9},
        {"uneven": "keep", "limit": 333, "seed": 2**64 - 1},
        {"uneven": "keep", "filters": [("id", ">=", 350)], "rank": 1, "world_size": 3},
    ],
)
def test_after_every_batch_on_other_machines(path, options):
    assert_resumes_exactly(lambda: dataset_of(path, **next(MACHINES), **options), epoch=3)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_after_batches_of_workers(path, workers):
    assert_resumes_exactly(
        partial(dataset_of, path), after=[0, 1, 4, 15, 16], epoch=1, num_workers=workers
    )


@pytest.mark.parametrize("uneven", ["wrap", "drop", "pad", "keep"])
@pytest.mark.parametrize("drop_last", [False, True])
def test_other_worlds(path, uneven, drop_last):
    make = partial(dataset_of, path, batch_size=16, uneven=uneven, drop_last=drop_last)
    assert_ranks_agree(make, (2, 8, 3), uneven=uneven, drop_last=drop_last)


def test_other_worlds_with_filters(path):
    filters = [("id", ">=", 350)]
    make = partial(dataset_of, path, batch_size=16, uneven="keep", filters=filters)
    assert_ranks_agree(make, (2, 5, 3), uneven="keep")


class Prefetching:
    """Somebody's wrapper, which takes batches long before it hands them out."""

    def __init__(self, loader, ahead):
        self._loader = loader
        self._ahead = ahead

    def __iter__(self):
        running = iter(self._loader)
        ready = list(islice(running, self._ahead))
        while ready:
            yield ready.pop(0).to("cpu")
            ready += islice(running, 1)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("delivered", [1, 6, 15, 16])
def test_behind_a_prefetching_wrapper(path, workers, delivered):
    def wrapped(dataset):
        return Prefetching(DataLoader(dataset, batch_size=None, num_workers=workers), ahead=5)

    with dataset_of(path) as dataset:
        whole = list(wrapped(dataset))
        following = list(wrapped(dataset))
        state = dataset.state_dict(after=whole[delivered - 1])
    with dataset_of(path) as dataset:
        dataset.load_state_dict(state)
        rest = list(wrapped(dataset))
        if delivered < 16:
            assert_same_batches(rest, whole[delivered:])
            rest = list(wrapped(dataset))
        assert_same_batches(rest, following)


def stateful(path, workers, persistent=False):
    return StatefulDataLoader(
        dataset_of(path),
        batch_size=None,
        num_workers=workers,
        persistent_workers=persistent,
        timeout=TIMEOUT_S if workers else 0,
    )


@pytest.mark.parametrize(("workers", "persistent"), [(0, False), (2, False), (2, True), (3, False)])
def test_stateful_data_loader(path, workers, persistent):
    loader = stateful(path, workers, persistent)
    states, epochs = [loader.state_dict()], [[], [], []]
    for batch in loader:
        epochs[0].append(batch.clone())
        states.append(loader.state_dict())
    finished = loader.state_dict()
    for epoch in (1, 2):
        epochs[epoch] += [batch.clone() for batch in loader]
        assert sorted(ids_of(epochs[epoch])) == list(range(ROWS))
    for delivered in (0, 1, 2, 7, 14, 15, 16):
        resumed = stateful(path, workers, persistent)
        resumed.load_state_dict(states[delivered])
        # A worker can't tell that the others too have delivered their last batch.
        if delivered < 16 or workers:
            assert_same_batches(resumed, epochs[0][delivered:])
        assert_same_batches(resumed, epochs[1])
        assert_same_batches(resumed, epochs[2])
    # A state that is loaded may be saved again, for example when a job ends before its first step.
    for _ in range(3):
        resumed = stateful(path, workers, persistent)
        resumed.load_state_dict(finished)
        finished = resumed.state_dict()
    assert_same_batches(resumed, epochs[1])
    assert_same_batches(resumed, epochs[2])


@pytest.mark.parametrize("workers", [0, 2])
def test_stateful_data_loader_in_a_loop_over_epochs(path, workers):
    """A loop that begins with the epoch of the state delivers each epoch once."""
    loader = stateful(path, workers)
    states, epochs = [], [[], [], []]
    for epoch in (0, 1, 2):
        loader.dataset.set_epoch(epoch)
        for batch in loader:
            epochs[epoch].append(batch.clone())
            if epoch == 1:
                states.append(loader.state_dict())
        if epoch == 1:
            finished = loader.state_dict()
    # The last two states were saved after the last batch, before and after the loop over batches.
    ends = [(16, states[15])]
    if not workers:
        ends.append((16, finished))
    for delivered, state in ((1, states[0]), (15, states[14]), *ends):
        resumed = stateful(path, workers)
        resumed.load_state_dict(state)
        resumed.dataset.set_epoch(1)
        assert_same_batches(resumed, epochs[1][delivered:])
        resumed.dataset.set_epoch(2)
        assert_same_batches(resumed, epochs[2])
    resumed = stateful(path, workers)
    resumed.load_state_dict(finished)
    resumed.dataset.set_epoch(2)
    assert_same_batches(resumed, epochs[2])


@pytest.mark.parametrize("workers", [0, 2])
def test_stateful_data_loader_resumed_again_and_again(path, workers):
    loader = stateful(path, workers)
    whole = [[batch.clone() for batch in loader] for _ in range(2)]
    state, taken = None, []
    while len(taken) < 32:
        loader = stateful(path, workers)
        if state is not None:
            loader.load_state_dict(state)
        running = iter(loader)
        for batch in islice(running, 5):
            taken.append(batch.clone())
            state = loader.state_dict()
        if len(taken) == 15:
            taken += [batch.clone() for batch in running]
            state = loader.state_dict()
    assert_same_batches(taken[:16], whole[0])
    assert_same_batches(taken[16:32], whole[1])


def test_stateful_data_loader_and_state_after(path):
    """The dataset's own state serves another number of workers; the loader's does not."""
    loader = stateful(path, 2)
    batches = [batch.clone() for batch in islice(loader, 5)]
    state, of_loader = loader.dataset.state_dict(after=batches[-1]), loader.state_dict()
    with dataset_of(path) as dataset:
        dataset.load_state_dict(state)
        assert sorted(ids_of([*batches, *dataset])) == list(range(ROWS))
    resumed = stateful(path, 2)
    resumed.load_state_dict(of_loader)
    more = list(islice(resumed, 2))
    state = resumed.dataset.state_dict(after=more[-1])
    assert state["progress"] == [[1, 2, 7]]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(
    "files",
    [
        [[3]],  # fewer rows than ranks
        [[40], [31]],  # more ranks than row groups
        [[5000]],  # one giant row group
        [[0], [50, 0, 20], [], [0, 0], [33], []],  # empty files between full ones
        [[]],  # no row at all
    ],
)
def test_odd_files(tmp_path, files, shuffle):
    paths = write_files(tmp_path, files)
    make = partial(dataset_of, paths, shuffle=shuffle, batch_size=16)
    assert_ranks_agree(make, (1, 2, 8, 5))
    assert_resumes_exactly(make, after=[0] if files == [[]] else [0, 1])
