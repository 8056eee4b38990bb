"""Where the next pass begins, shared by a dataset and its copies in worker processes.

Three things have to be the same for all worker processes of a pass, and DataLoader tells them
none: which pass it is, which epoch that delivers, and from where. They find out by themselves,
under every start method, whether they live for one pass or for many.

*Which pass.* DataLoader starts the workers of one iterator one after the other, in the order of
their numbers, on one thread. Before each start something of ours runs on that thread: with
fork() the hook below, otherwise the pickling of the dataset. It counts the starts of its thread,
and a worker is born with that count. Count less worker number is thus equal among the workers of
one iterator and differs from those of any other, whatever other threads start meanwhile and
however torch is seeded. Each worker counts the passes that it begins; those of one iterator begin
the same ones. So (thread, count less number, pass) names a pass.

*Which epoch.* A record in shared memory keeps where the next pass begins, and the passes that have
begun. The first worker to come to a pass takes what is next and writes it down under the pass's
name; the others, however late, find it there. A lock of the kernel makes that one step.

*From where.* set_epoch and load_state_dict are orders, numbered in the record. The first pass of a
worker process belongs to the orders given before the process was started (it is born with their
number), so a worker that comes late, even after all others, takes no order that was given
meanwhile. A later pass takes the newest order: DataLoader's iter() returns only when all workers
that it keeps have answered that they begin, and by then the first of them is, but for a scheduling
accident, at the record's lock: a thread of its own sends the answer and waits for the GIL, which
beginning a pass holds until there. (Only an order that follows iter() at once, with no batch taken,
can come first by such an accident, and be taken by all workers of that pass.)

A process that is no worker, such as a rank started with the dataset as an argument, goes on by
itself from what was next when it was started.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import Counter
from dataclasses import dataclass, replace
from multiprocessing import reduction
from typing import TYPE_CHECKING, Any

from torch.utils.data import get_worker_info

from fastload.plan.position import Position
from fastload.plan.read_plan import Leg
from fastload.runtime.shared_record import SharedRecord

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["EpochCell", "PassStart", "check_epoch", "resolved"]

_MOST_EPOCHS = 1 << 24
# A worker is late by a pass at most, and by as many orders as are given in the meantime.
_KEPT_PASSES = 64
_KEPT_ORDERS = 16


@dataclass(frozen=True, slots=True)
class PassStart:
    """Where the next pass begins.

    stays: even if nothing is left of that epoch; else the next epoch is meant then.
    """

    position: Position
    stays: bool = False


class EpochCell:
    """The epoch and place of the next pass.

    Args:
        position: of the first one.
    """

    def __init__(self, position: Position) -> None:
        first = {"0": _encoded(PassStart(position))}
        self._become_owner({"newest": 0, "next": first, "passes": {}, "by_worker": False})

    def give(self, order: PassStart) -> None:
        """The next pass begins there."""
        self._leave()
        with self._record.changed() as document:
            newest = document["newest"] = document["newest"] + 1
            orders = {**document["next"], str(newest): _encoded(order)}
            document["next"] = _last(orders, _KEPT_ORDERS)
            document["by_worker"] = False
        self._born["newest"] = newest

    @property
    def next(self) -> PassStart:
        """Where the next pass begins."""
        self._leave()
        document = self._record.read()
        return _decoded(document["next"][str(document["newest"])])

    @property
    def begun_by_worker(self) -> bool:
        """Whether the latest pass was begun by a worker process."""
        self._leave()
        return bool(self._record.read()["by_worker"])

    def begin(
        self, finished: Callable[[Position], bool], own: Position | None = None
    ) -> tuple[PassStart, Position]:
        """Begins a pass, or takes part in one that another worker began.

        Args:
            finished: whether nothing is left of an epoch after some progress.
            own: where this worker goes on, whatever the others do.

        Returns:
            The order that the pass follows, and where it begins.
        """
        self._leave()
        by_worker = os.getpid() != self._owner
        name = self._name_of_pass() if by_worker else ""
        with self._record.changed() as document:
            passes, orders = document["passes"], document["next"]
            number = self._order_of_pass(document) if by_worker else str(document["newest"])
            order = PassStart(own) if own else _decoded(passes.get(name, orders[number]))
            if name in passes:
                return order, order.position
            start = own or resolved(order, finished)
            orders[number] = _encoded(PassStart(_following(start)))
            document["by_worker"] = by_worker
            if by_worker:
                passes[name] = _encoded(PassStart(replace(start, taken=0), stays=True))
                document["passes"] = _last(passes, _KEPT_PASSES)
            return order, start

    def _name_of_pass(self) -> str:
        worker = get_worker_info()
        assert worker is not None
        self._passes += 1
        return f"{self._born['thread']} {self._born['start'] - worker.id} {self._passes}"

    def _order_of_pass(self, document: dict[str, Any]) -> str:
        number = self._born["newest"] if self._passes == 1 else document["newest"]
        # If that one is forgotten, the oldest that is not.
        return str(max(number, int(min(document["next"], key=int))))

    def _become_owner(self, document: dict[str, Any]) -> None:
        self._owner = os.getpid()
        self._record = SharedRecord.of(document)
        self._passes = 0
        self._starts: Counter[int] = Counter()  # of processes, by thread
        self._births: dict[int, dict[str, Any]] = {}  # what a process is born with, by thread
        self._born: dict[str, Any] = document  # what this one was
        _register(self)

    def _leave(self) -> None:
        """In a process that is neither the owner nor a worker: goes on by itself."""
        if os.getpid() != self._owner and get_worker_info() is None:
            self._become_owner({**self._born, "by_worker": False})

    def before_start(self) -> dict[str, Any]:
        """What a process that this thread is about to start is born with."""
        self._leave()
        if os.getpid() != self._owner:
            return self._born
        thread = threading.get_ident()
        self._starts[thread] += 1
        start = {"thread": thread, "start": self._starts[thread]}
        self._births[thread] = {**self._record.read(), **start}
        return self._births[thread]

    def after_fork(self) -> None:
        """In the child, which has the thread that forked."""
        self._born = self._births.pop(threading.get_ident(), self._born)

    def __getstate__(self) -> dict[str, Any]:
        """For copies that stand alone."""
        self._leave()
        return {"document": self._record.read()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._become_owner(state["document"])


# Those of this process. A set of plain references is copied in one step of the interpreter.
_cells: set[weakref.ref[EpochCell]] = set()


def _register(cell: EpochCell) -> None:
    _cells.add(weakref.ref(cell, _cells.discard))


def _before_fork() -> None:
    for reference in list(_cells):
        if (cell := reference()) is not None:
            cell.before_start()


def _after_fork() -> None:
    for reference in list(_cells):
        if (cell := reference()) is not None:
            cell.after_fork()


os.register_at_fork(before=_before_fork, after_in_child=_after_fork)


def _reduced(cell: EpochCell) -> tuple[Any, ...]:
    """Reduce the cell for another process, which then takes part in the dataset's passes."""
    born = cell.before_start()
    return _rebuilt, (reduction.DupFd(cell._record.fd), cell._owner, born)  # noqa: SLF001


