"""What on_error="skip" left out, shared by a dataset and its copies in worker processes."""

from __future__ import annotations

from multiprocessing import reduction
from typing import Any

from fastload.runtime.shared_record import SharedRecord
from fastload.runtime.user_warnings import warn

__all__ = ["SkipReport"]

_CAUSE_CHARACTERS = 200
# The record is read and written as a whole for each row group that is new to it.
_MOST_CAUSES = 2000


class SkipReport:
    """The row groups that were left out, in the order in which they were found.

    Args:
        entries: index of the file, row group and cause of each.
    """

    def __init__(self, entries: list[tuple[int, int, str]] | None = None) -> None:
        self._record = SharedRecord.of({"entries": entries or []})
        self._told: set[tuple[int, int]] = set()  # by this process

    @property
    def entries(self) -> list[tuple[int, int, str]]:
        """Index of the file, row group and cause of each, as all processes found them."""
        return [(file, group, cause) for file, group, cause in self._record.read()["entries"]]

    def add(self, file: int, path: str, row_group: int, error: str) -> None:
        """Add a row group, unless it is in the report already; warn of the dataset's first one.

        Args:
            file: index of the file.
            path: of the file.
            row_group: index of the row group in the file.
            error: the message of the error.
        """
        if (file, row_group) in self._told:
            return
        cause = _cause(error, path, row_group)
        with self._record.changed() as document:
            entries = document["entries"]
            known = any(entry[:2] == [file, row_group] for entry in entries)
            first = not entries
            if not known:
                entries.append([file, row_group, cause if len(entries) < _MOST_CAUSES else ""])
        self._told.add((file, row_group))
        if first:
            warn(
                f"Row group {row_group} of {path} is left out: {cause}. Other rows stand in for "
                'its rows, as on_error="skip" has it; from now on `skipped` lists such row groups',
            )

    def __getstate__(self) -> dict[str, Any]:
        """For copies that stand alone."""
        return {"entries": self.entries}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["entries"])  # type: ignore[misc]


def _cause(error: str, path: str, row_group: int) -> str:
    """What went wrong, and where in the row group."""
    what, at, place = error.rpartition(" - at ")
    inner = place.removeprefix(f"{path}, row group {row_group}").removeprefix(", ")
    cause = error if not at else f"{what} - at {inner}" if inner else what
    # Some messages of libraries have several lines.
    cause = " ".join(cause.split())
    return cause if len(cause) <= _CAUSE_CHARACTERS else cause[: _CAUSE_CHARACTERS - 3] + "..."


def _reduced(report: SkipReport) -> tuple[Any, ...]:
    """Reduce the report for another process, which then adds to the same report."""
    return _rebuilt, (reduction.DupFd(report._record.fd),)  # noqa: SLF001


def _rebuilt(fd: Any) -> SkipReport:
    report = SkipReport.__new__(SkipReport)
    report.__dict__.update(_record=SharedRecord(fd.detach()), _told=set())
    return report


reduction.ForkingPickler.register(SkipReport, _reduced)
