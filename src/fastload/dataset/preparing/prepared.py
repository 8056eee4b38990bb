"""The prepared rows of a dataset in its cache, and the engines that read them."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from torch.utils.data import get_worker_info

from fastload.dataset.preparing.cache_folder import CacheFolder, PreparedTier
from fastload.dataset.preparing.errors import UnpreparableError
from fastload.dataset.preparing.preparation import Preparation
from fastload.engine.prepared_engine import PreparedEngine
from fastload.errors import CorruptFileError, FastloadError
from fastload.plan.parts import Part, Places, groups_of, parts_of, without
from fastload.runtime.digest import digest
from fastload.runtime.disk.cache import tell_once
from fastload.runtime.progress import ProgressLine
from fastload.schema.projection import plan_columns
from fastload.schema.stored_fields import lost_row_groups
from fastload.source.source import Source
from fastload.source.stores.raw_tier import identity_of
from fastload.source.stores.store import shown
from fastload.steps.kernel_plan import extra_outputs, plan_kernels
from fastload.steps.step_digest import code_of
from fastload.steps.steps import FILE, ROW, Steps

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastload.batch.pinned_memory import PinnedMemory
    from fastload.batch.transport import Destination
    from fastload.dataset.process_engine import ProcessEngine
    from fastload.plan.sequence import RowGroups
    from fastload.runtime.disk.cache import Cache
    from fastload.steps.steps import AugmentStep

__all__ = ["PreparedRows", "about_of", "opened_parts", "versions_of"]


# A process that finds files changed more often uses prepared rows no more.
_MOST_REOPENED = 1000


class PreparedRows:
    """The prepared rows of a dataset in its cache: the dataset's rows, after `preprocess`.

    The rows keep their numbers: a pass has the same batches with and without the cache.

    Args:
        cache: the cache.
        steps: the steps of the dataset.
        identity: digest of the rows that stay, and of all that decides their values but the files.
        provenance: batches contain `__file__` and `__row__`.
        padded: batches contain `__valid__`.
        skips: unreadable row groups are left out.

    Raises:
        CacheError: other users may write to the directory.
        TypeError: the code of a step has no digest.
    """

    def __init__(
        self,
        cache: Cache,
        steps: Steps,
        identity: str,
        *,
        provenance: bool,
        padded: bool,
        skips: bool,
    ) -> None:
        self._cache = cache
        self._tier = PreparedTier(cache)
        # `steps` has checked these.
        drawn = [cast("AugmentStep", step.run) for step in steps.augment]
        self._left = Steps(None, drawn, provenance=provenance)
        self._made_by = Steps([step.run for step in steps.preprocess], None, provenance=True)
        self._identity = identity
        self._provenance = provenance
        self._padded = padded
        self._skips = skips
        self._refused = ""
        self._keeps = True  # the files have versions, and rows
        self._mended: set[str] = set()
        self._reopened = 0
        self.code()

    @classmethod
    def of(
        cls, cache: Cache | None, steps: Steps, identity: str, **options: bool
    ) -> PreparedRows | None:
        """Return the prepared rows of a dataset; None if its cache keeps none, or no step does."""
        if cache is None or not cache.prepared or not steps.preprocess:
            return None
        return cls(cache, steps, identity, **options)

    @property
    def steps_s(self) -> float:
        """Seconds that the consumer of prepared rows has waited for steps."""
        return self._left.seconds

    def close(self) -> None:
        """End the threads of the steps that run on prepared rows. Idempotent."""
        self._left.close()

    @property
    def usable(self) -> bool:
        """True unless this process has found that it can't use prepared rows."""
        return self._keeps and not self._refused and self._tier.of_process().writes

    @property
    def failure(self) -> str:
        """Why this process uses no prepared rows; "" if it does."""
        return self._refused or self._tier.of_process().failure

    def code(self) -> str:
        """Return a digest of the steps' code, with the values to which the code refers now."""
        return code_of(self._made_by.preprocess, self._cache.key)

    def engine(
        self,
        engines: ProcessEngine,
        workers: int,
        allocate: PinnedMemory | None,
        home: Destination | None,
    ) -> PreparedEngine | None:
        """Make the engine that reads prepared rows in this process, once all rows are prepared.

        Args:
            engines: the arguments of the dataset's engines.
            workers: number of processes that divide the memory budget.
            allocate: as in `Engine`.
            home: as in `Engine`.

        Returns:
            The engine, or None if prepared rows can't be used, of which a warning tells.

        Raises:
            Exception: the error of a step, or of reading the files.
        """
        info = get_worker_info()
        progress = info is None or info.id == 0
        for last in (False, True):
            with contextlib.ExitStack() as stack:
                try:
                    folder = self.write(engines, progress, of=workers)
                    if folder is None:
                        self._keeps = False
                        return None
                    stack.callback(folder.close)
                    source = self._source(folder, engines, last=last)
                    if source is None:
                        continue
                    made = self._made(source, folder, engines, workers, allocate, home)
                except UnpreparableError as error:
                    self.refuse(error)
                    return None
                stack.pop_all()
                return made
        raise AssertionError("the last try returns or raises")

    def write(
        self,
        engines: ProcessEngine,
        progress: bool | Callable[[int, int], None],
        *,
        of: int = 1,
        share: tuple[int, int] = (0, 1),
    ) -> CacheFolder | None:
        """Write the rows that are missing; return the folder, or None if nothing can be kept.

        Args:
            engines: the arguments of the dataset's engines.
            progress: True to show a line on stderr every few seconds, or a function to call with
                the number of rows written and the number of all rows.
            of: as for `Preparation.write`.
            share: as for `Preparation.write`.

        Raises:
            UnpreparableError: rows can't be written.
            Exception: the error of a step, or of reading the files.
        """
        preparation = self._preparation(engines)
        if preparation is None or not engines.rows.row_groups.total_rows:
            return None
        if progress is True:
            line = ProgressLine("prepared", engines.rows.row_groups.total_rows, "rows")
            progress = lambda done, _: line.show(done)  # noqa: E731
        about = about_of(engines.source)
        folder = CacheFolder(self._tier.of_process(), preparation.key(self._cache.key), about)
        try:
            preparation.write(folder, progress, of=of, share=share)
        except BaseException:
            folder.close()
            raise
        return folder

    def mend(self, engine: PreparedEngine, error: FastloadError) -> None:
        """Remove the file in which a pass has found damage; at its second damage, `refuse`.

        Args:
            engine: the engine of the pass.
            error: the error of the pass.
        """
        place = error._row_group if isinstance(error, CorruptFileError) else None  # noqa: SLF001
        changed = engine.changed
        # A file that is there but changed is perhaps another process's, and is opened again.
        damaged = {path for path in changed if not os.path.lexists(path)}
        if place is not None:
            damaged = {engine.files[place[0]].path}
            with contextlib.suppress(OSError):
                os.unlink(*damaged)
        if not (damaged or changed) or damaged & self._mended or self._reopened > _MOST_REOPENED:
            self.refuse(error)
        self._mended |= damaged
        self._reopened += 1

    def refuse(self, cause: object) -> None:
        """Use no prepared rows in this process from now on, and warn why."""
        self._refused = self._refused or str(cause)
        tell_once(
            self._cache,
            f"Can't prepare rows in the cache: {cause}; rows are read and computed each time. "
            "Cache(directory, prepared=False) turns prepared rows, and this warning, off",
        )

    def _preparation(self, engines: ProcessEngine) -> Preparation | None:
        """Return what writes the rows; None if the files have no reliable version."""
        versions = versions_of(engines.source)
        if versions is None:
            return None
        extra = extra_outputs(provenance=True, padded=False)
        making = engines.beside(engines.projection, extra, self._made_by)
        fingerprint = engines.source.fingerprint
        identity = digest(self._identity, fingerprint, versions)
        return Preparation(making, self._made_by, identity, places=True, skips=self._skips)

    def _source(self, folder: CacheFolder, engines: ProcessEngine, *, last: bool) -> Source | None:
        """Open the files of a folder; None if files were damaged, which are removed.

        Args:
            folder: the folder.
            engines: the arguments of the dataset's engines.
            last: raise UnpreparableError instead of None.
        """
        parts, groups = _parts_of(engines), engines.rows.row_groups
        paths = [os.path.join(folder.path, part.file) for part in parts]
        source = opened_parts(folder, parts)
        if source is not None:
            lost = _lost_in(source, groups)
            if np.array_equal(source.row_group_rows, without(groups, lost).rows):
                return source
        if last:
            raise UnpreparableError(f"Expected prepared rows, got damaged files - at {folder.path}")
        for part, path in zip(parts, paths, strict=True):
            own = groups_of(groups, part)
            one = opened_parts(folder, [part]) if os.path.exists(path) else None
            if one is not None:
                expected = without(own, _lost_in(one, own)).rows
                if not np.array_equal(one.row_group_rows, expected):
                    folder.remove(part.file)
        return None

    def _made(
        self,
        source: Source,
        folder: CacheFolder,
        engines: ProcessEngine,
        workers: int,
        allocate: PinnedMemory | None,
        home: Destination | None,
    ) -> PreparedEngine:
        """Make the engine that reads the files of a folder. Raises UnpreparableError."""
        needed = self._provenance or self._left.need_places
        projection = plan_columns(source, exclude=() if needed else (FILE, ROW))
        places = [output for output in projection.outputs if output.name in (FILE, ROW)]
        rows = [output for output in projection.outputs if output not in places]
        extra = [*places, *extra_outputs(provenance=False, padded=self._padded)]
        outputs, kernels = plan_kernels(self._left, rows, extra)
        more = sum(o.field.item_bytes for o in outputs[len(projection.outputs) :])
        try:
            budget = engines.divided(workers, projection, more)
        except ValueError as error:
            raise UnpreparableError(str(error)) from None
        arguments = {
            "source": source,
            "projection": projection,
            "outputs": outputs,
            "budget": budget,
            "io": engines.io,
            "allocate": allocate,
            "home": home,
            "kernels": kernels,
        }
        groups = engines.rows.row_groups
        where, lost = Places(groups, _parts_of(engines)), _lost_in(source, groups)
        return PreparedEngine(arguments, where, self._left, lost, folder.close)