def _rebuilt(fd: Any, owner: int, born: dict[str, Any]) -> EpochCell:
    cell = EpochCell.__new__(EpochCell)
    record = SharedRecord(fd.detach())
    state = {"_owner": owner, "_record": record, "_passes": 0, "_starts": Counter(), "_births": {}}
    cell.__dict__.update(state, _born=born)
    _register(cell)
    return cell


reduction.ForkingPickler.register(EpochCell, _reduced)


def check_epoch(epoch: int) -> None:
    """Refuses what is no epoch with a TypeError or a ValueError."""
    if isinstance(epoch, bool) or not isinstance(epoch, int):
        raise TypeError(f"Expected an epoch as an int, got {epoch!r}")
    if not 0 <= epoch < _MOST_EPOCHS:
        raise ValueError(f"Expected an epoch in [0, {_MOST_EPOCHS}), got {epoch}")


def resolved(order: PassStart, finished: Callable[[Position], bool]) -> Position:
    """The start of a pass: of the next epoch, if the order is the end of one."""
    position = order.position
    if not position.progress or order.stays or not finished(position):
        return position
    return _following(position)


def _following(position: Position) -> Position:
    return position.of_epoch((position.epoch + 1) % _MOST_EPOCHS)


def _encoded(order: PassStart) -> list[Any]:
    position = order.position
    legs = [[leg.world, leg.workers, leg.delivered] for leg in position.progress]
    return [position.seed, position.epoch, legs, order.stays, position.seeds]


def _decoded(encoded: list[Any]) -> PassStart:
    seed, epoch, legs, stays, seeds = encoded
    progress = tuple(Leg(*leg) for leg in legs)
    return PassStart(Position(seed, epoch, progress, seeds=tuple(seeds)), stays)


def _last(entries: dict[str, Any], count: int) -> dict[str, Any]:
    return dict(list(entries.items())[-count:])
