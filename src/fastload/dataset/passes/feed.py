"""Feed: a source of batches for a pass; and feeds that wrap another and reopen it after errors."""

from __future__ import annotations

import contextlib
import os
import weakref
from typing import TYPE_CHECKING, Any, Protocol

from typing_extensions import override

from fastload.engine.prepared_engine import PreparedEngine
from fastload.errors import CorruptFileError, FastloadError, SourceChangedError, StorageError, note

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastload.batch.batch import Batch
    from fastload.engine.engine import Engine
    from fastload.plan.position import BatchPosition
    from fastload.runtime.native import core
    from fastload.source.files import SourceFile

__all__ = [
    "ComposedFeed",
    "Feed",
    "OpenFeed",
    "PreparedFeed",
    "RereadFeed",
    "WrappedFeed",
    "weakly",
]


class Feed(Protocol):
    """A source of batches for a pass."""

    def next(self, mark: BatchPosition) -> Batch | None:
        """Return the next batch, with the position `mark`; None at the end."""

    def close(self) -> None:
        """Abandon the batches that are left. Idempotent."""


class OpenFeed(Feed, Protocol):
    """A feed whose batches come from one engine.

    Attributes:
        on_opened: as in `ScanFeed`.
    """

    on_opened: Callable[[core.Scan | None], bool] | None

    @property
    def engine(self) -> Engine:
        """The engine that makes the batches."""

    @property
    def ready(self) -> bool:
        """True if `next` need not wait, and the batches handed out leave room for one more."""

    def begin(self) -> None:
        """Begin the pass, if the feed was opened to prepare the next pass."""


def weakly(method: Callable[..., Any], *arguments: Any) -> Callable[..., Any]:
    """Return a function that calls a method, but does not keep the method's object.

    A feed calls back whoever holds the feed. With a reference to the holder, the two would be a
    cycle: a dataset that is dropped in the middle of a pass would keep its threads and memory until
    Python's garbage collector comes.

    Args:
        method: the method. Once its object is gone, the function returns True: no step is left.
        arguments: the first arguments of each call.
    """
    kept = weakref.WeakMethod(method)

    def call(*more: Any) -> Any:
        bound = kept()
        return True if bound is None else bound(*arguments, *more)

    return call


class WrappedFeed:
    """A feed that passes everything but batches on to another feed.

    Args:
        feed: the feed that the batches come from.
    """

    def __init__(self, feed: OpenFeed) -> None:
        self._feed = feed

    @property
    def engine(self) -> Engine:
        """The engine of the wrapped feed."""
        return self._feed.engine

    @property
    def on_opened(self) -> Callable[[core.Scan | None], bool] | None:
        """The function that prepares the next pass, as in `ScanFeed`."""
        return self._feed.on_opened

    @on_opened.setter
    def on_opened(self, function: Callable[[core.Scan | None], bool] | None) -> None:
        self._feed.on_opened = function

    @property
    def ready(self) -> bool:
        """True if the wrapped feed has a batch ready, as in `ScanFeed`."""
        return self._feed.ready

    def begin(self) -> None:
        """Begin the pass, if the feed was opened to prepare the next pass."""
        self._feed.begin()

    def close(self) -> None:
        """Abandon the batches that are left. Idempotent."""
        self._feed.close()


class _ReopenedFeed(WrappedFeed):
    """A feed that some errors close, and a feed over the rest of the pass replaces.

    Args:
        feed: the feed of the whole pass.
    """

    def __init__(self, feed: OpenFeed) -> None:
        super().__init__(feed)
        self._handed_out = 0  # batches
        self._got: Batch | None = None  # a batch that was not counted yet, because of Ctrl-C
        self._given_up = False  # the feed was closed, and the rest is not open yet

    def _goes_on(self, error: Exception) -> bool:
        """Return whether to open the rest of the pass after an error."""
        raise NotImplementedError

    def _rest_of(self, handed_out: int) -> OpenFeed:
        """Open a feed over the rest of the pass, after what was handed out so far."""
        raise NotImplementedError

    def next(self, mark: BatchPosition) -> Batch | None:
        """Return the next batch, with the position `mark`; None at the end."""
        if self._given_up:  # an error, or Ctrl-C, left the rest unopened
            self._open_rest()
        batch, done = self._got, False
        while batch is None and not done:
            try:
                batch = self._feed.next(mark)
                done = True
            except Exception as error:
                if not self._goes_on(error):
                    raise
                self._reopen()
        if batch is not None:
            self._got = batch
            self._handed_out += 1
            self._got = None
        return batch

    def close(self) -> None:
        """Abandon the batches that are left. Idempotent."""
        self._got = None
        super().close()

    def _reopen(self) -> None:
        on_opened, self._feed.on_opened = self._feed.on_opened, None
        self._given_up = True
        self._feed.close()
        if on_opened is not None:
            on_opened(None)
        self._open_rest()

    def _open_rest(self) -> None:
        self._feed = self._rest_of(self._handed_out)
        self._given_up = False


class PreparedFeed(_ReopenedFeed):
    """A feed over prepared rows, which resumes when a file of them was damaged or gone.

    Args:
        feed: the feed of the whole pass.
        rest: opens a feed over the rest of the pass, given the engine that met an error, the error,
            and the count of batches handed out so far.
    """

    def __init__(
        self,
        feed: OpenFeed,
        rest: Callable[[PreparedEngine, FastloadError, int], OpenFeed],
    ) -> None:
        super().__init__(feed)
        self._rest = rest
        self._error: FastloadError | None = None

    @override
    def _goes_on(self, error: Exception) -> bool:
        of_file = isinstance(error, (CorruptFileError, SourceChangedError, StorageError))
        if not of_file or not isinstance(self.engine, PreparedEngine):
            return False
        assert isinstance(error, FastloadError)
        self._error = error
        return True

    @override
    def _rest_of(self, handed_out: int) -> OpenFeed:
        assert self._error is not None
        assert isinstance(self.engine, PreparedEngine)
        return self._rest(self.engine, self._error, handed_out)


class ComposedFeed(WrappedFeed):
    """A feed over prepared rows that are the source of the dataset: removes a damaged file.

    Args:
        feed: the feed of the pass.
        files: the files of the dataset.
    """

    def __init__(self, feed: OpenFeed, files: Sequence[SourceFile]) -> None:
        super().__init__(feed)
        self._files = files

    def next(self, mark: BatchPosition) -> Batch | None:
        """Return the next batch, with the position `mark`; None at the end."""
        try:
            return self._feed.next(mark)
        except CorruptFileError as error:
            place = error._row_group  # noqa: SLF001 - of this package
            if place is not None:
                with contextlib.suppress(OSError):
                    os.unlink(self._files[place[0]].path)
                note(error, "the file was removed; make the dataset again, which writes it again")
            raise


class RereadFeed(_ReopenedFeed):
    """A feed over files of stores that reads a corrupt row group again, once.

    The answer of a store, or of a proxy before it, may have been wrong.

    Args:
        feed: the feed of the whole pass.
        rest: opens a feed over the rest of the pass, given the count of batches handed out so far.
    """

    def __init__(self, feed: OpenFeed, rest: Callable[[int], OpenFeed]) -> None:
        super().__init__(feed)
        self._rest = rest
        self._tried: set[tuple[int, int]] = set()

    @override
    def _goes_on(self, error: Exception) -> bool:
        return isinstance(error, CorruptFileError) and self.engine.reads_again(error, self._tried)

    @override
    def _rest_of(self, handed_out: int) -> OpenFeed:
        return self._rest(handed_out)
