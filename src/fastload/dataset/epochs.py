"""The beginning of the next pass, shared by a dataset and its copies in worker processes.

All workers of a DataLoader's iterator must agree on where their pass begins, and DataLoader does
not tell them. They agree through a record in shared memory, under one lock of the kernel:

    number   the number of orders so far; set_epoch and load_state_dict give orders
    next     where the next pass begins
    passes   where the latest passes of workers began, by the name of the pass
    weights  the digest of the weights of epochs that begin from now on

The first worker that arrives takes `next`, enters it under the name of the pass, and sets `next` to
the epoch after. The workers that arrive later find the entry. If the first batch of the pass fails,
worker 0 sets `next` back (`undo`).

*The name of a pass.* DataLoader starts the workers of an iterator in the order of their numbers, on
one thread. Before each start, a hook of fork() or the pickling of the dataset counts the starts of
this thread. The count minus the worker's number is equal among the workers of one iterator, and
differs from that of any other iterator of the thread. Each worker counts its passes. The thread,
this difference and the number of the pass are the name.

*Orders.* An order counts for the passes whose iter() comes later. A process is born with a copy of
the record. If the record has a newer order when a worker begins its first pass, the worker follows
its copy. A later pass follows the newest order: DataLoader's iter() returns once all living workers
have answered, and a worker that has answered goes to the record before its other threads run. (If
the system stops a worker just then, an order that follows iter() at once may come first. Then all
workers of the pass follow the order.) A process that is not a worker, such as a rank that got the
dataset as an argument, makes a record of its own from its copy.

*load_state_dict ends the passes of workers.* Batches carry the number of the order that their pass
follows, and the main process refuses the batches of ended passes (`end_passes`). What a
`collate_fn` makes of batches carries no number. So the workers look into the record, too (`ended`).
Batches that already lie in DataLoader's queue still come.
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
from fastload.runtime.shared_record import SharedArrays, SharedRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    import numpy as np
    from numpy.typing import NDArray

    from fastload.plan.position import Position

__all__ = ["EpochCell", "PassStart", "check_epoch", "resolved"]

_MOST_EPOCHS = 1 << 24
_KEPT_PASSES = 64  # a worker is late by at most one pass of its iterator


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

    _owner: int  # the process that made the record
    _record: SharedRecord
    _arrays: SharedArrays | None  # the weights that were set once a process was started
    _born: dict[str, Any]  # the record when this process was started
    _birth: tuple[int, int]  # the thread that started this process, and its count of starts
    _starts: Counter[int]  # the processes that this process started, by thread
    _passes: int  # how many passes this worker has begun
    _begun: tuple[int, int, int] | None  # the name of this worker's latest pass
    _follows: int  # the number of the order that the latest pass of this process follows
    _ended: EndedPasses | None

    def __init__(self, position: Position) -> None:
        first = {"next": PassStart(position), "weights": position.weights, "workers": None}
        self._become_owner({"number": 0, "latest": None, "ended": (0, "", ""), **first})

    def order_next(self, order: PassStart) -> None:
        """Let the next pass follow an order."""

        def add(document: dict[str, Any]) -> dict[str, Any]:
            number = document["number"] + 1
            document.update(number=number, next=order, latest=None, begun=None)
            return document

        self._born = self._current.change(add)

    def end_passes(self, cause: str, advice: str) -> None:
        """End the passes of workers that follow an older order than the newest.

        Args:
            cause: as for `Pass.end`.
            advice: as for `Pass.end`.
        """

        def end(document: dict[str, Any]) -> int:
            document["ended"] = (document["number"], cause, advice)
            return int(document["number"])

        record = self._current
        if self._is_owner:  # each worker may load a state for the pass of all
            self._ended = EndedPasses(self._born["cell"], record.change(end), cause, advice)

    @property
    def ended(self) -> tuple[str, str] | None:
        """Cause and advice if the main process has ended the latest pass of this worker."""
        number, cause, advice = self._record.read()["ended"]
        return (cause, advice) if self._begun and self._follows < number else None

    @property
    def order(self) -> tuple[str, int]:
        """The id of this cell and the order that the pass of this worker follows; else ("", 0)."""
        return (self._born["cell"], self._follows) if self._begun else ("", 0)

    def set_weights(
        self, weights: str, values: NDArray[np.floating], in_use: Collection[str] = ()
    ) -> None:
        """Let passes that begin an epoch, from now on, have the weights with a digest.

        Args:
            weights: the digest.
            values: the weights.
            in_use: digests of other weights that this process still needs.
        """
        record = self._current
        self._arrays = self._arrays or SharedArrays()
        if self._starts or not self._is_owner:  # a process does without if it is born with them
            self._arrays.put(weights, values, {*in_use, *self.weights_in_use})
        record.change(lambda document: document.update(weights=weights))
        self._born = {**self._born, "weights": weights}

    @property
    def weights_in_use(self) -> set[str]:
        """The digests of the weights that a running or next pass may need, in any process."""
        document = self._current.read()
        # The latest pass of each iterator; in its first pass, a worker has what it was born with.
        passes = {name[:2]: start for name, (_, start) in document["passes"].items()}
        starts = [document["next"].position, document["latest"], *passes.values()]
        return {document["weights"], *(start.weights for start in starts if start)}

    def values_of(self, weights: str) -> NDArray[np.floating] | None:
        """Return a copy of the weights with a digest, if they lie in shared memory."""
        return self._arrays.get(weights) if self._arrays else None

    @property
    def shared_weights(self) -> set[str]:
        """The digests of the weights in shared memory."""
        return self._arrays.names if self._arrays else set()

    def with_newest_weights(self, position: Position) -> Position:
        """Return a position with the newest weights if it begins an epoch."""
        return _with_weights(position, self._current.read()["weights"])

    @property
    def next(self) -> PassStart:
        """The order that the next pass will follow."""
        document = self._current.read()
        order: PassStart = document["next"]
        return replace(order, position=_with_weights(order.position, document["weights"]))

    @property
    def begun_by_worker(self) -> bool:
        """True if a worker process began the latest pass."""
        return self._current.read()["begun"] is not None

    @property
    def latest(self) -> tuple[Position | None, int | None]:
        """Where the latest pass began, and its number of workers for each rank.

        The position is None if no pass has begun since the newest order. The number is None if no
        pass has ever begun.
        """
        document = self._current.read()
        return document["latest"], document["workers"]

    def undo(self, start: Position) -> None:
        """Let the next pass begin where the latest pass of this process began: it takes no epoch.

        Without effect once another pass has begun or another order was given.
        """
        self._replace_next(_following(start), start)

    def redo(self, start: Position) -> None:
        """Let the next pass begin the epoch after that of the latest pass, in spite of `undo`."""
        self._replace_next(start, _following(start))

    def _replace_next(self, before: Position, after: Position) -> None:
        state = {"begun": self._begun, "number": self._follows, "next": PassStart(before)}

        def replace_next(document: dict[str, Any]) -> None:
            if state.items() <= document.items():
                document["next"] = PassStart(after)

        self._current.change(replace_next)

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
        record, info = self._current, get_worker_info()
        self._begun = None
        if not self._is_owner and info is not None:
            self._passes += 1
            thread, starts = self._birth
            self._begun = (thread, starts - info.id, self._passes)
        name = self._begun

        def join(document: dict[str, Any]) -> tuple[PassStart, Position]:
            if name in document["passes"]:
                self._follows, start = document["passes"][name]
                return PassStart(own or start, stays=True), own or start
            born = self._born if name and self._passes == 1 else document
            self._follows = born["number"]
            newest = self._follows == document["number"]
            order = PassStart(own) if own else (document if newest else born)["next"]
            start = _with_weights(own or resolved(order, finished), born["weights"])
            of_all = replace(start, taken=0)
            if name:
                passes = [*document["passes"].items(), (name, (self._follows, of_all))]
                document["passes"] = dict(passes[-_KEPT_PASSES:])
            if newest:
                document.update(next=PassStart(_following(start)), latest=of_all, begun=name)
                document["workers"] = info.num_workers if info else 0
            return order, start

        return record.change(join)

    @property
    def _is_owner(self) -> bool:
        return os.getpid() == self._owner

    @property
    def _current(self) -> SharedRecord:
        """The record; a new one if this process is neither the owner nor a worker."""
        if not self._is_owner and get_worker_info() is None:
            self._become_owner(self._born)
        return self._record

    def _become_owner(self, document: dict[str, Any]) -> None:
        # This cell counts the starts of processes anew, so its passes have the names that passes of
        # another cell had.
        document = {**document, "passes": {}, "begun": None, "cell": secrets.token_hex(8)}
        # Shared memory for weights must exist before a worker starts.
        arrays = SharedArrays() if document["weights"] else None
        self._set_up(os.getpid(), SharedRecord.of(document), arrays, document)

    def _set_up(
        self, owner: int, record: SharedRecord, arrays: SharedArrays | None, born: dict[str, Any]
    ) -> None:
        self._owner, self._record, self._arrays, self._born = owner, record, arrays, born
        self._birth, self._starts, self._passes = (0, 0), Counter(), 0
        self._begun, self._follows, self._ended = None, 0, None
        self.beginning = threading.RLock()
        _cells.add(weakref.ref(self, _cells.discard))

    def before_start(self) -> None:
        """Prepare the birth of a process that this thread starts."""
        record = self._current
        if self._is_owner:
            self._starts[threading.get_ident()] += 1
            self._born = record.read()  # another thread may replace the copy by a newer one

    @property
    def _birth_here(self) -> tuple[int, int]:
        thread = threading.get_ident()
        return (thread, self._starts[thread]) if thread in self._starts else self._birth

    def after_fork(self) -> None:
        """Complete the birth of this process, whose only thread is the thread that forked."""
        self._birth = self._birth_here
        self.beginning = threading.RLock()  # a thread that was not forked may have held the lock

    def reduced_for_process(self) -> tuple[Any, ...]:
        """Reduce the cell for another process, which then takes part in the dataset's passes."""
        self.before_start()
        fds = (self._record.fd, *(self._arrays.fds if self._arrays else ()))
        duplicates = [reduction.DupFd(fd) for fd in fds]
        return _rebuilt, (duplicates, self._owner, self._born, self._birth_here)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for an independent copy (copy or pickle outside of DataLoader)."""
        return self._current.read()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._become_owner(state)


# The cells of this process. The interpreter copies a set of plain references in one step.
_cells: set[weakref.ref[EpochCell]] = set()


def _living_cells() -> list[EpochCell]:
    return [cell for reference in list(_cells) if (cell := reference()) is not None]


def _before_fork() -> None:
    for cell in _living_cells():
        cell.before_start()


def _after_fork() -> None:
    for cell in _living_cells():
        cell.after_fork()


os.register_at_fork(before=_before_fork, after_in_child=_after_fork)


def _rebuilt(fds: list[Any], owner: int, born: dict[str, Any], birth: tuple[int, int]) -> EpochCell:
    cell = EpochCell.__new__(EpochCell)
    record, *arrays = (fd.detach() for fd in fds)
    shared = SharedArrays(*arrays) if arrays else None
    cell._set_up(owner, SharedRecord(record), shared, born)  # noqa: SLF001
    cell._birth = birth  # noqa: SLF001
    return cell


reduction.ForkingPickler.register(EpochCell, EpochCell.reduced_for_process)


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


def _with_weights(position: Position, weights: str) -> Position:
    """Return a position with `weights` if it begins an epoch; a begun epoch keeps its own."""
    begun = position.progress or position.taken
    return position if begun else replace(position, weights=weights)
