"""Lightning: a run that stops in mid-epoch goes on with the rows that are left.

    loader = ResumableLoader(DataLoader(ds, batch_size=None))
    trainer = lightning.Trainer(callbacks=[loader])
    trainer.fit(model, loader, ckpt_path=...)

Loaders for validation, tests and predictions, and runs without checkpoints, need none of this:
`DataLoader(ds, batch_size=None)` gives each rank its own batches.

    wait = DataWait(DataLoader(ds, batch_size=None))
    trainer = lightning.Trainer(callbacks=[WaitLogger(wait)])
    trainer.fit(model, wait)

logs how much of the time goes on waiting for data.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from lightning.pytorch import Callback

from fastload.dataset.loaders.stateful import StatefulLoader, position_only, read_dataset

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch.utils.data import DataLoader

    from fastload.batch.batch import Batch
    from fastload.dataset.loaders.data_wait import DataWait

__all__ = ["ResumableLoader", "WaitLogger"]

_log = logging.getLogger("fastload")


class ResumableLoader(StatefulLoader, Callback):
    """A training loader, and the callback that keeps its place in the Trainer's checkpoints.

    The place is after the last batch trained, however many were taken ahead. Each pass is the
    dataset's next epoch.

    Args:
        loader: `DataLoader(ds, batch_size=None)` with a FastParquetDataset or a mix.

    Raises:
        TypeError: it is another loader.
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        read_dataset(loader)  # refuses what has none
        super().__init__(loader)
        self._ahead: deque[Batch] = deque()  # places handed out, not trained yet
        self._told = False

    def __iter__(self) -> Iterator[Any]:
        if not self._told:
            raise RuntimeError(
                "Expected this loader among the Trainer's callbacks, which tell it what was "
                "trained: write Trainer(callbacks=[loader])"
            )
        self._keep_state()
        self._ahead.clear()
        for batch in self._loader:
            self._ahead.append(position_only(batch))
            yield batch

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:  # noqa: ARG002
        """Called by Lightning; see `lightning.Callback`."""
        self._told = True

    def on_train_batch_end(self, *_: Any) -> None:
        """Called by Lightning; see `lightning.Callback`."""
        self._last = self._ahead.popleft()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """The next pass goes on right after what the state says was trained.

        Raises:
            SourceChangedError: the files are not those of the state.
            ValueError: it is no state, an argument that decides the order has changed, or the
                epoch has another number of batches than those to come: Lightning counts them once.
        """
        batches = len(self)
        super().load_state_dict(state_dict)
        if len(self) != batches:
            raise ValueError(
                f"Expected an epoch of {batches} batches, got one of {len(self)} from the state: "
                "Lightning goes on in mid-epoch only with the number of ranks that saved it; "
                "take a checkpoint of an epoch's end"
            )


class WaitLogger(Callback):
    """Logs what a DataWait sees: `NAME/share` and `NAME/waiting_s` every so many batches.

    The share is of the time of the batches since it was logged last, the seconds are of all. They
    go to the Trainer's loggers (TensorBoard and others); the report of `DataWait` goes to the
    logger "fastload" as INFO when training ends.

    Args:
        wait: the DataWait that `Trainer.fit` is given, or that lies inside its loader.
        every: batches.
        name: before the metrics' names.

    Raises:
        ValueError: every is less than 1.
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
        """Called by Lightning; see `lightning.Callback`."""
        del trainer, outputs, batch
        if (batch_idx + 1) % self._every:
            return
        report = self._wait.report()
        pl_module.log(f"{self._name}/share", report.share_since(self._before))
        pl_module.log(f"{self._name}/waiting_s", report.waiting_s)
        self._before = report

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Called by Lightning; see `lightning.Callback`."""
        del trainer, pl_module
        _log.info("%s", self._wait.report())
