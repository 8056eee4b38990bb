"""Block: the argument of a `preprocess` function, and the call of a function with one block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import torch
from typing_extensions import override

from fastload.steps.thread_pool import Job

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from fastload.batch.batch import Batch

__all__ = ["Block", "BlockJob", "Views"]

# The outputs by name. A value is an array or a Ragged, or a tensor if numpy has no array for the
# tensor.
Block: TypeAlias = dict[str, Any]


class _View(NamedTuple):
    """A tensor as an array.

    Attributes:
        tensor: the tensor.
        array: an array over the tensor's memory, which the function gets.
        kept: a second array over the same memory, which no function gets, so that its shape, dtype
            and strides stay.
    """

    tensor: torch.Tensor
    array: NDArray[Any]
    kept: NDArray[Any]


class Views:
    """Views of a batch's tensors as numpy arrays, without copies.

    A Ragged stays a Ragged. A tensor that numpy has no array for (of bfloat16, on a device, or
    with a gradient) stays a tensor.

    Args:
        batch: the rows to view.
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
        """Return a block with the batch's outputs."""
        views = self._views
        return {
            name: views[name].array if name in views else value
            for name, value in self._batch.items()
        }

    def restored(self, name: str, value: Any) -> Any:
        """Return the output's tensor if `value` is the array made from the tensor, else `value`.

        Args:
            name: the output.
            value: what the block holds under that name after the function.
        """
        view = self._views.get(name)
        if view is None or value is not view.array:
            return value
        # The function may have set the shape, dtype or strides of the array.
        return view.tensor if _layout(value) == _layout(view.kept) else value


class BlockJob(Job):
    """Calls a function with a block.

    Args:
        fn: the function to call.
        block: the function's argument.
    """

    def __init__(self, fn: Callable[[Block], Any], block: Block) -> None:
        super().__init__()
        self._fn = fn
        self._block = block
        self._returned: Any = None

    def returned(self) -> Any:
        """Return the function's result. The job has to be done.

        Raises:
            BaseException: the error that the function raised.
            RuntimeError: the job was cancelled.
        """
        self.raise_error()
        return self._returned

    @override
    def chunks(self, threads: int) -> list[tuple[int, int]]:
        """Return a single chunk, because the function takes the whole block."""
        return [(0, 1)]

    @override
    def run(self, start: int = 0, stop: int = 1) -> None:
        """Call the function, and keep its result or its error; raises nothing."""
        if self.done:
            return
        try:
            self._returned = self._fn(self._block)
        except BaseException as error:  # noqa: BLE001 - raised where the batch is asked for
            self._end(error)
            del self  # the traceback refers to this frame, and the job to the error
        else:
            self._end(None)


def _layout(array: NDArray[Any]) -> tuple[Any, ...]:
    return array.shape, array.dtype, array.strides
