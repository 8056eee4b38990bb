"""Passes and epochs, as several workers of several loaders see them."""

import copy
import multiprocessing
import os
import pickle
import threading
from types import SimpleNamespace

import pytest
from torch.utils.data._utils import worker

from fastload.dataset.epochs import EpochCell, PassStart, check_epoch, resolved
from fastload.plan.position import Leg, Position


def never(position):
    return False


def at(epoch, *progress, stays=False):
    return PassStart(Position(0, epoch, progress), stays)


def begun(cell):
    return cell.begin(never)[1].epoch


@pytest.fixture
def cell():
    return EpochCell(Position(0, 0, ()))


def serve(cell, info, calls):
    """Call methods of a cell in a worker process, as `calls` says, and answer what they return."""
    worker._worker_info = info
    while call := calls.recv():
        name, *arguments = call
        member = getattr(cell, name)
        calls.send(member(*arguments) if callable(member) else member)


class Workers:
    """Worker processes of one loader, all on one cell, that begin passes when told to."""

    def __init__(self, cell, count=3, turn=None):
        self._calls = []
        self._processes = []
        for number in range(count):
            here, there = multiprocessing.Pipe()
            info = SimpleNamespace(id=number, num_workers=count)
            process = multiprocessing.get_context("fork").Process(
                target=serve, args=(cell, info, there), daemon=True
            )
            if turn is not None:
                turn.wait()
            process.start()
            self._calls.append(here)
            self._processes.append(process)

    def call(self, number, *call):
        calls = self._calls[number]
        calls.send(call)
        assert calls.poll(120)
        return calls.recv()

    def begin(self, number, own=None):
        return self.call(number, "begin", never, own)[1]

    def epochs(self, *order):
        return [self.begin(number).epoch for number in order or range(len(self._calls))]

    def end(self):
        for calls, process in zip(self._calls, self._processes, strict=True):
            calls.send(None)
            process.join()
            calls.close()


@pytest.fixture
def workers_of():
    started = []

    def start(cell, count=3, turn=None):
        loader = Workers(cell, count, turn)
        started.append(loader)
        return loader

    yield start
    for loader in started:
        loader.end()


@pytest.fixture
def workers(workers_of, cell):
    return lambda count=3, turn=None: workers_of(cell, count, turn)


def test_each_pass_is_of_the_next_epoch(cell):
    assert [(cell.next.position.epoch, begun(cell)) for _ in range(3)] == [(0, 0), (1, 1), (2, 2)]
    assert not cell.begun_by_worker


def test_orders(cell):
    begun(cell)
    cell.order_next(at(9))
    assert [begun(cell), begun(cell)] == [9, 10]
    cell.order_next(at(2**24 - 1))
    assert [begun(cell), begun(cell)] == [2**24 - 1, 0]


def test_progress_is_of_one_pass(cell):
    order = at(4, Leg(2, 3, 5))
    cell.order_next(order)
    assert cell.next == order
    assert cell.begin(never) == (order, order.position)
    assert cell.begin(never) == (at(5), Position(0, 5, ()))


def test_the_end_of_an_epoch(cell):
    order = at(4, Leg(1, 1, 5))
    assert resolved(order, lambda _: True) == Position(0, 5, ())
    assert resolved(order, never) == order.position
    assert resolved(at(4, Leg(1, 1, 5), stays=True), lambda _: True) == order.position
    assert resolved(at(4), lambda _: True) == Position(0, 4, ())


def test_workers_take_part_in_one_pass(cell, workers):
    loader = workers()
    for epoch in range(3):
        assert loader.epochs(2, 0, 1) == [epoch] * 3
        assert cell.begun_by_worker
    assert begun(cell) == 3
    assert not cell.begun_by_worker
    assert workers().epochs() == [4] * 3


def test_orders_reach_workers_that_live(cell, workers):
    loader = workers()
    assert loader.epochs() == [0] * 3
    for epoch in (7, 3):
        cell.order_next(at(epoch, Leg(3, 1, 2)))
        starts = [loader.begin(worker) for worker in range(3)]
        assert starts == [Position(0, epoch, (Leg(3, 1, 2),))] * 3
        assert loader.epochs() == [epoch + 1] * 3


def test_late_worker_of_an_abandoned_pass(workers):
    loader = workers()
    assert loader.epochs() == [0] * 3
    loader.begin(0)  # nobody else comes to epoch 1 in time
    assert loader.epochs(0) == [2]
    assert loader.epochs(1, 1, 2, 2) == [1, 2, 1, 2]
    assert loader.epochs() == [3] * 3


