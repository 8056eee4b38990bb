"""The first windows of the next pass are read while one pass ends."""

import gc
import time
from collections import Counter

import pytest
from torch.utils.data import DataLoader, IterableDataset

from fastload import FastParquetDataset
from fastload.dataset.passes.feed import Feed
from fastload.dataset.passes.feed_plan import PassPlan
from fastload.dataset.passes.next_pass import NextPass
from fastload.plan.read_plan import share_plan
from fastload.plan.units import units
from fastload.testing import assert_same_batches
from support.sample_files import ids_of, write_sample

ROWS = 4000
WINDOW = 500
TIMEOUT_S = 30


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("ahead") / "sample.parquet", ROWS, 250)


def dataset_of(path, **options):
    options = {"shuffle": True, "shuffle_window": WINDOW, "threads": 2, **options}
    return FastParquetDataset(path, batch_size=100, memory_budget="64MB", **options)


def settled(dataset):
    """The stats when nothing more is read."""
    deadline = time.monotonic() + TIMEOUT_S
    before = None
    while time.monotonic() < deadline:
        stats = dataset.stats()
        counts = stats.read.bytes, stats.read_ahead.bytes, stats.decode.rows
        if counts == before:
            return stats
        before = counts
        time.sleep(0.2)
    raise TimeoutError


@pytest.mark.parametrize("options", [{}, {"shuffle": False}, {"seed": 3, "drop_last": True}])
def test_the_same_batches(path, options):
    expected = []
    for epoch in range(5):
        with dataset_of(path, threads=0, **options) as dataset:
            dataset.set_epoch(epoch)
            expected.append([batch.clone() for batch in dataset])
            assert dataset.stats().read_ahead.bytes == 0
    with dataset_of(path, **options) as dataset:
        for epoch in range(5):
            assert_same_batches(dataset, expected[epoch])
            ahead = settled(dataset).read_ahead.bytes
            # A dataset in order may be read once.
            assert (ahead > 0) == (epoch > 0 or options.get("shuffle", True))


def test_an_epoch_is_read_once_ahead_or_not(path):
    with dataset_of(path) as dataset:
        ids_of(dataset)
        once = settled(dataset).read.bytes
        for passes in range(2, 6):
            ids_of(dataset)
            stats = settled(dataset)
            # Four of eight windows of the next pass, and row groups that they share with others.
            read = stats.read.bytes + stats.read_ahead.bytes - passes * once
            assert 0 < read < 0.6 * once
        before = stats.read_ahead.bytes
        next(iter(dataset))
        assert settled(dataset).read_ahead.bytes == before


@pytest.mark.parametrize(
    ("limit", "window", "batches_of_steps"),
    [(ROWS, WINDOW, 6), (ROWS, ROWS, 6), (200, WINDOW, 1), (ROWS, 100, 1)],
)
def test_no_batch_waits_for_all_of_it(path, monkeypatch, limit, window, batches_of_steps):
    """The next pass is begun in steps, where batches are left to share them."""
    handed_out = 0
    steps = []

    def logged(step):
        def log(*arguments):
            steps.append(handed_out)
            return step(*arguments)

        return log

    with dataset_of(path, limit=limit, shuffle_window=window) as dataset:
        ids_of(dataset)
        monkeypatch.setattr(NextPass, "step", logged(NextPass.step))
        for _batch in dataset:
            handed_out += 1
        assert len(steps) == 6
        assert len(set(steps)) == batches_of_steps
        assert settled(dataset).read_ahead.bytes > 0
        assert len(ids_of(dataset)) == limit


@pytest.mark.parametrize("cached", [False, True])
def test_passes_are_freed_without_the_garbage_collector(path, tmp_path, cached):
    """Programs turn the collector off; what a pass leaves behind would hold windows and plans."""

    def counts():
        types = (type(some) for some in gc.get_objects())
        return Counter(kind for kind in types if str(kind.__module__).startswith("fastload"))

    with dataset_of(path, cache=str(tmp_path) if cached else None) as dataset:
        gc.disable()
        try:
            for _ in range(3):
                ids_of(dataset)
            before = counts()
            for _ in range(6):
                ids_of(dataset)
            assert {kind for kind, count in counts().items() if count > before[kind] + 3} == set()
        finally:
            gc.enable()


def test_only_what_begins_cold_has_small_windows(path, monkeypatch):
    """Of a pass that is begun ahead the first window is decoded while the one before ends."""
    windows = []

    def noting(*arguments, **options):
        made = share_plan(*arguments, **options)
        windows.append(made.takes[:2, 1].tolist())
        return made

    monkeypatch.setattr(units, "share_plan", noting)
    with dataset_of(path, shuffle=False) as dataset:
        for _ in range(3):
            ids_of(dataset)
    # The second pass has the plan of the first, and the pass after the third that of the third.
    cold, whole = [100, 100], windows[1]
    assert windows == [cold, whole]
    assert whole[0] > 1000


