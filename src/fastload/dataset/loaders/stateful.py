"""StatefulLoader: a loader whose state is what its consumer was handed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from fastload.batch.batch import Batch
from fastload.dataset.resumable import Resumable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sized

__all__ = ["StatefulLoader", "place_of", "read_dataset"]


class StatefulLoader:
    """What all loaders that wrap another share: a length, an epoch and a state.

    Args:
        loader: `DataLoader(ds, batch_size=None)` with a FastParquetDataset, or a mix of some, that
            yields batches; or the dataset itself. Of another one only the length is known.
    """

    def __init__(self, loader: Iterable[Any]) -> None:
        self._loader = loader
        self._last: Batch | None = None
        self._before: dict[str, Any] | None = None  # the state that a pass began with

    def __len__(self) -> int:
        """Batches of this rank in this epoch, delivered and remaining."""
        return len(cast("Sized", self._loader))

    def set_epoch(self, epoch: int) -> None:
        """The next pass is of this epoch; without it each pass is of the next one.

        Raises:
            TypeError, ValueError: it is no epoch, or there is no dataset to tell.
        """
        self._dataset.set_epoch(epoch)
        self._before = None

    def state_dict(self) -> dict[str, Any]:
        """The dataset's state after the last batch that counts as delivered; plain JSON values.

        That of one rank serves all.

        Raises:
            TypeError: there is no dataset whose state it could be.
            ValueError: what was handed out last has no place in the epoch.
        """
        if self._last is None and self._before is not None:
            return self._before
        return self._dataset.state_dict(after=self._last)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next pass goes on right after what `state` says was delivered.

        Raises:
            SourceChangedError: the files are not those of the state.
            ValueError: it is no state, or an argument that decides the order has changed.
            TypeError: there is no dataset to load it.
        """
        self._dataset.load_state_dict(state)
        self._last = self._before = None

    def _keep_state(self) -> None:
        """Goes before a pass, so that there is a state until the first batch is delivered."""
        dataset = _dataset_of(self._loader)
        if dataset is not None and self._last is None and self._before is None:
            self._before = dataset._state_of_next_pass()  # noqa: SLF001

    @property
    def _dataset(self) -> Resumable[Any]:
        return read_dataset(self._loader)

    @property
    def _delivered_before(self) -> int:
        """Batches of the epoch that the next pass finds delivered already."""
        position = self._dataset._next_position()  # noqa: SLF001
        return sum(leg.delivered for leg in position.progress)


def read_dataset(loader: object) -> Resumable[Any]:
    """The FastParquetDataset or mix that a loader reads, or that it is.

    Raises:
        TypeError: it is another loader.
    """
    dataset = _dataset_of(loader)
    if dataset is None:
        other = type(getattr(loader, "dataset", None)).__name__
        raise TypeError(
            "Expected a DataLoader(ds, batch_size=None) around a FastParquetDataset or a mix, got "
            f"{type(loader).__name__} around {other}"
        )
    return dataset


def _dataset_of(loader: object) -> Resumable[Any] | None:
    dataset = loader if isinstance(loader, Resumable) else getattr(loader, "dataset", None)
    return dataset if isinstance(dataset, Resumable) else None


def place_of(batch: object) -> Batch:
    """An empty batch with the place of this one, for `state_dict(after=)`: it holds no memory.

    Raises:
        TypeError: a collate_fn has turned the batch into something else.
    """
    if not isinstance(batch, Batch):
        raise TypeError(
            f"Expected a Batch, got {type(batch).__name__}: only a Batch knows its place in the "
            "epoch, so what a collate_fn does belongs in the training step"
        )
    return Batch((), batch._position)  # noqa: SLF001
