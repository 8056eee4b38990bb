"""The base of the datasets: epochs, progress and saved state."""

from __future__ import annotations

import contextlib
import copy
import json
import re
import sys
import warnings
from abc import abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from torch.utils.data import IterableDataset, get_worker_info

from fastload.batch.batch import Batch
from fastload.dataset.epochs import EpochCell, PassStart, check_epoch, resolved
from fastload.plan.options import expect_at_least
from fastload.plan.position import BatchPosition, WorkerSlot, steps_of
from fastload.plan.steps import step_of_leg
from fastload.runtime.digest import digest
from fastload.runtime.hints import refuse_attribute, shortened
from fastload.runtime.user_warnings import warn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray
    from typing_extensions import Self

    from fastload.dataset.passes.running_pass import Pass
    from fastload.dataset.ranks import Rank
    from fastload.plan.options import Window
    from fastload.plan.position import Position
    from fastload.plan.steps import StepOfLeg

__all__ = ["PASS_OF_MIX", "Resumable"]

# Messages for whoever uses a pass that was ended: the cause, and what to write instead.
_SECOND_ITER = (
    "A second iter() of the dataset",
    (
        "a dataset has one pass at a time. To read the dataset while a pass is running, iterate "
        "over a copy: itertools.islice(copy.copy(dataset), 5)"
    ),
)
_LOADED = ("load_state_dict()", "call iter() again to continue from the loaded state")
_CLOSED = ("close() of the dataset", "close the dataset after its last pass")
PASS_OF_MIX = (
    "A pass of a mix that the dataset belongs to",
    (
        "the mix reads its datasets itself. To read the dataset beside the mix, iterate over a "
        "copy: itertools.islice(copy.copy(dataset), 5)"
    ),
)
_LOST_POSITION = (
    "a collate_fn or a function that makes a new dict loses the position: let it change the Batch "
    "and return it"
)
# A DataLoader keeps the len() that it was last asked for, and takes a dataset whose later epoch has
# more batches for one that its workers deliver several times. The filter that ignores its warning,
# as an entry of `warnings.filters`.
_TORCH_WARNING = r"Length of IterableDataset (FastParquetDataset|MixedDataset)\b"
_TORCH_FILTER = ("ignore", re.compile(_TORCH_WARNING, re.IGNORECASE), UserWarning, None, 0)


