"""TensorBoard: the share of time that is spent waiting for data, as scalars.

wait = DataWait(loader, on_step=WaitWriter(SummaryWriter()))
for batch in wait:
    ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

    from fastload.dataset.loaders.data_wait import Step

__all__ = ["WaitWriter"]


class WaitWriter:
    """A function for `DataWait(on_step=)` that writes two scalars after every `every` steps.

    The scalars are `TAG/share`, the share of waiting in the time of these steps, between 0 and 1,
    and `TAG/longest_s`, the seconds of the longest wait in these steps. Both are written at the
    number of steps so far.

    Args:
        writer: A SummaryWriter of torch.utils.tensorboard, or any object with its `add_scalar`.
        every: Number of steps from one pair of scalars to the next.
        tag: Prefix of the scalars' names.

    Raises:
        ValueError: `every` is less than 1.
    """

    def __init__(self, writer: SummaryWriter, every: int = 50, tag: str = "data_wait") -> None:
        if every < 1:
            raise ValueError(f"Expected every to be at least 1, got {every}")
        self._writer = writer
        self._every = every
        self._tag = tag
        self._steps = 0
        self._waiting_s = self._working_s = self._longest_s = 0.0

    def __call__(self, step: Step) -> None:
        """Count a step, and write the scalars if they are due."""
        self._steps += 1
        self._waiting_s += step.wait_s
        self._working_s += step.work_s
        self._longest_s = max(self._longest_s, step.wait_s)
        if self._steps % self._every:
            return
        share = self._waiting_s / max(self._waiting_s + self._working_s, 1e-9)
        for name, value in (("share", share), ("longest_s", self._longest_s)):
            self._writer.add_scalar(f"{self._tag}/{name}", value, self._steps)
        self._waiting_s = self._working_s = self._longest_s = 0.0
