"""Engine of a pass that reads prepared rows."""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from fastload.engine.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fastload.plan.intervals import Int64s
    from fastload.plan.parts import Places
    from fastload.plan.read_plan import ReadPlan
    from fastload.source.files import SourceFile
    from fastload.steps.steps import Steps

__all__ = ["PreparedEngine"]


class PreparedEngine(Engine):
    """An engine that reads prepared rows, for plans that name the row groups of the source.

    Args:
        arguments: the arguments of `Engine` by name, for the files of prepared rows.
        places: where the row groups of the source lie in these files.
        steps: the steps of the dataset that are left to run.
        lost: the cause of each row group of the source that was unreadable when the rows were
            prepared, by file and row group.
        on_close: called when the engine is closed or deleted.

    Attributes:
        files: the files of prepared rows.
        steps: as the argument.
        lost: as the argument.
    """

    def __init__(
        self,
        arguments: Mapping[str, Any],
        places: Places,
        steps: Steps,
        lost: Mapping[tuple[int, int], str],
        on_close: Callable[[], None],
    ) -> None:
        super().__init__(**arguments)
        self.files: tuple[SourceFile, ...] = arguments["source"].files
        self._end_use = weakref.finalize(self, on_close)
        self._places = places
        self.steps = steps
        self.lost = lost

    @property
    def changed(self) -> set[str]:
        """The paths of the files that are gone, or are no longer those that were opened."""
        return {file.path for file in self.files if not _is_there(file)}

    @override
    def _pieces(self, plan: ReadPlan) -> Int64s:
        return self._places.prepared(plan.pieces)

    @override
    def close(self) -> None:
        """End the threads, and let go of the files. Idempotent."""
        super().close()
        self._end_use()


def _is_there(file: SourceFile) -> bool:
    try:
        status = os.lstat(file.path)
    except OSError:
        return False
    return (status.st_size, status.st_mtime_ns) == (file.size, file.mtime_ns)
