"""The guard against Accelerate loaders that split rows which the ranks have split already."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["refuse_second_split"]


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
