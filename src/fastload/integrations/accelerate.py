"""Hugging Face Accelerate: each rank reads its own batches.

`accelerator.prepare(DataLoader(ds))` would treat an IterableDataset in one of two ways: the main
process alone reads and hands out slices of its batches, or each process reads and keeps only every
n-th row. A FastParquetDataset already reads only the rows of its rank, so either way would lose
rows. fastload therefore refuses `accelerator.prepare`; write instead

    loader = prepare(accelerator, DataLoader(ds, batch_size=None))
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any

from accelerate.data_loader import DataLoaderStateMixin
from accelerate.state import GradientState
from torch.utils.data import IterableDataset

from fastload.batch.batch import Batch
from fastload.dataset.loaders.loader_pass import LoaderPass
from fastload.dataset.loaders.stateful import StatefulLoader, position_only, read_dataset

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    import torch
    from accelerate import Accelerator
    from torch.utils.data import DataLoader

__all__ = ["PreparedLoader", "prepare"]


def prepare(accelerator: Accelerator, loader: DataLoader[Any]) -> PreparedLoader:
    """Prepare a loader of fastload, in place of `accelerator.prepare(loader)`.

    The loader is registered with the accelerator: save_state() saves the position after the last
    batch that the loop received, and load_state() continues from that position, even in the middle
    of an epoch and on any number of processes.

    Args:
        accelerator: The accelerator, which determines the device of the batches.
        loader: `DataLoader(ds, batch_size=None)` with a FastParquetDataset or a mix.

    Raises:
        TypeError: `loader` reads something other than a FastParquetDataset or a mix.
    """
    device = accelerator.device if accelerator.device_placement else None
    prepared = PreparedLoader(loader, device, non_blocking=accelerator.non_blocking)
    accelerator.register_for_checkpointing(prepared)
    return prepared


class PreparedLoader(StatefulLoader, DataLoaderStateMixin):
    """A loader that hands this rank's own batches to a training loop, on the rank's device.

    The loader reads one batch ahead, to recognize the last batch, where gradient accumulation ends.
    `accelerator.skip_first_batches` counts from the start of the epoch, so batches that a loaded
    state counts as delivered are not skipped twice. `gather_for_metrics` gathers every row,
    including the rows that `uneven="wrap"` repeats. If repeated rows matter, use `uneven="pad"`
    and also gather `__valid__`.

    Args:
        loader: `DataLoader(ds, batch_size=None)` with a FastParquetDataset or a mix.
        device: The device that batches are copied to; None leaves batches where they are.
        non_blocking: True not to wait for the copies.

    Raises:
        TypeError: `loader` reads something other than a FastParquetDataset or a mix.
    """

    # Attributes that accelerate reads from loaders. With these values accelerate passes batches on
    # unchanged, and cuts no batch when batches are gathered (`remainder`).
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
        read_dataset(loader)  # raises if the loader has no fastload dataset
        super().__init__(loader)
        self.gradient_state = GradientState()
        self._device = device
        self._non_blocking = non_blocking

    def __iter__(self) -> Iterator[Batch]:
        return LoaderPass(self._deliver())

    def _deliver(self) -> Generator[Batch]:
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
    """A whole epoch, with an empty batch for each batch that a loaded state counts as delivered."""

    def __init__(self, loader: PreparedLoader) -> None:
        super().__init__()
        self._loader = loader

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Batch]:
        yield from repeat(Batch(), self._loader._delivered_before)  # noqa: SLF001
        yield from self._loader
