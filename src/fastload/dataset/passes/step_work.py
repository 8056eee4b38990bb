"""The work of the steps on one batch of a feed: `preprocess`, then `augment`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastload.errors import note

if TYPE_CHECKING:
    from collections.abc import Generator

    from fastload.batch.batch import Batch
    from fastload.plan.position import BatchPosition
    from fastload.steps.thread_pool import Job

__all__ = ["StepWork"]


class StepWork:
    """The work of the steps on one batch.

    An error is raised in place of the batch; each later call raises a RuntimeError. So it is with
    Ctrl-C in a step.

    Args:
        running: the running steps; None if the scan raised `error`.
        error: the error that the scan raised instead of the batch.

    Attributes:
        batch: the batch, once the steps have finished.
    """

    def __init__(
        self,
        running: Generator[Job, None, Batch] | None,
        error: BaseException | None = None,
    ) -> None:
        self._running = running
        self._job: Job | None = None  # the job that the steps wait for
        self.batch: Batch | None = None
        self._error = error
        self._of_steps = running is not None
        self._ended = ""  # why the pass raises, once an error was raised

    def go_on(self) -> None:
        """Run the steps as far as possible without waiting for threads."""
        while self._running is not None and (self._job is None or self._job.done):
            try:
                self._job = next(self._running)
            except StopIteration as end:
                self.batch, self._running = end.value, None
            except Exception as error:  # noqa: BLE001 - raised in place of the batch
                # Without this frame, which refers to this object: the two would be a cycle.
                tail = error.__traceback__ and error.__traceback__.tb_next
                self._error, self._running = error.with_traceback(tail), None
            except BaseException as error:  # Ctrl-C is raised at once, and only once
                self._ended, self._running = _ended_by(error, " in a step"), None
                raise

    def finish(self, mark: BatchPosition) -> None:
        """Finish the batch at position `mark`, or raise the error of a step with its location."""
        while self._running is not None:
            if self._job is not None:
                self._job.wait()
            self.go_on()
        if self._ended:
            raise RuntimeError(self._ended)
        error, self._error = self._error, None
        try:
            if error is not None:
                # Only its name is kept: a traceback refers to the pass, and they would be a cycle.
                self._ended = _ended_by(error)
                if self._of_steps:
                    delivered = sum(leg.delivered for leg in mark.position.progress) - 1
                    note(error, f"after {delivered} batches of epoch {mark.start.epoch}")
                raise error
        finally:
            del error  # the traceback refers to this frame too
        assert self.batch is not None
        self.batch._position = mark  # noqa: SLF001

    def cancel(self) -> None:
        """Abandon the job that the steps wait for."""
        if self._job is not None:
            self._job.cancel()


def _ended_by(error: BaseException, where: str = "") -> str:
    """Return what a pass says that is asked for more after an error, or after Ctrl-C in a step.

    The values of the step's batch may be half-made.
    """
    return (
        f"{type(error).__name__}{where} ended this pass: call iter() again; "
        "load_state_dict(state_dict()) before it continues the epoch after the last batch"
    )
