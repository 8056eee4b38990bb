import multiprocessing
import signal

import pytest
from torch.utils.data import DataLoader, IterableDataset
from torchdata.stateful_dataloader import StatefulDataLoader

from fastload.runtime.child_processes import release_locks_at_interrupt, worker_ends_with_its_pass


class Answers(IterableDataset):
    def __iter__(self):
        yield worker_ends_with_its_pass()


@pytest.mark.parametrize("context", ["fork", "forkserver"])
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("loader", [DataLoader, StatefulDataLoader])
def test_a_worker_knows_whether_it_lives_on(loader, persistent, context):
    options = {"persistent_workers": persistent, "multiprocessing_context": context}
    assert list(loader(Answers(), batch_size=None, num_workers=1, **options)) == [not persistent]


def test_a_process_of_its_own_lives_on():
    assert list(DataLoader(Answers(), batch_size=None)) == [False]


class Interrupted:
    """A lock of multiprocessing at whose acquisition Ctrl-C comes."""

    def __init__(self, lock):
        self.lock = lock

    def __enter__(self):
        acquired = self.lock.__enter__()
        signal.raise_signal(signal.SIGINT)
        return acquired

    def __exit__(self, *raised):
        return self.lock.__exit__(*raised)


class InterruptedWorkers(IterableDataset):
    def __init__(self):
        self.ends = multiprocessing.Event()
        self.lock = self.ends._cond._lock

    def __iter__(self):
        signal.signal(signal.SIGINT, signal.default_int_handler)
        release_locks_at_interrupt()
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            yield "interrupted"
        self.ends._cond._lock = Interrupted(self.lock)
        yield self.ends.is_set()


def test_an_interrupted_worker_releases_locks():
    dataset = InterruptedWorkers()
    loader = DataLoader(dataset, batch_size=None, num_workers=1, multiprocessing_context="fork")
    assert list(loader) == ["interrupted", False]
    assert dataset.lock.acquire(timeout=10)


class HandlersOfTheProgram(IterableDataset):
    def __iter__(self):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        release_locks_at_interrupt()
        yield signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_a_handler_of_the_program_stays():
    dataset = HandlersOfTheProgram()
    loader = DataLoader(dataset, batch_size=None, num_workers=1, multiprocessing_context="fork")
    assert list(loader) == [True]


def test_a_process_of_its_own_keeps_its_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        release_locks_at_interrupt()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
