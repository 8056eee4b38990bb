"""What a function of `preprocess` is given: the outputs of some rows, as numpy arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import torch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fastload.batch.batch import Batch

__all__ = ["Block", "Views"]

# Of arrays and Raggeds; what numpy has no array for is a tensor.
Block: TypeAlias = dict[str, Any]


class _View(NamedTuple):
    """An array over a tensor's memory, and another one that nobody else has."""

    tensor: torch.Tensor
    array: NDArray[Any]
    kept: NDArray[Any]


class Views:
    """The outputs of a batch as a block has them, without a copy.

    A Ragged stays one. So does a tensor that numpy has no array for: of bfloat16, on a device,
    or with a gradient.

    Args:
        batch: some rows.
    """

    def __init__(self, batch: Batch) -> None:
        self._views: dict[str, _View] = {}
        self._batch = batch
        for name, value in batch.items():
            if isinstance(value, torch.Tensor):
                try:
                    array = value.numpy()
                except (TypeError, RuntimeError):
                    continue
                self._views[name] = _View(value, array, array.view())

    def block(self) -> Block:
        """The block."""
        views = self._views
        return {
            name: views[name].array if name in views else value
            for name, value in self._batch.items()
        }

    def restored(self, name: str, value: Any) -> Any:
        """The tensor, if the value is the array of that output; else the value."""
        view = self._views.get(name)
        if view is None or value is not view.array:
            return value
        # Shape, dtype and strides of an array can be set, too.
        return view.tensor if _layout(value) == _layout(view.kept) else value


def _layout(array: NDArray[Any]) -> tuple[Any, ...]:
    return array.shape, array.dtype, array.strides
