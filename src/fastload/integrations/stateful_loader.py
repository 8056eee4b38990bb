"""StatefulLoader: a loader whose state is what its consumer was handed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastload.batch import Batch
from fastload.resumable import Resumable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch.utils.data import DataLoader

__all__ = ["StatefulLoader", "place_of"]


class StatefulLoader:
    """What the loaders of all frameworks share: a length, an epoch and a state.

    Args:
        loader: `DataLoader(ds, batch_size=None)` with a FastParquetDataset, or a mix of some, that
            yields batches.

    Raises:
        TypeError: it is another loader.
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        dataset = getattr(loader, "dataset", None)
        if not isinstance(dataset, Resumable):
            raise TypeError(
                "Expected a DataLoader(ds, batch_size=None) around a FastParquetDataset or a mix, "
                f"got {type(loader).__name__} around {type(dataset).__name__}"
            )
        self._loader = loader
        self._dataset = dataset
        self._last: Batch | None = None
        self._before: dict[str, Any] | None = None  # the state that a pass began with

    def __len__(self) -> int:
        """Batches of this rank in this epoch, delivered and remaining."""
        return len(self._loader)

    def set_epoch(self, epoch: int) -> None:
        """The next pass is of this epoch; without it each pass is of the next one."""
        self._dataset.set_epoch(epoch)
        self._before = None

    def state_dict(self) -> dict[str, Any]:
        """The dataset's state after the last batch that counts as delivered; plain JSON values.

        That of one rank serves all.
        """
        if self._last is None and self._before is not None:
            return self._before
        return self._dataset.state_dict(after=self._last)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next pass goes on right after what `state` says was delivered.

        Raises:
            SourceChangedError: the files are not those of the state.
            ValueError: it is no state, or an argument that decides the order has changed.
        """
        self._dataset.load_state_dict(state)
        self._last = self._before = None

    def _keep_state(self) -> None:
        """Goes before a pass, so that there is a state until the first batch is delivered."""
        if self._last is None:
            self._before = self._dataset.state_dict()

    @property
    def _delivered_before(self) -> int:
        """Batches of the epoch that the next pass finds delivered already."""
        position = self._dataset._next_position()  # noqa: SLF001
        return sum(leg.delivered for leg in position.progress)


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
