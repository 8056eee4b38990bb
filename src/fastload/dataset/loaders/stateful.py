"""StatefulLoader: a loader whose state counts the batches that the consumer received."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from fastload.batch.batch import Batch
from fastload.dataset.resumable import Resumable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sized

__all__ = ["StatefulLoader", "position_only", "read_dataset"]


class StatefulLoader:
    """The base of loaders that wrap another loader: length, epoch and saved state.

    Args:
        loader: `DataLoader(ds, batch_size=None)` with a FastParquetDataset or a mix that yields
            batches, or the dataset itself. With any other loader, only len() works.
    """

    def __init__(self, loader: Iterable[Any]) -> None:
        self._loader = loader
        self._last: Batch | None = None
        self._before: dict[str, Any] | None = None  # the state that a pass began with

    def __len__(self) -> int:
        """Return the number of batches of this rank in this epoch, delivered and remaining."""
        return len(cast("Sized", self._loader))

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next pass; without a call, each pass delivers the next epoch.

        Args:
            epoch: number of the epoch, from 0 on.

        Raises:
            TypeError: `epoch` is not an int, or the loader has no fastload dataset.
            ValueError: `epoch` is out of range.
        """
        self._dataset.set_epoch(epoch)
        self._before = None

    def state_dict(self) -> dict[str, Any]:
        """Return the dataset's state after the last delivered batch, as plain JSON values.

        The state of one rank serves all ranks.

        Raises:
            TypeError: The loader has no fastload dataset.
            ValueError: The latest batch has no position in the epoch.
        """
        if self._last is None and self._before is not None:
            return self._before
        return self._dataset.state_dict(after=self._last)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next pass continue after the last batch delivered in `state`.

        Args:
            state: the result of `state_dict`.

        Raises:
            SourceChangedError: The files differ from the files of the state.
            ValueError: `state` is not a saved state, or an argument that decides the order has
                changed.
            TypeError: The loader has no fastload dataset.
        """
        self._dataset.load_state_dict(state)
        self._last = self._before = None

    def _keep_state(self) -> None:
        """Keep the state before a pass, for `state_dict` until the first batch is delivered."""
        dataset = _dataset_of(self._loader)
        if dataset is not None and self._last is None and self._before is None:
            self._before = dataset._state_of_next_pass()  # noqa: SLF001

    @property
    def _dataset(self) -> Resumable:
        return read_dataset(self._loader)

    @property
    def _delivered_before(self) -> int:
        """Number of batches in the next pass's epoch that were delivered before the pass."""
        dataset = self._dataset
        return dataset._delivered(dataset._next_position())  # noqa: SLF001


def read_dataset(loader: object) -> Resumable:
    """Return the FastParquetDataset or mix of a loader; a dataset is its own loader.

    Raises:
        TypeError: the loader reads something else.
    """
    dataset = _dataset_of(loader)
    if dataset is None:
        other = type(getattr(loader, "dataset", None)).__name__
        raise TypeError(
            "Expected a DataLoader(ds, batch_size=None) around a FastParquetDataset or a mix, got "
            f"{type(loader).__name__} around {other}"
        )
    return dataset


def _dataset_of(loader: object) -> Resumable | None:
    dataset = loader if isinstance(loader, Resumable) else getattr(loader, "dataset", None)
    return dataset if isinstance(dataset, Resumable) else None


def position_only(batch: object) -> Batch:
    """Return an empty batch with the position of a batch, for `state_dict(after=)`.

    The empty batch holds none of the batch's memory.

    Raises:
        TypeError: a DataLoader collates rows, or a collate_fn made something else of the batch.
    """
    if not isinstance(batch, Batch):
        raise TypeError(
            f"Expected a Batch, got {type(batch).__name__}: only a Batch knows its position in the "
            "epoch. Write DataLoader(ds, batch_size=None), and do the work of a collate_fn in "
            "preprocess= or in the training step"
        )
    return Batch((), batch._position)  # noqa: SLF001
