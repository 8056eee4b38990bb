"""The origin of a batch: the memory that the core wrote, and the values as the core wrote them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from fastload.batch.ragged import Ragged
from fastload.batch.tensor_views import buffer_of

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["BatchOrigin", "is_untouched", "parts_of"]


class BatchOrigin:
    """The memory in which the core wrote the tensors of a batch.

    Args:
        raw: object that owns the memory, and supports the buffer protocol.
        block: the whole memory as a uint8 Tensor, if the tensor exists already.

    Attributes:
        raw: object that owns the memory.
        written: parts (`parts_of`) by name of the values as the core wrote them, in order.
        again: makes the values that the core wrote, over a copy of the memory.
        sender: `transport.Sender` that can send the memory to another process; None if the
            memory cannot be sent.
    """

    __slots__ = ("_block", "again", "raw", "sender", "written")

    def __init__(
        self,
        raw: Any,
        written: dict[str, Any],
        again: Callable[[Any, torch.Tensor], dict[str, Any]],
        block: torch.Tensor | None = None,
    ) -> None:
        self.raw = raw
        self.written = written
        self.again = again
        self.sender: Any = None
        self._block = block

    @property
    def block(self) -> torch.Tensor:
        """The whole memory, as a uint8 Tensor."""
        if self._block is None:
            with torch.inference_mode(mode=False):  # the memory outlives the inference mode
                self._block = buffer_of(self.raw)
        return self._block


def parts_of(value: Any) -> Any:
    """Return a tensor itself, or a Ragged with its parts."""
    if type(value) is Ragged:
        return value, parts_of(value.values), value.offsets, value.kind
    return value


def is_untouched(value: Any, parts: Any, start: int, stop: int) -> bool:
    """Return True if the value is unchanged since the core wrote it between `start` and `stop`.

    `start` and `stop` are addresses. A tensor's `_version` counts the operations that changed the
    tensor in place, in its elements or its shape.
    """
    if type(value) is Ragged:
        if type(parts) is not tuple or value is not parts[0] or value.kind != parts[3]:
            return False
        return is_untouched(value.values, parts[1], start, stop) and is_untouched(
            value.offsets, parts[2], start, stop
        )
    return (
        value is parts
        and not value._version  # noqa: SLF001
        and not value.requires_grad
        and (start <= value.data_ptr() <= stop or not value.numel())
    )
