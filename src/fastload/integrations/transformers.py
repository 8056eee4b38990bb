"""Hugging Face's Trainer: each rank reads its own batches, and resumes where the run ended.

    from fastload.integrations.transformers import Trainer

    Trainer(model, args, train_dataset=ds, eval_dataset=FastParquetDataset(..., uneven="keep"))

The dataset's outputs are the arguments of the model's forward(), and the dataset's batch_size is
the size of a batch. The Trainer's `per_device_train_batch_size`, `data_collator` and
`remove_unused_columns` have no effect on the dataset; a `data_collator` is warned about.
"""

from __future__ import annotations

import math
from itertools import repeat
from typing import TYPE_CHECKING, Any

import torch
import transformers
from accelerate.utils import recursively_apply
from torch.utils.data import DataLoader
from transformers.trainer_callback import ExportableState

from fastload.dataset.dataset import FastParquetDataset
from fastload.dataset.mixes.mix import MixedDataset
from fastload.dataset.resumable import Resumable
from fastload.integrations.accelerate import PreparedLoader
from fastload.runtime.user_warnings import warn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accelerate import Accelerator

    from fastload.batch.batch import Batch

__all__ = ["DatasetMixin", "Trainer"]


class DatasetMixin:
    """A mixin for a class derived from transformers.Trainer, to read a FastParquetDataset or a mix.

    Write `class T(DatasetMixin, Seq2SeqTrainer)`. Datasets of other types are treated as usual.

    Training: each pass delivers the dataset's next epoch. A checkpoint holds the position after the
    last batch trained, and train(resume_from_checkpoint=) continues from that position. The Trainer
    counts steps of the present ranks. So on another number of ranks, or with other
    gradient_accumulation_steps, resuming needs `ignore_data_skip=True`; the remaining rows are
    still delivered exactly.

    Evaluation: every row that `uneven` gives to the ranks counts once; rows that "pad" marks as
    repeated do not count. Predictions come in the order of steps, and within a step in the order of
    ranks.

    The batches are finished: the Trainer's data_collator is not called for them, and a Trainer that
    was given one warns.

    Args:
        *args: Positional arguments of the Trainer.
        **kwargs: Keyword arguments of the Trainer.
    """

    args: Any
    accelerator: Any
    train_dataset: Any
    eval_dataset: Any
    callback_handler: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.callback_handler.add_callback(DatasetPlace())
        collator = args[2] if len(args) > 2 else kwargs.get("data_collator")
        self._collator_unused = collator not in (None, transformers.default_data_collator)

    def get_train_dataloader(self) -> Any:
        """Return the loader of the training batches."""
        for callback in self.callback_handler.callbacks:
            if isinstance(callback, DatasetPlace):
                callback.loader = None  # forget the loader of an earlier run
        if not isinstance(self.train_dataset, Resumable):
            return super().get_train_dataloader()  # type: ignore[misc]
        return TrainLoader(self._workers_of(self.train_dataset), self.args.device)

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        """Return the loader of the evaluation batches.

        Args:
            eval_dataset: A dataset, the name of a dataset in the Trainer's `eval_dataset`, or None
                for the Trainer's `eval_dataset`.
        """
        dataset = self.eval_dataset if eval_dataset is None else eval_dataset
        if isinstance(dataset, str):
            dataset = self.eval_dataset[dataset]
        if not isinstance(dataset, Resumable):
            return super().get_eval_dataloader(eval_dataset)  # type: ignore[misc]
        return EvalLoader(self._workers_of(dataset), self.accelerator)

    def get_test_dataloader(self, test_dataset: Any) -> Any:
        """Return the loader of the test batches.

        Args:
            test_dataset: A FastParquetDataset, a mix, or a dataset that the Trainer takes.
        """
        if not isinstance(test_dataset, Resumable):
            return super().get_test_dataloader(test_dataset)  # type: ignore[misc]
        return EvalLoader(self._workers_of(test_dataset), self.accelerator)

    def num_examples(self, dataloader: Any) -> int:
        """Return the number of rows in an epoch, of all ranks together.

        For a mix, return the number of rows of all sources.

        Args:
            dataloader: A loader that this class returned, or a loader that the Trainer takes.
        """
        if isinstance(dataloader, PreparedLoader):
            return _epoch_rows(dataloader)
        return int(super().num_examples(dataloader))  # type: ignore[misc]

    def evaluation_loop(self, dataloader: Any, *args: Any, **kwargs: Any) -> Any:
        """Evaluate the model, and gather from each rank only the rows that count.

        Args:
            dataloader: A loader that this class returned, or a loader that the Trainer takes.
            *args: Further positional arguments of the Trainer's evaluation_loop.
            **kwargs: Keyword arguments of the Trainer's evaluation_loop.
        """
        if isinstance(dataloader, EvalLoader):
            self.gather_function = dataloader.gather  # the base class restores its own
        return super().evaluation_loop(dataloader, *args, **kwargs)  # type: ignore[misc]

    def _workers_of(self, dataset: Resumable) -> DataLoader[Any]:
        args = self.args
        if self._collator_unused:
            self._collator_unused = False  # warn once
            warn(
                f"data_collator has no effect on the batches of a {type(dataset).__name__}, which "
                "are finished: do its work in preprocess= or augment= of the dataset, or give the "
                "plain transformers.Trainer dataset.by_index(), whose rows it collates"
            )
        return DataLoader(
            dataset,
            batch_size=None,
            num_workers=args.dataloader_num_workers,
            pin_memory=args.dataloader_pin_memory and torch.cuda.is_available(),
            persistent_workers=args.dataloader_persistent_workers,
            prefetch_factor=args.dataloader_prefetch_factor,
            multiprocessing_context=getattr(args, "dataloader_multiprocessing_context", None),
        )


