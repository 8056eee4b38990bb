"""Passes and epochs, as several workers of a loader see them."""

import pickle
from types import SimpleNamespace

import pytest

from fastload import epochs
from fastload.epochs import EpochCell


class Workers:
    """Worker processes of one loader, all on one cell, that begin passes when told to."""

    def __init__(self, monkeypatch, cell, seed=1000, count=3):
        self._monkeypatch = monkeypatch
        self._seed = seed
        # A fork shares the words of memory and copies the rest.
        self._cells = []
        for _ in range(count):
            copy = EpochCell.__new__(EpochCell)
            copy.__dict__.update(cell.__dict__)
            self._cells.append(copy)

    def begin(self, worker):
        info = SimpleNamespace(id=worker, seed=self._seed + worker)
        with self._monkeypatch.context() as patch:
            patch.setattr(epochs, "get_worker_info", lambda: info)
            return self._cells[worker].begin()


def test_each_pass_is_of_the_next_epoch():
    cell = EpochCell()
    assert not cell.begun
    assert [(cell.next, cell.begin()) for _ in range(3)] == [(0, 0), (1, 1), (2, 2)]
    assert cell.begun
    assert not cell.begun_by_worker


def test_set():
    cell = EpochCell()
    cell.begin()
    cell.set(9)
    assert not cell.begun
    assert [cell.next, cell.begin(), cell.begin()] == [9, 9, 10]
    cell.set(2**24 - 1)
    assert [cell.begin(), cell.begin()] == [2**24 - 1, 0]


def test_workers_take_part_in_one_pass(monkeypatch):
    cell = EpochCell()
    workers = Workers(monkeypatch, cell)
    for epoch in range(3):
        assert [workers.begin(w) for w in (2, 0, 1)] == [epoch] * 3
        assert cell.begun_by_worker
    assert cell.begin() == 3
    assert not cell.begun_by_worker
    # The next loader has another seed.
    assert [Workers(monkeypatch, cell, seed=2000).begin(w) for w in range(3)] == [4] * 3


def test_set_reaches_persistent_workers(monkeypatch):
    cell = EpochCell()
    workers = Workers(monkeypatch, cell)
    for epoch in (7, 3):
        cell.set(epoch)
        assert [workers.begin(w) for w in range(3)] == [epoch] * 3


def test_late_worker_of_an_abandoned_pass(monkeypatch):
    workers = Workers(monkeypatch, EpochCell())
    assert [workers.begin(w) for w in range(3)] == [0] * 3
    workers.begin(0)  # nobody else comes to epoch 1 in time
    assert workers.begin(0) == 2
    workers.begin(1)
    assert workers.begin(1) == 2
    workers.begin(2)
    assert workers.begin(2) == 2
    assert [workers.begin(w) for w in range(3)] == [3] * 3


def test_another_worker_may_begin_between_any_two_steps(monkeypatch):
    """The word is read once: a second look could find the pass begun, and count it again."""
    cell = EpochCell()
    workers = Workers(monkeypatch, cell, count=2)

    class Word:
        def __init__(self, word):
            self._word = word
            self._first = True

        def __getitem__(self, index):
            value = int(self._word[index])
            if self._first:
                self._first = False
                workers.begin(1)
            return value

        def __setitem__(self, index, value):
            self._word[index] = value

    slow = workers._cells[0]
    slow._word = Word(slow._word)
    assert workers.begin(0) == 0
    assert cell.next == 1


def test_pickled_cell_stands_alone():
    cell = EpochCell()
    cell.begin()
    copy = pickle.loads(pickle.dumps(cell))
    assert [copy.begin(), copy.begin(), cell.begin()] == [1, 2, 1]


@pytest.mark.parametrize("epoch", [-1, 2**24])
def test_epoch_out_of_range(epoch):
    with pytest.raises(ValueError, match="Expected an epoch in"):
        EpochCell().set(epoch)


@pytest.mark.parametrize("epoch", [None, 1.5, "1", True])
def test_epoch_of_another_type(epoch):
    with pytest.raises(TypeError, match="Expected an epoch as an int"):
        EpochCell().set(epoch)