def test_late_worker_takes_no_order_given_meanwhile(cell, workers):
    """All workers of an abandoned pass are late; the order is for the pass after it."""
    first = workers()
    cell.order_next(at(7))
    second = workers()
    assert first.epochs(1, 2) == [0, 0]
    assert second.epochs() == [7] * 3
    assert first.epochs(0) == [0]
    assert first.epochs() == [8] * 3


def test_a_late_worker_joins_a_pass_that_was_ended(cell, workers):
    loader = workers(2)
    assert loader.epochs() == [0, 0]
    assert loader.begin(0).epoch == 1
    cell.order_next(at(7))
    cell.end_passes("A load", "iterate again")
    assert loader.begin(1).epoch == 1
    ended = ("A load", "iterate again")
    assert [loader.call(number, "ended") for number in range(2)] == [ended] * 2
    assert loader.epochs() == [7, 7]
    assert [loader.call(number, "ended") for number in range(2)] == [None, None]


def test_a_pass_that_fails_takes_no_epoch(workers):
    loader = workers()
    for _ in range(2):
        starts = [loader.begin(worker) for worker in range(3)]
        assert starts == [Position(0, 0, ())] * 3
        loader.call(0, "undo", starts[0])
    assert loader.begin(1).epoch == 0
    # Worker 0, asked once more, fails again while worker 1 has begun the next pass.
    loader.call(0, "undo", starts[0])
    assert loader.epochs(0, 2) == [0, 0]
    assert loader.epochs() == [1] * 3


def test_loaders_at_the_same_time(workers):
    loaders = [workers(2), workers(3)]
    assert loaders[0].epochs(0) == [0]
    assert loaders[1].epochs(2) == [1]
    assert loaders[0].epochs(1) == [0]
    assert loaders[1].epochs(0, 1) == [1, 1]


def test_loaders_started_by_two_threads_in_turn(workers):
    """Each thread starts its workers in order, whatever the other one starts meanwhile."""
    # Not within a hook of fork(): another hook holds a lock until the fork is over.
    turn = threading.Barrier(2, timeout=120)
    loaders = []
    threads = [
        threading.Thread(target=lambda: loaders.append(workers(turn=turn))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert loaders[0].epochs(2, 0, 1) == [0] * 3
    assert loaders[1].epochs(1, 2, 0) == [1] * 3


def test_a_worker_goes_on_by_itself(cell, workers):
    loader = workers()
    own = [Position(0, 6, (), taken) for taken in (4, 3, 3)]
    assert [loader.begin(worker, own[worker]) for worker in (1, 0, 2)] == [own[1], own[0], own[2]]
    assert loader.epochs() == [7] * 3
    assert begun(cell) == 8


def test_very_many_orders_and_passes(cell, workers):
    late = workers(2)
    for epoch in range(1, 100):
        cell.order_next(at(epoch))
        loader = Workers(cell, 1)
        assert loader.epochs() == [epoch]
        loader.end()
    assert late.epochs() == [0, 0]
    assert late.epochs() == [100, 100]


def test_pickled_cell_stands_alone(cell):
    cell.begin(never)
    for other in (pickle.loads(pickle.dumps(cell)), copy.deepcopy(cell)):
        assert [begun(other), begun(other)] == [1, 2]
    assert begun(cell) == 1


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda cell: pickle.loads(pickle.dumps(cell))])
def test_workers_of_a_copy_join_no_pass_of_the_original(cell, workers_of, copied):
    assert workers_of(cell).epochs() == [0] * 3
    other = copied(cell)
    assert not other.begun_by_worker
    other.order_next(at(5))
    assert workers_of(other).epochs() == [5] * 3
    assert workers_of(cell).epochs() == [1] * 3


def test_workers_of_a_forked_process_join_no_pass_of_its_parent(cell, workers_of):
    workers_of(cell).epochs()
    child = os.fork()
    if child == 0:
        loader = Workers(cell)
        begun = loader.epochs()
        loader.end()
        os._exit(begun == [1] * 3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def test_fork_stands_alone(cell):
    cell.begin(never)
    child = os.fork()
    if child == 0:
        os._exit([begun(cell), begun(cell), begun(cell)] == [1, 2, 3])
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert begun(cell) == 1


@pytest.mark.parametrize("epoch", [-1, 2**24])
def test_epoch_out_of_range(epoch):
    with pytest.raises(ValueError, match="Expected an epoch in"):
        check_epoch(epoch)


@pytest.mark.parametrize("epoch", [None, 1.5, "1", True])
def test_epoch_of_another_type(epoch):
    with pytest.raises(TypeError, match="Expected an epoch as an int"):
        check_epoch(epoch)
