"""Lightning: a run that stops in the middle of an epoch resumes with the remaining rows.

    loader = ResumableLoader(DataLoader(ds, batch_size=None))
    trainer = lightning.Trainer(callbacks=[loader])
    trainer.fit(model, loader, ckpt_path=...)

Loaders for validation, tests and predictions, and runs without checkpoints, need no
ResumableLoader: `DataLoader(ds, batch_size=None)` gives each rank its own batches. A
LightningDataModule makes the ResumableLoader in its __init__: Trainer(callbacks=[module.loader]).

    wait = DataWait(DataLoader(ds, batch_size=None))
    trainer = lightning.Trainer(callbacks=[WaitLogger(wait)])
    trainer.fit(model, wait)

logs the share of the time that is spent waiting for data.
"""

from __future__ import annotations

import logging
from collections import deque
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from lightning.pytorch import Callback
from lightning.pytorch.callbacks import Checkpoint

from fastload.dataset.loaders.loader_pass import LoaderPass
from fastload.dataset.loaders.stateful import StatefulLoader, position_only, read_dataset

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from torch.utils.data import DataLoader

    from fastload.batch.batch import Batch
    from fastload.dataset.loaders.data_wait import DataWait

__all__ = ["ResumableLoader", "WaitLogger"]

_log = logging.getLogger("fastload")


class ResumableLoader(StatefulLoader, Callback):
    """A training loader, and the callback that saves its position in the Trainer's checkpoints.

    The position is after the last batch trained, even if the Trainer has fetched more batches.
    Each pass delivers the dataset's next epoch.

    Args:
        loader: `DataLoader(ds, batch_size=None)` with a FastParquetDataset or a mix.

    Raises:
        TypeError: `loader` reads something other than a FastParquetDataset or a mix.
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        read_dataset(loader)  # raises if the loader has no fastload dataset
        super().__init__(loader)
        self._ahead: deque[Batch] = deque()  # positions of batches not trained yet
        self._set_up = False

    def __iter__(self) -> Iterator[Any]:
        return LoaderPass(self._deliver())

    def _deliver(self) -> Generator[Any]:
        if not self._set_up:
            raise RuntimeError(
                "Expected this loader among the Trainer's callbacks, got a Trainer without it: "
                "the callback counts the trained batches; write Trainer(callbacks=[loader])"
            )
        self._keep_state()
        self._ahead.clear()
        for batch in self._loader:
            self._ahead.append(position_only(batch))
            yield batch

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:  # noqa: ARG002
        """Note that the Trainer has this callback; called by Lightning."""
        self._set_up = True

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Check the order of the Trainer's callbacks; called by Lightning.

        Raises:
            RuntimeError: A callback that saves checkpoints comes before this one. Its checkpoints
                would hold the position before the last batch trained.
        """
        del pl_module
        before = takewhile(lambda callback: callback is not self, trainer.callbacks)
        saver = next((each for each in before if isinstance(each, Checkpoint)), None)
        if saver is not None:
            raise RuntimeError(
                "Expected this loader before callbacks that save checkpoints, got one after "
                f"{type(saver).__name__}, whose checkpoints would lack the last batch trained: "
                "write Trainer(callbacks=[loader]), which sorts callbacks, and append nothing to "
                "trainer.callbacks"
            )

    def on_train_batch_end(self, *_: Any) -> None:
        """Keep the position after the batch that was just trained; called by Lightning."""
        self._last = self._ahead.popleft()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Let the next pass continue after the last batch that the state counts as trained.

        Args:
            state_dict: the result of `state_dict`.

        Raises:
            SourceChangedError: The files differ from the files of the state.
            ValueError: `state_dict` is not a saved state, an argument that decides the order has
                changed, or the state changes the number of batches of the epoch, which Lightning
                counts only once.
        """
        batches, (resumed, _) = len(self), self._dataset._epoch_of(state_dict)  # noqa: SLF001
        if resumed != batches:
            raise ValueError(
                f"Expected an epoch of {batches} batches, got one of {resumed} from the state: "
                "Lightning resumes in the middle of an epoch only on the number of ranks that "
                "saved the checkpoint; use a checkpoint from the end of an epoch"
            )
        super().load_state_dict(state_dict)


class WaitLogger(Callback):
    """A callback that logs the times of a DataWait as `NAME/share` and `NAME/waiting_s`.

    `NAME/share` is the share of waiting in the time since the share was last logged;
    `NAME/waiting_s` is the seconds of waiting in all the time so far. Both go to the Trainer's
    loggers (TensorBoard and others). When training ends, the report of the DataWait goes to the
    logger "fastload" at level INFO.

    Args:
        wait: The DataWait that is passed to `Trainer.fit`, or is inside the loader passed to it.
        every: Number of batches from one log entry to the next.
        name: Prefix of the metrics' names.

    Raises:
        ValueError: `every` is less than 1.
    """

    def __init__(self, wait: DataWait[Any], every: int = 50, name: str = "data_wait") -> None:
        if every < 1:
            raise ValueError(f"Expected every to be at least 1, got {every}")
        self._wait = wait
        self._every = every
        self._name = name
        self._before = wait.report()

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Log the metrics after every `every` batches; called by Lightning."""
        del trainer, outputs, batch
        if (batch_idx + 1) % self._every:
            return
        report = self._wait.report()
        pl_module.log(f"{self._name}/share", report.share_since(self._before))
        pl_module.log(f"{self._name}/waiting_s", report.waiting_s)
        self._before = report

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Log the report of the DataWait; called by Lightning."""
        del trainer, pl_module
        _log.info("%s", self._wait.report())