def test_the_first_batch_is_there(path):
    """Decoded before it is asked for: the pass begins with batches that are ready."""
    with dataset_of(path) as dataset:
        for _ in range(2):
            ids_of(dataset)
        decoded = settled(dataset).decode.rows
        running = iter(dataset)
        next(running)
        assert decoded >= 2 * ROWS * 4 + WINDOW * 4
        assert len(ids_of(running)) == ROWS - 100


@pytest.mark.parametrize("threads", [1, 2])
def test_another_pass_than_expected(path, threads):
    with dataset_of(path, threads=threads) as dataset:
        epochs = [[batch.clone() for batch in dataset] for _ in range(3)]
        state = dataset.state_dict(after=epochs[1][4])
        for epoch in (0, 2, 1, 1):
            dataset.set_epoch(epoch)
            assert_same_batches(dataset, epochs[epoch])
        dataset.load_state_dict(state)
        assert_same_batches(dataset, epochs[1][5:])
        assert_same_batches(dataset, epochs[2])
        running = iter(dataset)
        ids_of([next(running) for _ in range(35)])
        dataset.set_epoch(0)
        assert len(ids_of(running)) == ROWS - 3500
        assert_same_batches(dataset, epochs[0])


def test_memory_stays_bounded(path):
    """The windows of two passes together are as many as those of one."""
    with dataset_of(path) as dataset:
        for _ in range(2):
            ids_of(dataset)
        before = settled(dataset).memory
        most = 0
        for _ in range(30):
            for batch in dataset:
                del batch
                memory = dataset.stats().memory
                # Spare memory is that of datasets of other tests.
                most = max(most, memory.total - memory.spare)
        # Batches are of different sizes: some blocks more than the passes before needed.
        assert most < 2 * (before.total - before.spare)


@pytest.mark.parametrize("when", ["close", "drop", "abandon"])
def test_ends_in_time(path, when):
    for _ in range(20):
        dataset = dataset_of(path)
        for _ in range(2):
            ids_of(dataset)
        if when == "close":
            dataset.close()
        elif when == "abandon":
            running = iter(dataset)
            for _ in range(39):
                next(running)
            assert len(ids_of(dataset)) == ROWS
        del dataset


def test_persistent_workers(path):
    with dataset_of(path) as dataset:
        loader = DataLoader(
            dataset, batch_size=None, num_workers=2, persistent_workers=True, timeout=TIMEOUT_S
        )
        whole = [[batch.clone() for batch in loader] for _ in range(4)]
        assert all(sorted(ids_of(batches)) == list(range(ROWS)) for batches in whole)
        dataset.set_epoch(1)
        assert_same_batches(loader, whole[1])
        assert_same_batches(loader, whole[2])


class Decoded(IterableDataset):
    """The number of values that a pass has decoded, and the pass that it prepares."""

    def __init__(self, dataset):
        self.dataset = dataset

    def __iter__(self):
        ids_of(self.dataset)
        yield settled(self.dataset).decode.rows


@pytest.mark.parametrize("persistent", [False, True])
def test_a_worker_that_ends_with_its_pass_prepares_none(path, persistent):
    with dataset_of(path) as dataset:
        columns = len(dataset.schema)
        loader = DataLoader(
            Decoded(dataset), batch_size=None, num_workers=1, persistent_workers=persistent
        )
        (decoded,) = loader
    assert decoded == ROWS * columns if not persistent else decoded > ROWS * columns


@pytest.mark.parametrize(
    ("owner", "name"), [(units.Units, "share"), (PassPlan, "reads_in_steps"), (Feed, "__init__")]
)
def test_a_step_that_is_interrupted_ends_no_pass(path, monkeypatch, owner, name):
    """The consumer catches the error of a step to the next pass and asks for the next batch."""
    with dataset_of(path) as dataset:
        ids_of(dataset)
        whole = ids_of(dataset)
        dataset.set_epoch(1)
        raised = []
        step = getattr(owner, name)

        def interrupted(*arguments, **keywords):
            if dataset._pass is not None and not raised:
                raised.append(name)
                raise KeyboardInterrupt
            return step(*arguments, **keywords)

        batches, ids = iter(dataset), []
        monkeypatch.setattr(owner, name, interrupted)
        while True:
            try:
                ids += ids_of([next(batches)])
            except KeyboardInterrupt:
                continue  # the next call hands out the batch that the step belonged to
            except StopIteration:
                break
        assert raised == [name]
        assert ids == whole
        assert len(ids_of(dataset)) == len(whole)