class Resumable(IterableDataset[Batch]):
    """An IterableDataset that delivers one epoch per pass and can save what it has delivered.

    Args:
        first: the position where the first pass begins.
    """

    def __init__(self, first: Position) -> None:
        super().__init__()
        self._seeds = len(first.seeds)
        self._epochs = EpochCell(first)
        self._loaded: PassStart | None = None  # order of the running pass, if loaded
        self._own: Position | None = None  # loaded by this worker for itself alone
        self._epoch_set: int | None = None  # by set_epoch, since the latest pass began
        self._closed = False
        self._pass: Pass | None = None
        self._consuming_s = 0.0

    @abstractmethod
    def _resolved_rank(self) -> Rank:
        """Return the rank of this process, which stays the same from the first call on."""

    @abstractmethod
    def _batches(self, position: Position, rank: int | None) -> int:
        """Return how many batches a rank has left in an epoch; None = the rank with the most."""

    @abstractmethod
    def _encoded(self, position: Position, worker: tuple[int, int] | None = None) -> dict[str, Any]:
        """Return the state of a position.

        With `worker`, the position is that of a worker's own share: its number and of how many.
        """

    @abstractmethod
    def _identity(self) -> dict[str, Any]:
        """Return the part of a state that identifies the files and their order."""

    @cached_property
    def _digest(self) -> str:
        """A digest of the files and their order, the same in worker processes and for copies."""
        return digest(json.dumps(self._identity(), sort_keys=True))[:16]

    @abstractmethod
    def _decoded(
        self, state: Mapping[str, Any], worker: tuple[int, int] | None
    ) -> tuple[Position, bool]:
        """Return the position of a state, and True if the state is that of this worker alone.

        Raises the errors of `load_state_dict`.
        """

    @abstractmethod
    def _use_windows(self, windows: tuple[Window | None, ...]) -> None:
        """Take over the shuffle windows of a loaded state, as `Position` has them."""

    @abstractmethod
    def _in_windows(
        self, windows: tuple[Window | None, ...]
    ) -> contextlib.AbstractContextManager[object]:
        """Take over shuffle windows for a with block."""

    @abstractmethod
    def _rows_of(
        self, position: Position, steps: Iterable[StepOfLeg], rank: int | None
    ) -> dict[str, NDArray[Any]]:
        """Return the rows of steps of an epoch, as `rows_of` does.

        Args:
            position: a position in the epoch.
            steps: the steps.
            rank: number of one rank; None = all ranks.
        """

    def __len__(self) -> int:
        """Return the number of batches of this rank in an epoch, delivered and remaining.

        The epoch is that of the running pass, or of
        the next pass if no pass is running. With `weights`, with a `TokenBudget` and shuffle, and
        with `pack` over several windows, epochs differ a little in their number of batches.
        """
        if _TORCH_FILTER not in warnings.filters:  # else all warnings would be shown once more
            warnings.filterwarnings("ignore", _TORCH_WARNING, UserWarning)
        return self._length_at(self._epoch_position())

    def _length_at(self, position: Position) -> int:
        """Return the number of batches of this rank in the epoch of a position."""
        left = self._batches(position, self._resolved_rank().rank)
        return self._delivered(position) + left

    def _delivered(self, position: Position) -> int:
        """Return the number of batches of each rank in the epoch before a position."""
        return steps_of(position.progress)

    def __getitem__(self, index: Any) -> NoReturn:
        """Refuse the number of a row: a dataset is read by iteration.

        Raises:
            TypeError: Always; the message says what to write instead.
        """
        # A mix has sources that can do this.
        where = "" if hasattr(self, "by_index") else " of a source"
        numbers = f"[{index}]" if type(index) is int else "numbers"
        raise TypeError(
            f"A {type(self).__name__} is read by iteration and has no item [{shortened(index)}]: "
            f"for rows by number call take({numbers}) or by_index(){where}, to look at rows call "
            f"head(5){where}, to read a part of the rows pass split=, filters= or limit={where}"
        )

    if not TYPE_CHECKING:  # type checkers refuse unknown attributes themselves

        def __setattr__(self, name: str, value: Any) -> None:
            refuse_attribute(self, name, self._instead_of_setting)
            super().__setattr__(name, value)

    @staticmethod
    @abstractmethod
    def _instead_of_setting(name: str) -> str:
        """Return what to write instead of setting an attribute; "" = nothing."""

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next pass, also in worker processes that are already running.

        If a loaded state is of this epoch, its progress is kept. Otherwise the progress is dropped,
        with a warning.

        Args:
            epoch: number of the epoch, from 0 on.

        Raises:
            TypeError: `epoch` is not an int, or the plain Trainer of transformers is about to stack
                batches.
            ValueError: `epoch` is out of range.
            RuntimeError: Accelerate is about to split rows that the ranks have split already.
        """
        check_epoch(epoch)
        self._check_active_loader()
        self._epoch_set = epoch
        loaded = self._epochs.next.position
        self._loaded = None
        if loaded.progress and loaded.epoch == epoch:
            self._give(PassStart(loaded, stays=True))
            return
        if loaded.progress and not (self._is_finished(loaded) and epoch == loaded.epoch + 1):
            warn(
                f"The loaded state is of epoch {loaded.epoch}; set_epoch({epoch}) drops its "
                "progress",
            )
        self._give(PassStart(loaded.of_epoch(epoch)))

    def state_dict(self, after: Batch | None = None) -> dict[str, Any]:
        """Return a record of what was delivered, as plain JSON values.

        Args:
            after: The last delivered batch of this dataset, even if a loader wraps the dataset.
                None means the latest batch that iter() handed out in this process.

        Raises:
            ValueError: `after` is no batch of a dataset, or is one of a mix where the dataset is
                none, or the reverse, or is one of a dataset with other files or in another order.
            RuntimeError: `after` is None while worker processes iterate over the dataset. Only a
                batch tells how far the consumer of the workers has come.
        """
        if after is not None:
            mark = getattr(after, "_position", None)
            if not isinstance(mark, BatchPosition):
                raise ValueError(
                    f"Expected a batch that a {type(self).__name__} yielded, got "
                    f"{type(after).__name__} without a position ({_LOST_POSITION})"
                )
            position = mark.position
            if len(position.seeds) != self._seeds:
                raise ValueError(
                    f"Expected a batch that this {type(self).__name__} yielded, got one of another "
                    "dataset: a batch of a mix belongs to the mix, not to a source of the mix"
                )
            if mark.of not in ("", self._digest):
                raise ValueError(
                    f"Expected a batch that this {type(self).__name__} yielded, got one of another "
                    "dataset, with other files or in another order: pass the last batch trained, "
                    "and give the batches of an evaluation a variable of their own"
                )
        elif (info := get_worker_info()) is not None:
            return self._state_of_worker((info.id, info.num_workers))
        elif self._epochs.begun_by_worker:
            raise RuntimeError(
                "Expected state_dict(after=batch), got no batch: worker processes iterate this "
                "dataset, and only a batch tells how far the consumer has come"
            )
        elif (running := self._pass) is not None:  # another thread may begin a pass
            position = running.mark.position
            if (loaded := self._loaded) is not None and running.untouched:
                # Not the epoch after a finished one: StatefulDataLoader says beside the state that
                # the epoch is finished, and so begins two passes if the state is loaded again.
                position = loaded.position
        else:
            position = self._epochs.next.position
        return self._encoded(position)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next iter() continue after the last batch delivered in `state`.

        The number of ranks may differ from the number that saved the state. The seed is that of the
        state from now on. A state of a finished epoch continues with the next epoch, unless
        `set_epoch`, before or after the load, names the epoch of the state: then the next pass is
        empty.

        Args:
            state: the result of `state_dict`.

        Raises:
            SourceChangedError: The files differ from the files of the state.
            ValueError: `state` is not a saved state, or an argument that decides the order has
                changed.
        """
        info = get_worker_info()
        worker = None if info is None else (info.id, info.num_workers)
        position, own = self._decoded(state, worker)
        self._end_pass(*_LOADED)
        self._use_windows(position.windows)
        if own:
            self._own = position
            return
        self._loaded = None
        # StatefulDataLoader loads a state in iter(), which a loop over epochs calls after
        # set_epoch: the epoch of a state that leaves no batch is then over, as if set_epoch came
        # after the load.
        self._give(PassStart(position, stays=position.epoch == self._epoch_set))
        self._epochs.end_passes(*_LOADED)

    def rows_of(
        self, step: int | range, rank: int | None = None, *, num_workers: int | None = None
    ) -> dict[str, NDArray[Any]]:
        """Return the rows of a step of this epoch, without reading data.

        A step is one batch of each rank. Steps count from 0 at the beginning of the epoch, through
        all resumes: for steps before the latest resume, the numbers of ranks and workers are those
        that the state holds. This epoch is the epoch of the latest pass, or after `set_epoch` and
        `load_state_dict` the epoch of the next pass.

        Rows come in the order of the batch, rank by rank, and step by step for a range. A row that
        "wrap" or "pad" repeats appears as often as the batch has it. With on_error="skip", the rows
        are those that were planned, not their substitutes.

        Example:
            ds = FastParquetDataset("train", columns=["f1"], shuffle=True)
            rows = ds.rows_of(1)
            ds.files[rows["file"][0]], rows["row_group"][0], rows["row"][0]

        Args:
            step: Number of the step, or a range of numbers.
            rank: Number of one rank, or None for the rows of all ranks.
            num_workers: Number of the DataLoader's workers after the latest resume.
                None means those of the latest pass, or before the first pass those of the loaded
                state, or else 0.

        Returns:
            Three int64 arrays (rows,). "file" is the index in `files`, "row_group" the number of
            the row group in the file, and "row" the number of the row in the file. A mix adds
            "source", the names of the sources.

        Raises:
            TypeError: `step` is neither an int nor a range, or `rank` or `num_workers` is no int.
            ValueError: The epoch has no such step, the step ran on fewer ranks, or `num_workers`
                is negative.
        """
        if isinstance(step, bool) or not isinstance(step, (int, range)):
            raise TypeError(f"Expected step as an int or a range, got {step!r}")
        for name, number in (("rank", rank), ("num_workers", num_workers)):
            if number is not None and type(number) is not int:
                raise TypeError(f"Expected {name} as an int, got {number!r}")
        expect_at_least(0, num_workers=num_workers or 0)
        position, workers = self._epochs.latest
        if position is None:
            position = self._next_position()
        if num_workers is None:
            num_workers = workers
        if num_workers is None:
            num_workers = position.progress[-1].workers if position.progress else 0
        world, legs = self._resolved_rank().world, position.progress
        steps = [step] if isinstance(step, int) else step
        # One by one: the first step that the epoch does not have ends a range that is too long.
        places = (step_of_leg(legs, world, num_workers, number) for number in steps)
        return self._rows_of(position, places, rank)

    def close(self) -> None:
        """End the pass: asked for more, its iterator raises. Batches stay valid. Idempotent."""
        self._closed = True
        if (running := self._pass) is not None:
            running.end(*_CLOSED)

    def _expect_open(self) -> None:
        if self._closed:
            raise RuntimeError("Expected an open dataset, got one that was closed")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __copy__(self) -> Self:
        # A shallow copy would share the epoch, and closing either would close both.
        return copy.deepcopy(self)

    def __getstate__(self) -> dict[str, Any]:
        self._resolved_rank()
        # The running pass belongs to this process.
        return {**self.__dict__, "_pass": None, "_loaded": None}

    @contextlib.contextmanager
    def _beginning(self) -> Iterator[tuple[Position, WorkerSlot]]:
        """Begin a pass in the with block, and end the pass before.

        Of several threads that begin passes, each ends the pass of the thread before. If an error
        ends the block, the next pass of this process begins where this pass would have begun.

        Yields:
            The position where the pass begins, and the worker slot of this process.
        """
        with self._epochs.beginning:
            self._expect_open()
            # A worker process reads nothing here: see `_begin`.
            order = self._epochs.next if get_worker_info() is None else None
            try:
                yield self._begin()
            except BaseException:
                if order is not None:
                    self._epochs.order_next(order)
                raise

    def _begin(self) -> tuple[Position, WorkerSlot]:
        # `_begin_pass` comes before anything that lets other threads run: in a persistent worker
        # process, another thread is about to report to DataLoader that the pass has begun.
        start = self._begin_pass()
        rank = self._resolved_rank()
        rank.check_unchanged()
        self._end_pass(*_SECOND_ITER)
        info = get_worker_info()
        workers, worker = (1, 0) if info is None else (info.num_workers, info.id)
        return start, WorkerSlot(rank.world, workers, worker, rank.rank)

    def _is_finished(self, position: Position) -> bool:
        """Return True if no rank has a batch left in the epoch."""
        return not self._batches(position, rank=None)

    def _epoch_position(self) -> Position:
        """Return the position where the running pass began, or where the next pass begins."""
        running = self._pass
        return running.start if running and not running.finished else self._next_position()

    def _next_position(self) -> Position:
        """Return the position where the next pass begins."""
        return self._position_of(self._epochs.next)

    def _position_of(self, order: PassStart) -> Position:
        return self._epochs.with_newest_weights(resolved(order, self._is_finished))

    def _epoch_of(self, state: Mapping[str, Any]) -> tuple[int, int]:
        """Return the batches of this rank in the epoch that a state continues, and those delivered.

        Raises the errors of `load_state_dict`.
        """
        position = self._decoded(state, None)[0]
        with self._in_windows(position.windows):
            position = self._position_of(PassStart(position))
            return self._length_at(position), self._delivered(position)

    def _state_of_next_pass(self) -> dict[str, Any]:
        """Return the state with which the next pass begins, once the running pass is over."""
        return self._encoded(self._epochs.next.position)

    def _state_of_worker(self, worker: tuple[int, int]) -> dict[str, Any]:
        """Return the state of this worker alone. StatefulDataLoader saves one state per worker."""
        position = self._own or self._next_position()
        if self._pass is not None:
            position = self._pass.own_position
        return self._encoded(position, worker)

    def _seconds_between_batches(self) -> float:
        """Return the seconds that the consumer of the passes has spent between batches."""
        running = self._pass
        return self._consuming_s + (running.consuming_s if running else 0.0)

    def _give(self, order: PassStart) -> None:
        self._epochs.order_next(order)

    def _begin_pass(self) -> Position:
        here = get_worker_info() is None
        if here and self._loaded and self._pass and self._pass.untouched:
            # At a finished epoch, StatefulDataLoader begins a pass, discards the pass, and begins
            # the pass that it uses.
            self._epochs.order_next(self._loaded)

        def finished(position: Position) -> bool:
            self._use_windows(position.windows)
            return self._is_finished(position)

        order, start = self._epochs.begin(finished, self._own)
        self._use_windows(start.windows)
        self._loaded = order if here and order.position.progress else None
        self._own = self._epoch_set = None
        return start

    def _end_pass(self, cause: str, advice: str) -> None:
        """End the running pass; arguments as for `Pass.end`."""
        running, self._pass = self._pass, None
        if running is not None:
            running.end(cause, advice)
            self._consuming_s += running.consuming_s

    def _check_active_loader(self) -> None:
        """Refuse a loader of Accelerate that splits rows, or puts batches together, once more.

        In every process, a loader of Accelerate calls `set_epoch` of the dataset before the loader
        takes a batch. At this moment the loader is the active loader of Accelerate's GradientState.

        Raises:
            TypeError: the loader would stack batches. The plain Trainer of transformers makes such
                a loader: its collators take batches for rows, and raise no error.
            RuntimeError: the loader dispatches or shards rows that are split among ranks already.
                With rank 0 of 1, each process reads every row, and Accelerate may split the rows.
        """
        loaders = sys.modules.get("accelerate.data_loader")
        if loaders is None:
            return
        active = loaders.GradientState().active_dataloader
        inner = getattr(active, "dataset", None)
        if inner is self and active.batch_size is not None:
            collate = active.collate_fn
            collate = getattr(collate, "data_collator", collate)  # of the one that removes columns
            if getattr(collate, "__module__", "").startswith("transformers."):
                raise TypeError(
                    "Expected a loader with batch_size=None, got one that stacks "
                    f"{active.batch_size} batches: use "
                    "fastload.integrations.transformers.Trainer (the dataset's own batch_size sets "
                    "the rows of a batch), or give the plain Trainer dataset.by_index()"
                )
        dispatched = isinstance(active, loaders.DataLoaderDispatcher) and inner is self
        sharded = isinstance(inner, loaders.IterableDatasetShard) and inner.dataset is self
        if (dispatched or sharded) and self._resolved_rank().world > 1:
            raise RuntimeError(
                "Expected a loader that reads the rows of its own rank, got one that Accelerate "
                f"{'dispatches from the main process' if dispatched else 'shards once more'}, "
                "which loses rows: write fastload.integrations.accelerate.prepare(accelerator, "
                "loader), use fastload.integrations.transformers.Trainer, or leave the split to "
                "Accelerate with FastParquetDataset(..., rank=0, world_size=1)"
            )