class Trainer(DatasetMixin, transformers.Trainer):
    """A transformers.Trainer that reads a FastParquetDataset or a mix; see `DatasetMixin`."""


class TrainLoader(PreparedLoader):
    """The loader of this rank's training batches."""

    def set_epoch(self, epoch: int) -> None:
        """Do nothing: each pass delivers the dataset's next epoch.

        After a run was resumed on another number of ranks, the Trainer counts epochs differently.
        """


class EvalLoader(PreparedLoader):
    """The loader of this rank's evaluation batches, with as many batches on every rank.

    A rank with fewer batches than others repeats its last batch, whose rows then do not count.

    Args:
        loader: `DataLoader(ds, batch_size=None)` with a FastParquetDataset or a mix.
        accelerator: the accelerator that gathers the ranks' results.
    """

    # The Trainer would take the length of a dataset for the number of rows.
    dataset = None  # type: ignore[assignment]

    def __init__(self, loader: DataLoader[Any], accelerator: Accelerator) -> None:
        super().__init__(loader, accelerator.device)
        self._accelerator = accelerator
        self._left = 0  # batches left to hand out
        self._repeated = 0  # how many of these are repeats
        self._rows = 0  # rows of the latest batch
        self._real_rows = [0]  # rows of the latest batch that count, by rank

    def __iter__(self) -> Iterator[Batch]:
        lengths = self._of_all_ranks(len(self))
        if max(lengths) and not min(lengths):
            raise ValueError(
                f"Expected a row for each of {len(lengths)} ranks, got {_epoch_rows(self)}: "
                'evaluate with uneven="pad"'
            )
        self._left = max(lengths)
        self._repeated = max(lengths) - len(self)
        return super().__iter__()

    def _read(self) -> Iterator[Any]:
        batch = None
        for batch in self._loader:
            yield batch
        yield from repeat(batch, self._repeated)

    def _handed_out(self, batch: Batch) -> Batch:
        given = super()._handed_out(batch).copy()
        valid = given.pop("__valid__", None)
        self._rows = given.rows
        real = self._rows if valid is None else int(valid.sum())
        self._real_rows = self._of_all_ranks(real if self._left > self._repeated else 0)
        self._left -= 1
        return given

    def gather(self, values: Any) -> Any:
        """Gather the ranks' results for the latest batch, without rows that do not count.

        Args:
            values: this rank's results: tensors of B rows, nested in tuples and dicts; or one
                value for the whole batch, repeated for each row that the Trainer assumes in the
                batch.

        Returns:
            The results for the rows of all ranks, in the order of ranks.
        """
        return recursively_apply(self._gathered, values)

    def _gathered(self, values: torch.Tensor) -> torch.Tensor:
        if len(values) != self._rows:
            values = values[:1].expand(self._rows)
        counts = self._real_rows
        own = counts[self._accelerator.process_index]
        padded = values.new_zeros(max(counts), *values.shape[1:])
        padded[:own] = values[:own]
        ranks = self._accelerator.gather(padded).split(max(counts))
        return torch.cat([rows[:count] for rows, count in zip(ranks, counts, strict=True)])

    def _of_all_ranks(self, number: int) -> list[int]:
        own = torch.tensor([number], device=self._accelerator.device)
        return [int(one) for one in self._accelerator.gather(own).tolist()]


class DatasetPlace(transformers.TrainerCallback, ExportableState):
    """A callback that saves the dataset's state in checkpoints."""

    def __init__(self) -> None:
        self.loader: TrainLoader | None = None

    def state(self) -> dict[str, Any]:
        """Return the state that the Trainer saves."""
        place = self.loader.state_dict() if self.loader else None
        return {"args": {}, "attributes": {"place": place}}

    def on_train_begin(self, args: Any, state: Any, _control: Any, **kwargs: Any) -> None:
        """Load the dataset's state if the run resumes from a checkpoint."""
        loader = kwargs.get("train_dataloader")
        if not isinstance(loader, TrainLoader):
            return
        self.loader = loader
        saved = state.stateful_callbacks.get(type(self).__name__, {"attributes": {}})
        place = saved["attributes"].get("place")
        if place is None:
            return
        accumulated = args.gradient_accumulation_steps
        steps = max(1, math.ceil(len(loader) / accumulated))
        counted = state.global_step % steps * accumulated
        _, delivered = loader._dataset._epoch_of(place)  # noqa: SLF001
        if counted != delivered and not args.ignore_data_skip:
            raise ValueError(
                f"Expected to resume after {delivered} batches of the epoch, the number in the "
                f"checkpoint, got {counted} by the Trainer's count of steps: the number of ranks "
                "or gradient_accumulation_steps has changed; set ignore_data_skip=True"
            )
        loader.load_state_dict(place)


def _epoch_rows(loader: PreparedLoader) -> int:
    """Return the number of rows in an epoch, of all ranks together; of a mix, of all sources."""
    dataset = loader._dataset  # noqa: SLF001
    if isinstance(dataset, MixedDataset):
        return sum(_rows_of(source.dataset) for source in dataset._of)  # noqa: SLF001
    assert isinstance(dataset, FastParquetDataset)
    return _rows_of(dataset)


def _rows_of(dataset: FastParquetDataset) -> int:
    return dataset._options.limited(dataset._rows.row_groups.total_rows)  # noqa: SLF001
