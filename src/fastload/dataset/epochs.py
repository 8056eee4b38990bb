"""The beginning of the next pass, shared by a dataset and its copies in worker processes.

All worker processes of a pass must agree on three things that DataLoader does not pass to them:
which pass they run, which epoch the pass delivers, and where in the epoch the pass begins. The
workers find the three out through a record in shared memory, under every start method, and
whether they live for one pass or for many.

    main process                    shared record (EpochCell)          worker processes

    set_epoch(e) --------- give --> orders  0: ..., 1: epoch e
    load_state_dict(s) --- give -->         2: position s
                                              |
                                              | the first worker      .-- iter() in worker 1
                                              | to arrive takes <-----+
                                              | the order             '-- iter() in worker 0
                                              v                              |
                                    passes  "thread start pass": position    |
                                              |                              |
                                              '-- later workers read it --> begin there

    Taking the order and entering the pass happen under one lock. They also set the order to the
    epoch after, so the next pass without a new order delivers the next epoch. If the first batch
    of the pass fails, worker 0 sets the order back (`count`).

*Which pass.* DataLoader starts the workers of one iterator one after the other, in the order of
their numbers, on one thread. Before each start, code of this module runs on that thread: with
fork() the hook below, otherwise the pickling of the dataset. The code counts the starts of its
thread, and a worker is born with that count. So the count minus the worker's number is equal
among the workers of one iterator and differs from that of any other iterator, whatever other
threads start in the meantime and however torch is seeded. Each worker counts the passes that it
begins, and the workers of one iterator begin the same passes. So the triple (thread, count minus
number, pass) names a pass.

*Which epoch.* The record keeps where the next pass begins, and the passes that have begun. The
first worker to arrive at a pass takes the next position and enters the position under the pass's
name; the other workers, however late, find the entry. A lock of the kernel makes taking and
entering one step.

*Where the pass begins.* set_epoch and load_state_dict give orders, which the record numbers. The
first pass of a worker process follows the newest order given before the process was started (the
process is born with the number of that order). So a worker that arrives late, even after all
others, follows no order that was given in the meantime. A later pass follows the newest order.
That order was given before iter(): DataLoader's iter() returns only when all workers that
DataLoader keeps alive have answered that they begin. By then the first of the workers is at the
record's lock, except for a scheduling accident: a separate thread of the worker sends the answer
and waits for the GIL, which the beginning of a pass holds until the worker is at the lock. (By such
an accident, an order that follows iter() at once, before any batch is taken, may come first. Then
all workers of that pass follow the order.)

*Which weights.* The record names the weights of the epochs that begin from now on by their digest,
and a pass carries the digest in its position. A worker is born with the weights that were known
then. Weights that are set once a process was started are also written to shared memory under their
digest, before the record names them. A worker copies them when it plans an epoch that has them.
They stay there as long as a pass or an order may need them (`weights_in_use`).

*Which windows.* A loaded state may have other shuffle windows than the dataset chose. The position
carries them, and a worker takes them over when its pass begins there.

*Which batches.* `load_state_dict` ends the running pass, also one of workers. Their batches carry
the number of the order that their pass follows, and the process that has given a newer order by
`load_state_dict` refuses them when they arrive (`end_passes`). What a `collate_fn` or a DataLoader
that stacks rows makes of batches carries no number. So the record also names the newest order
that `load_state_dict` gave in the main process, and a worker whose pass follows an older order
raises (`ended`). A worker reads the record only after a change: asking takes a microsecond. What
the workers had made before the load still comes, at most `prefetch_factor` batches of each worker:
the queue of DataLoader, which holds them, shows the main process no number of an order.

A process that is not a worker, such as a rank started with the dataset as an argument, continues
independently from the position that was next when the process was started.
"""

from __future__ import annotations

import os
import secrets
import threading
import weakref
from collections import Counter
from dataclasses import dataclass, replace
from multiprocessing import reduction
from typing import TYPE_CHECKING, Any

from torch.utils.data import get_worker_info

from fastload.batch.transport import EndedPasses
from fastload.plan.options import Window
from fastload.plan.position import Leg, Position
from fastload.runtime.shared_record import SharedArrays, SharedRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["EpochCell", "PassStart", "check_epoch", "resolved"]

