"""Report of the row groups that on_error="skip" left out, shared with worker processes."""

from __future__ import annotations

from multiprocessing import reduction
from typing import Any

from fastload.runtime.shared_record import SharedRecord
from fastload.runtime.user_warnings import warn

__all__ = ["SkipReport"]

_CAUSE_CHARACTERS = 200
# A limit, because the whole record is read and written for each new row group.
_MOST_CAUSES = 2000


class SkipReport:
    """The row groups that were left out, in the order in which they were found.

    A dataset and its copies in worker processes share one report.

    Args:
        entries: for each row group, the index of the file, the index of the row group and the
            cause.
    """

    def __init__(self, entries: list[tuple[int, int, str]] | None = None) -> None:
        self._record = SharedRecord.of({"entries": entries or []})
        self._reported: set[tuple[int, int]] = set()  # the row groups reported by this process

    @property
    def entries(self) -> list[tuple[int, int, str]]:
        """Index of the file, index of the row group and cause, for the row groups of all processes.

        In the order in which the row groups were found.
        """
        return list(self._record.read()["entries"])

    def add(self, file: int, path: str, row_group: int, error: str, instead: str) -> None:
        """Add a row group, unless the report contains it; warn about the dataset's first one.

        Args:
            file: the index of the file.
            path: the path of the file.
            row_group: the index of the row group in the file.
            error: the message of the error.
            instead: what becomes of the epoch, a sentence of the warning.
        """
        if (file, row_group) in self._reported:
            return
        cause = _cause(error, path, row_group)

        def added(document: dict[str, Any]) -> bool:
            entries = document["entries"]
            first = not entries
            if not any(entry[:2] == (file, row_group) for entry in entries):
                entries.append((file, row_group, cause if len(entries) < _MOST_CAUSES else ""))
            return first

        first = self._record.change(added)
        self._reported.add((file, row_group))
        if first:
            warn(
                f"Row group {row_group} of {path} is left out: {cause}. {instead}, because of "
                'on_error="skip"; from now on `skipped` lists such row groups',
            )

    def __getstate__(self) -> dict[str, Any]:
        """Return the entries, for a copy that is not shared."""
        return {"entries": self.entries}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["entries"])  # type: ignore[misc]


def _cause(error: str, path: str, row_group: int) -> str:
    """Shorten the message of an error, and take the file and the row group out of its location."""
    what, at, location = error.rpartition(" - at ")
    inner = location.removeprefix(f"{path}, row group {row_group}").removeprefix(", ")
    cause = error if not at else f"{what} - at {inner}" if inner else what
    # Some messages of libraries have several lines.
    cause = " ".join(cause.split())
    return cause if len(cause) <= _CAUSE_CHARACTERS else cause[: _CAUSE_CHARACTERS - 3] + "..."


def _reduced(report: SkipReport) -> tuple[Any, ...]:
    """Pickle a report for another process, which then adds to the same report."""
    return _rebuilt, (reduction.DupFd(report._record.fd),)  # noqa: SLF001


def _rebuilt(fd: Any) -> SkipReport:
    report = SkipReport.__new__(SkipReport)
    report.__dict__.update(_record=SharedRecord(fd.detach()), _reported=set())
    return report


reduction.ForkingPickler.register(SkipReport, _reduced)