def versions_of(source: Source) -> str | None:
    """Return a digest that changes with the bytes of files; None if nothing tells of a change."""
    identities = []
    store = source.storage.store_identity
    for file in source.files:
        if file.stored is None:
            path = os.path.realpath(file.path)
            identity: Any = ("", path, file.size, file.mtime_ns, file.digest)
        else:
            identity = identity_of(store, file.kind, file.stored)
        if identity is None:
            return None
        identities.append(repr(identity))
    return digest(*identities)


def about_of(source: Source) -> dict[str, Any]:
    """Return what the rows of a source are, for people to read."""
    file = source.files[0]
    url = file.path if file.stored is None else shown(file.kind, file.stored.path)
    return {"url": url, "files": len(source.files)}


def _parts_of(engines: ProcessEngine) -> list[Part]:
    return parts_of(engines.rows.row_groups, engines.projection.row_bytes)


def opened_parts(folder: CacheFolder, parts: Sequence[Part]) -> Source | None:
    """Open the files of a folder; None if files can't be read, which are removed."""
    paths = [os.path.join(folder.path, part.file) for part in parts]
    try:
        return Source.open(paths)
    except FastloadError:
        pass
    for path, part in zip(paths, parts, strict=True):
        try:
            Source.open([path])
        except FastloadError:
            folder.remove(part.file)
    return None


def _lost_in(source: Source, groups: RowGroups) -> dict[tuple[int, int], str]:
    """Return the row groups that were unreadable when the rows were prepared, and why.

    Args:
        source: the prepared rows.
        groups: the row groups of the source that they were made of.
    """
    if len(source.row_group_rows) != len(groups.rows):
        return {}
    lost: dict[tuple[int, int], str] = {}
    missing = (source.row_group_rows == 0) & (groups.rows > 0)
    for number in np.unique(source.row_group_file[missing]):
        lost.update(lost_row_groups(source.files[number].path))
    return lost
