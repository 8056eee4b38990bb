"""Hugging Face Accelerate: each rank reads its own batches.

`accelerator.prepare(DataLoader(ds))` would let the main process alone read an IterableDataset
and hand out slices of its batches, or drop all rows but every n-th: a dataset that reads the
rows of its rank already would lose the others. fastload refuses that; write instead

    loader = prepare(accelerator, DataLoader(ds, batch_size=None))
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any

from accelerate.data_loader import DataLoaderStateMixin
from accelerate.state import GradientState
from torch.utils.data import IterableDataset

from fastload.batch.batch import Batch
from fastload.dataset.loaders.stateful import StatefulLoader, position_only, read_dataset

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import torch
    from accelerate import Accelerator
    from torch.utils.data import DataLoader

__all__ = ["PreparedLoader", "prepare"]


def prepare(accelerator: Accelerator, loader: DataLoader[Any]) -> PreparedLoader:
    """What `accelerator.prepare(loader)` is for other datasets.

    The loader is registered with the accelerator: save_state() saves the place after the last
    batch that the loop got, and load_state() goes on there, in the middle of an epoch too, on any
    number of processes.

    Args:
        accelerator: says which device batches go to.
        loader: `DataLoader(ds, batch_size=None)` with a FastParquetDataset or a mix.

    Raises:
        TypeError: it is another loader.
    """
    device = accelerator.device if accelerator.device_placement else None
    prepared = PreparedLoader(loader, device, non_blocking=accelerator.non_blocking)
    accelerator.register_for_checkpointing(prepared)
    return prepared


class PreparedLoader(StatefulLoader, DataLoaderStateMixin):
    """Hands this rank's own batches to a training loop, on its device.

    It reads one batch ahead to know the last one, at which gradient accumulation ends.
    `accelerator.skip_first_batches` counts from the start of the epoch, so what a loaded state
    says was delivered is not skipped twice. `gather_for_metrics` gathers every row, those that
    `uneven="wrap"` repeats too: where that matters, gather `__valid__` of `uneven="pad"` as well.

    Args:
        loader: `DataLoader(ds, batch_size=None)` with a FastParquetDataset or a mix.
        device: where batches go; None leaves them where they are.
        non_blocking: do not wait for the copies.

    Raises:
        TypeError: it is another loader.
    """

    # As accelerate asks loaders for them: batches come as they are, and none is to be cut when
    # it is gathered (`remainder`).
    batch_size = None
    prefetch_factor = None
    drop_last = False
    _drop_last = True

    def __init__(
        self,
        loader: DataLoader[Any],
        device: torch.device | None = None,
        *,
        non_blocking: bool = False,
    ) -> None:
        read_dataset(loader)  # refuses what has none
        super().__init__(loader)
        self.gradient_state = GradientState()
        self._device = device
        self._non_blocking = non_blocking

    def __iter__(self) -> Iterator[Batch]:
        self._keep_state()
        self.begin()
        ready: Batch | None = None
        try:
            for batch in self._read():
                following = self._placed(batch)
                if ready is not None:
                    yield self._handed_out(ready)
                ready = following
            if ready is not None:
                self.end_of_dataloader = True
                yield self._handed_out(ready)
        finally:
            self.end()

    @property
    def dataset(self) -> IterableDataset[Batch]:
        """The batches of an epoch from its start, as `accelerator.skip_first_batches` counts."""
        return _WholeEpoch(self)

    def _read(self) -> Iterable[Any]:
        return self._loader

    def _placed(self, batch: Batch) -> Batch:
        position_only(batch)
        return batch if self._device is None else batch.to(self._device, self._non_blocking)

    def _handed_out(self, batch: Batch) -> Batch:
        self._last = position_only(batch)
        return batch


class _WholeEpoch(IterableDataset[Batch]):
    """An epoch with an empty batch for each that a loaded state says was delivered."""

    def __init__(self, loader: PreparedLoader) -> None:
        super().__init__()
        self._loader = loader

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Batch]:
        yield from repeat(Batch(), self._loader._delivered_before)  # noqa: SLF001
        yield from self._loader
