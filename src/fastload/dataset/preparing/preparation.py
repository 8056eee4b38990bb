"""Preparation: the writing of a dataset's rows after `preprocess` to the files of a folder."""

from __future__ import annotations

import contextlib
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fastload.engine.first_rows import fields_after, first_rows
from fastload.plan.parts import Part, parts_of, rows_of
from fastload.runtime.digest import digest
from fastload.runtime.progress import showing
from fastload.runtime.version import __version__
from fastload.steps.step_digest import code_of
from fastload.steps.steps import FILE, RESERVED, ROW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fastload.dataset.preparing.cache_folder import CacheFolder
    from fastload.dataset.preparing.folder import Folder
    from fastload.dataset.preparing.part_writer import PartWriter
    from fastload.dataset.process_engine import ProcessEngine
    from fastload.plan.sequence import RowGroups
    from fastload.steps.steps import Steps

__all__ = ["Preparation"]


@dataclass(frozen=True, slots=True)
class Preparation:
    """All that decides the prepared rows of a dataset, and the means to make them.

    Attributes:
        engines: the arguments for making engines, of the columns that the steps get.
        steps: the steps of `preprocess`.
        identity: digest of the files and of the rows that stay.
        places: the files hold the file and number of each row in the source.
        skips: an unreadable row group is written as one without rows.
    """

    engines: ProcessEngine
    steps: Steps
    identity: str
    places: bool = False
    skips: bool = False

    def write(
        self,
        folder: Folder | CacheFolder,
        progress: bool | Callable[[int, int], None],
        *,
        jobs: int = 1,
        of: int = 1,
        share: tuple[int, int] = (0, 1),
    ) -> None:
        """Write all rows that are missing in a folder.

        Args:
            folder: the folder.
            progress: as for `fastload.prepare`.
            jobs: number of processes that write.
            of: number of processes that divide the memory budget, this one among them.
            share: number of the share to write, and number of shares.

        Raises:
            UnpreparableError: Parquet has no column for an output, or a cache has no room.
            ValueError: the folder holds other files.
            OSError: the folder can't be written to.
        """
        parts = self.parts
        missing = folder.begin([part.file for part in parts])
        parts = parts[share[0] :: share[1]]
        total = sum(rows_of(self._row_groups, part) for part in parts)
        if not missing:
            if callable(progress):
                progress(total, total)
            return
        with showing(progress) as show:
            done = 0
            show(done, total)
            for rows in self._written(folder, parts, jobs, of):
                done += rows
                show(done, total)
        if share[1] == 1:
            folder.end()

    def _written(
        self, folder: Folder | CacheFolder, parts: list[Part], jobs: int, of: int
    ) -> Iterator[int]:
        """Yield the rows of each part, once its file is there."""
        if jobs == 1:
            with contextlib.closing(self.writer(folder, of)) as writer:
                yield from writer.write(parts)
            return
        context = multiprocessing.get_context("forkserver")
        with ProcessPoolExecutor(jobs, context) as processes:
            shares = [parts[number::jobs] for number in range(jobs)]
            waiting = [
                processes.submit(_write_share, self, folder, jobs, share) for share in shares
            ]
            for future in waiting:
                yield from future.result()

    def writer(self, folder: Folder | CacheFolder, jobs: int) -> PartWriter:
        """Return the writer of one of `jobs` processes."""
        # Not at the top, because pyarrow.parquet takes a while to import.

        from fastload.dataset.preparing.part_writer import PartWriter

        kept = (FILE, ROW) if self.places else ()
        return PartWriter(
            self.engines,
            self.steps,
            folder,
            jobs,
            left_out=[name for name in RESERVED if name not in kept],
            skips=self.skips,
        )

    @property
    def _row_groups(self) -> RowGroups:
        return self.engines.rows.row_groups

    @property
    def parts(self) -> list[Part]:
        """The rows of each file."""
        return parts_of(self._row_groups, self.engines.projection.row_bytes)

    def resizes(self) -> bool:
        """Return whether the steps change the number of the first rows."""
        with contextlib.closing(self.engines.another(inline=True)) as engine:
            batch = first_rows(engine, self._row_groups, skip=self.skips)
        before = batch.rows
        _, after = fields_after(self.steps, batch, {}, 0, self.engines.source.files)
        return after.rows != before

    def key(self, version: str | None = None) -> str:
        """Return a digest of all that decides the rows.

        Args:
            version: a text that stands for the code of functions, or None.

        Raises:
            TypeError: a function refers to an object that has no digest, and `version` is None.
        """
        columns = [replace(column, leaves=()) for column in self.engines.projection.columns]
        code = code_of(self.steps.preprocess, version)
        how = f"places={self.places} skips={self.skips} {__version__}"
        return digest(self.identity, repr(columns), repr(self.engines.outputs), code, how)


def _write_share(
    preparation: Preparation, folder: Folder | CacheFolder, jobs: int, parts: list[Part]
) -> list[int]:
    with contextlib.closing(preparation.writer(folder, jobs)) as writer:
        return list(writer.write(parts))
