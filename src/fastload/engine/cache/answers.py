"""What is done with blocks that were asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from fastload.errors import CorruptFileError

if TYPE_CHECKING:
    from fastload.engine.cache.filler import BlockFiller
    from fastload.runtime._core import DecodedQueue

__all__ = ["Answers", "PassAnswers"]


class Answers(Protocol):
    """Whoever asks for blocks."""

    def opens(self, file: int, row_group: int, written: int) -> bool | None:
        """Takes a block from the cache: None if it is not there, False if it is damaged.

        written: its checksum if it was just written here, else 0.
        """

    def failed(self, file: int, row_group: int, error: BaseException) -> None:
        """There is none, and why."""


class PassAnswers:
    """Hands blocks to the passes that ask for them.

    Attributes:
        failures: by the message that the core was given, what was raised.
    """

    def __init__(self, filler: BlockFiller, queue: DecodedQueue) -> None:
        self.failures: dict[str, BaseException] = {}
        self._filler = filler
        self._queue = queue

    def opens(self, file: int, row_group: int, written: int) -> bool | None:
        """As `Answers` has it."""
        filler, name = self._filler, self._filler.name(file, row_group)
        if not filler.tier.there(name):
            return None
        rows = filler.rows(file, row_group)
        return self._queue.open(
            file, row_group, filler.tier.path(name), name, rows, written=written
        )

    def failed(self, file: int, row_group: int, error: BaseException) -> None:
        """Likewise."""
        if isinstance(error, CorruptFileError):
            self._queue.fail(file, row_group, corrupt=True, message=str(error))
            return
        what = f"{type(error).__name__}: {error}"
        place = self._filler.place(file, row_group)
        message = f"Expected a block of decoded rows, got {what} - at {place}"
        self.failures[message] = error
        self._queue.fail(file, row_group, corrupt=False, message=message)