_MOST_EPOCHS = 1 << 24
# A worker is late by at most one pass, and by the orders that are given in the meantime.
_KEPT_PASSES = 64
_KEPT_ORDERS = 16


@dataclass(frozen=True, slots=True)
class PassStart:
    """An order to begin the next pass at a position.

    Attributes:
        position: where the pass begins.
        stays: True to begin at the position even if nothing is left of its epoch; False to begin
            the next epoch in this case.
    """

    position: Position
    stays: bool = False


class EpochCell:
    """The beginning of the next pass, in memory that the processes of a dataset share.

    Args:
        position: where the first pass begins.

    Attributes:
        beginning: held by the thread of this process that begins a pass.
    """

    _arrays: SharedArrays | None
    _ended: EndedPasses | None
    _latest_end: list[Any] | None
    _seen: int

    def __init__(self, position: Position) -> None:
        first = {"0": PassStart(position)}
        latest = {"latest": None, "begun": "", "workers": None, "weights": position.weights}
        self._become_owner({"newest": 0, "ended": None, "next": first, **latest})

    def give(self, order: PassStart) -> None:
        """Let the next pass follow an order."""
        self._leave()

        def add(document: dict[str, Any]) -> int:
            newest: int = document["newest"] + 1
            orders = {**document["next"], str(newest): order}
            document["next"] = _last(orders, _KEPT_ORDERS)
            document.update(newest=newest, begun="", latest=None)
            return newest

        self._born["newest"] = self._record.change(add)

    def end_passes(self, cause: str, advice: str) -> None:
        """End the passes of workers that follow an older order than the newest given here.

        Args:
            cause: as for `EpochIterator.end`.
            advice: as for `EpochIterator.end`.
        """
        newest = self._born["newest"]
        self._ended = EndedPasses(self._born["cell"], newest, cause, advice)
        if os.getpid() == self._owner:  # each worker may load a state for the pass of all
            ended = [newest, cause, advice]
            self._record.change(lambda document: document.update(ended=ended))

    @property
    def ended(self) -> tuple[str, str] | None:
        """Cause and advice if the main process has ended the latest pass of this worker."""
        if not self._begun:
            return None
        if (changes := self._record.changes) != self._seen:
            self._latest_end, self._seen = self._record.read()["ended"], changes
        if self._latest_end is None or int(self._follows) >= self._latest_end[0]:
            return None
        _, cause, advice = self._latest_end
        return cause, advice

    @property
    def order(self) -> tuple[str, int]:
        """The id of this cell and the order that the pass of this worker follows; else ("", 0)."""
        return (self._born["cell"], int(self._follows)) if self._begun else ("", 0)

    def weigh(
        self, weights: str, values: NDArray[np.floating], in_use: Collection[str] = ()
    ) -> None:
        """Let passes that begin an epoch, from now on, have the weights with a digest.

        Args:
            weights: the digest.
            values: the weights.
            in_use: digests of other weights that this process still needs.
        """
        self._leave()
        if self._arrays is None:
            self._arrays = SharedArrays()
        if self._starts or os.getpid() != self._owner:
            self._arrays.put(weights, values, {*in_use, *self.weights_in_use})
        self._record.change(lambda document: document.update(weights=weights))
        self._born["weights"] = weights

    @property
    def weights_in_use(self) -> set[str]:
        """The digests of the weights that a running or next pass may need, in any process."""
        self._leave()
        document = self._record.read()
        orders = [document["next"][str(document["newest"])], document["latest"]]
        # The latest pass of each group of workers that live for many passes. In its first pass, a
        # worker needs no more weights than the worker was born with.
        passes = {name.rpartition(" ")[0]: begun for name, begun in document["passes"].items()}
        starts = [_decoded(order) for order in (*orders, *passes.values()) if order]
        return {document["weights"], *(start.position.weights for start in starts)}

    def values_of(self, weights: str) -> NDArray[np.floating] | None:
        """Return a copy of the weights with a digest, if they lie in shared memory."""
        return None if self._arrays is None else self._arrays.get(weights)

    @property
    def shared_weights(self) -> set[str]:
        """The digests of the weights in shared memory."""
        return set() if self._arrays is None else self._arrays.names

    def weighed(self, position: Position) -> Position:
        """Return a position with the newest weights if it begins an epoch."""
        self._leave()
        return _weighed(position, self._record.read()["weights"])

    @property
    def next(self) -> PassStart:
        """The order that the next pass will follow."""
        self._leave()
        document = self._record.read()
        order = _decoded(document["next"][str(document["newest"])])
        return replace(order, position=_weighed(order.position, document["weights"]))

    @property
    def begun_by_worker(self) -> bool:
        """True if a worker process began the latest pass."""
        self._leave()
        return bool(self._record.read()["begun"])

    @property
    def latest(self) -> tuple[Position | None, int | None]:
        """Where the latest pass began, and its number of workers for each rank.

        The position is None if no pass has begun since the newest order. The number is None if no
        pass has ever begun.
        """
        self._leave()
        document = self._record.read()
        latest = document["latest"]
        return latest and _decoded(latest).position, document["workers"]

    def count(self, start: Position, *, counts: bool) -> None:
        """Say whether the latest pass of this process takes an epoch; a pass that begins does.

        Without effect once another pass has begun or another order was given.

        Args:
            start: where the pass began.
            counts: False to let the next pass begin where this pass began, True to let it begin
                the epoch after.
        """
        self._leave()
        again, following = PassStart(start), PassStart(_following(start))
        before, after = (again, following) if counts else (following, again)

        def replace_order(document: dict[str, Any]) -> None:
            orders, number = document["next"], self._follows
            latest = document["begun"] == self._begun
            if latest and number in orders and _decoded(orders[number]) == before:
                orders[number] = after

        self._record.change(replace_order)

    def begin(
        self, finished: Callable[[Position], bool], own: Position | None = None
    ) -> tuple[PassStart, Position]:
        """Begin a pass, or join a pass that another worker began.

        Args:
            finished: returns True if nothing is left of the epoch after a position.
            own: where this worker continues, independently of the other workers.

        Returns:
            The order that the pass follows, and where it begins.
        """
        self._leave()
        by_worker = os.getpid() != self._owner
        name = self._begun = self._name_of_pass() if by_worker else ""

        def join(document: dict[str, Any]) -> tuple[PassStart, Position]:
            passes, orders = document["passes"], document["next"]
            number = self._order_of_pass(document) if by_worker else str(document["newest"])
            order = PassStart(own) if own else _decoded(passes.get(name, orders[number]))
            self._follows = number
            if name in passes:
                return order, order.position
            # The first pass of a worker process has the weights that the process was born with.
            first = by_worker and self._passes == 1
            weights = (self._born if first else document)["weights"]
            start = _weighed(own or resolved(order, finished), weights)
            orders[number] = PassStart(_following(start))
            document["latest"] = PassStart(start)
            document["begun"] = name
            document["workers"] = info.num_workers if (info := get_worker_info()) else 0
            if by_worker:
                passes[name] = PassStart(replace(start, taken=0), stays=True)
                document["passes"] = _last(passes, _KEPT_PASSES)
            return order, start

        return self._record.change(join)

    def _name_of_pass(self) -> str:
        worker = get_worker_info()
        assert worker is not None
        self._passes += 1
        return f"{self._born['thread']} {self._born['start'] - worker.id} {self._passes}"

    def _order_of_pass(self, document: dict[str, Any]) -> str:
        number = self._born["newest"] if self._passes == 1 else document["newest"]
        # If the record has forgotten the order, take the oldest order that it keeps.
        return str(max(number, int(min(document["next"], key=int))))

    def _become_owner(self, document: dict[str, Any]) -> None:
        # This cell counts the starts of processes anew, so its passes have the names that passes of
        # another cell had.
        document = {**document, "passes": {}, "begun": "", "cell": secrets.token_hex(8)}
        record = SharedRecord.of(document, _encoded, private=True)
        # Shared memory for weights must exist before a worker starts.
        arrays = SharedArrays() if document["weights"] else None
        self._set_up(os.getpid(), record, arrays, document)

    def _set_up(
        self, owner: int, record: SharedRecord, arrays: SharedArrays | None, born: dict[str, Any]
    ) -> None:
        self._owner = owner
        self._record = record
        self._arrays = arrays
        self._born = born  # values at the birth of this process
        self.beginning = threading.RLock()
        self._ended = None
        self._passes = 0
        self._follows = ""  # the number of the order that the latest pass of this process follows
        self._begun = ""  # the name of that pass
        self._latest_end = None  # of the record, as this worker knows it
        self._seen = -1  # the number of changes of the record that this worker knows
        self._starts: Counter[int] = Counter()  # started processes, by thread
        self._births: dict[int, dict[str, Any]] = {}  # values at a process's birth, by thread
        _register(self)

    def _leave(self) -> None:
        """Make a new record if this process is neither the owner nor a worker."""
        if os.getpid() != self._owner and get_worker_info() is None:
            self._become_owner(self._born)

    def before_start(self) -> dict[str, Any]:
        """Return the values that the next process this thread starts is born with."""
        self._leave()
        self._record.share()
        if os.getpid() != self._owner:
            return self._born
        thread = threading.get_ident()
        self._starts[thread] += 1
        start = {"thread": thread, "start": self._starts[thread]}
        self._births[thread] = {**self._record.read(), **start}
        return self._births[thread]

    def after_fork(self) -> None:
        """Keep the values for this process, whose only thread is the thread that forked."""
        self._born = self._births.pop(threading.get_ident(), self._born)
        self.beginning = threading.RLock()  # a thread that was not forked may have held the lock

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for an independent copy (copy or pickle outside of DataLoader)."""
        self._leave()
        return {"document": self._record.read()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._become_owner(state["document"])


# The cells of this process. The interpreter copies a set of plain references in one step.
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
    arrays = cell._arrays  # noqa: SLF001
    fds = [cell._record.fd, *(() if arrays is None else arrays.fds)]  # noqa: SLF001
    return _rebuilt, ([reduction.DupFd(fd) for fd in fds], cell._owner, born)  # noqa: SLF001


def _rebuilt(fds: list[Any], owner: int, born: dict[str, Any]) -> EpochCell:
    cell = EpochCell.__new__(EpochCell)
    record, *arrays = (fd.detach() for fd in fds)
    shared = SharedArrays(*arrays) if arrays else None
    cell._set_up(owner, SharedRecord(record, _encoded), shared, born)  # noqa: SLF001
    return cell


reduction.ForkingPickler.register(EpochCell, _reduced)


def check_epoch(epoch: int) -> None:
    """Check the number of an epoch.

    Raises:
        TypeError: `epoch` is not an int.
        ValueError: `epoch` is out of range.
    """
    if isinstance(epoch, bool) or not isinstance(epoch, int):
        raise TypeError(f"Expected an epoch as an int, got {epoch!r}")
    if not 0 <= epoch < _MOST_EPOCHS:
        raise ValueError(f"Expected an epoch in [0, {_MOST_EPOCHS}), got {epoch}")


def resolved(order: PassStart, finished: Callable[[Position], bool]) -> Position:
    """Return where a pass begins that follows an order.

    If the order's position is the end of an epoch, the pass begins the next epoch, unless the
    order stays.
    """
    position = order.position
    if not position.progress or order.stays or not finished(position):
        return position
    return _following(position)


def _following(position: Position) -> Position:
    return position.of_epoch((position.epoch + 1) % _MOST_EPOCHS)


def _weighed(position: Position, weights: str) -> Position:
    """Return a position with `weights` if it begins an epoch; a begun epoch keeps its own."""
    if position.weights == weights or position.progress or position.taken:
        return position
    return replace(position, weights=weights)


def _encoded(order: PassStart) -> list[Any]:
    position = order.position
    legs = [[leg.world, leg.workers, leg.delivered] for leg in position.progress]
    of_epoch = [position.seeds, position.weights, position.windows]
    return [position.seed, position.epoch, legs, order.stays, *of_epoch]


def _decoded(encoded: list[Any] | PassStart) -> PassStart:
    """Return an order that a record holds: itself as long as the record is private."""
    if isinstance(encoded, PassStart):
        return encoded
    seed, epoch, legs, stays, seeds, weights, windows = encoded
    progress = tuple(Leg(*leg) for leg in legs)
    of_sources = tuple(window and Window(*window) for window in windows)
    position = Position(seed, epoch, progress, 0, tuple(seeds), weights, of_sources)
    return PassStart(position, stays)


def _last(entries: dict[str, Any], count: int) -> dict[str, Any]:
    return dict(list(entries.items())[-count:])
