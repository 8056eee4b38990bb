"""The iterator of one pass over a loader, which never takes an ended pass for an exhausted one."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

__all__ = ["LoaderPass"]

_Item = TypeVar("_Item")


class LoaderPass(Generic[_Item]):
    """The iterator of one pass, which raises if someone asks for more after the pass was ended.

    An error of the loader and Ctrl-C end the pass too: a generator that raised would behave as
    exhausted, and a loop that continues after the error would lose the rest of the epoch.

    Args:
        items: delivers the items of the pass.
    """

    def __init__(self, items: Generator[_Item]) -> None:
        self._items = items
        self._taken = 0
        self._ended: str | None = None

    def __iter__(self) -> Iterator[_Item]:
        return self

    def __next__(self) -> _Item:
        if self._ended is not None:
            raise RuntimeError(self._ended)
        try:
            item = next(self._items)
        except StopIteration:
            raise
        except BaseException as error:
            if self._exhausted and self._ended is None:
                self._ended = self._cause(
                    type(error).__name__,
                    "call iter() again; load_state_dict(state_dict()) before it continues the "
                    "epoch after the last batch",
                )
            raise
        self._taken += 1
        return item

    def close(self) -> None:
        """Abandon the items that are left, and behave as exhausted from now on. Idempotent."""
        self._items.close()

    def end(self, cause: str, advice: str) -> None:
        """Abandon the items that are left, as `Pass.end` does."""
        exhausted = self._exhausted
        self._items.close()
        if not exhausted:
            self._ended = self._cause(cause, advice)

    @property
    def _exhausted(self) -> bool:
        return inspect.getgeneratorstate(self._items) == inspect.GEN_CLOSED

    def _cause(self, cause: str, advice: str) -> str:
        return f"{cause} ended this pass after {self._taken} batches: {advice}"
