"""A loader that would split among processes what is split among them already."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["refuse_second_split"]


def refuse_second_split(dataset: object, world: Callable[[], int]) -> None:
    """Refuses that Accelerate dispatches or re-shards a dataset that reads its own rank's rows.

    Its loaders tell the dataset the epoch before they take a batch, in every process, and are
    then the active ones of its GradientState.

    Args:
        dataset: that is told the epoch.
        world: how many ranks share its rows. Reading every row in each process, as rank 0 of
            1, leaves the split to Accelerate.

    Raises:
        RuntimeError: such a loader is about to begin a pass.
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
