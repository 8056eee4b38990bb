"""The guards against loaders of Accelerate that split rows, or put batches together, once more."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["refuse_second_batching", "refuse_second_split"]


def refuse_second_batching(dataset: object) -> None:
    """Refuse a loader whose collator, one of transformers, would stack batches of a dataset.

    The plain Trainer makes such a loader. Its collators take batches for rows, and raise no error.
    For the moment of the call, see `refuse_second_split`.

    Args:
        dataset: the dataset whose `set_epoch` was called, which yields batches.

    Raises:
        TypeError: a loader that would stack batches is about to begin a pass.
    """
    loaders = sys.modules.get("accelerate.data_loader")
    if loaders is None:
        return
    active = loaders.GradientState().active_dataloader
    if getattr(active, "dataset", None) is not dataset or active.batch_size is None:
        return
    collate = active.collate_fn
    collate = getattr(collate, "data_collator", collate)  # of the one that removes columns
    module = getattr(collate, "__module__", "")
    if module.startswith("transformers."):
        raise TypeError(
            f"Expected a loader with batch_size=None, got one that stacks {active.batch_size} "
            "batches: use fastload.integrations.transformers.Trainer (the dataset's own batch_size "
            "sets the rows of a batch), or give the plain Trainer dataset.by_index()"
        )


def refuse_second_split(dataset: object, world: Callable[[], int]) -> None:
    """Refuse a loader of Accelerate that dispatches or shards a dataset split among ranks already.

    In every process, a loader of Accelerate calls `set_epoch` of the dataset before the loader
    takes a batch. At this moment the loader is the active loader of Accelerate's GradientState.

    Args:
        dataset: the dataset whose `set_epoch` was called.
        world: returns the number of ranks that share the dataset's rows. With rank 0 of 1, each
            process reads every row, and Accelerate may split the rows.

    Raises:
        RuntimeError: a loader that would split the rows again is about to begin a pass.
    """
    loaders = sys.modules.get("accelerate.data_loader")
    if loaders is None:
        return
    active = loaders.GradientState().active_dataloader
    inner = getattr(active, "dataset", None)
    dispatched = isinstance(active, loaders.DataLoaderDispatcher) and inner is dataset
    sharded = isinstance(inner, loaders.IterableDatasetShard) and inner.dataset is dataset
    if (dispatched or sharded) and world() > 1:
        raise RuntimeError(
            "Expected a loader that reads the rows of its own rank, got one that Accelerate "
            f"{'dispatches from the main process' if dispatched else 'shards once more'}, which "
            "loses rows: write fastload.integrations.accelerate.prepare(accelerator, loader), use "
            "fastload.integrations.transformers.Trainer, or leave the split to Accelerate with "
            "FastParquetDataset(..., rank=0, world_size=1)"
        )
