"""A dataset whose source is the prepared rows of another one.

Steps that change the number of rows, and steps before `pack` or a `TokenBudget`, decide which rows
an epoch has. So the rows are prepared when the dataset is made, and the dataset reads the files.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fastload.dataset.preparing.cache_folder import CacheFolder, PreparedTier
from fastload.dataset.preparing.errors import UnpreparableError
from fastload.dataset.preparing.prepared import about_of, opened_parts, versions_of
from fastload.errors import CacheError
from fastload.runtime.digest import digest
from fastload.runtime.disk.cache import Cache, cache_of
from fastload.runtime.disk.entries import describe, described
from fastload.runtime.progress import ProgressLine
from fastload.schema.packs import TokenBudget
from fastload.steps.kernel import Kernel
from fastload.steps.per_row import PerRow

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fastload.dataset.opening import OpenedSource
    from fastload.dataset.preparing.preparation import Preparation

__all__ = ["ComposedSource", "composed_source"]

# The arguments that say which rows the steps get. The others are those of the dataset on top.
_OF_ROWS = (
    *("source", "columns", "exclude", "filters", "split", "nulls", "preprocess"),
    *("filesystem", "storage_options", "io", "threads", "memory_budget"),
)


@dataclass(frozen=True, slots=True)
class ComposedSource:
    """The prepared rows that a dataset reads.

    Attributes:
        files: the paths of the files.
        cache: the cache of the dataset, which prepares no rows again.
        folder: the folder of the files, which keeps the files while it is not closed.
    """

    files: list[str]
    cache: Cache
    folder: CacheFolder


def composed_source(
    make: Callable[..., Any], arguments: Mapping[str, Any]
) -> ComposedSource | OpenedSource | None:
    """Prepare the rows that a dataset reads, if it has to read prepared rows from the beginning.

    Args:
        make: makes a dataset.
        arguments: the arguments of the dataset by name.

    Returns:
        The prepared rows. If the dataset reads its own files: these files if they were opened to
        find that out, else None.

    Raises:
        CacheError: the rows can't be kept in the cache.
        NullValueError: the rows hold nulls, which are an error.
        Exception: the error of a step, or of reading the files.
    """
    kept = cache_of(arguments["cache"])
    steps = arguments["preprocess"]
    listed = steps if isinstance(steps, (list, tuple)) else [steps]
    by_rows = all(isinstance(step, (Kernel, PerRow)) for step in listed)
    budget = arguments["batch_size"]
    by_tokens = arguments["pack"] is not None or isinstance(budget, TokenBudget)
    if steps is None or kept is None or not kept.prepared or (by_rows and not by_tokens):
        return None
    rows = {name: arguments[name] for name in _OF_ROWS}
    with contextlib.closing(make(**rows, cache=replace(kept, prepared=False))) as raw:
        opened: OpenedSource = raw._opened  # noqa: SLF001 - of this package
        if not by_tokens and raw._refusal and raw.num_rows:  # noqa: SLF001
            _refuse_if_resized(raw, make, rows)
            return opened  # a pass raises NullValueError
        preparation = raw._preparation()  # noqa: SLF001 - of this package
        source = opened.source
        versions = versions_of(source)
        if versions is None:
            if by_tokens:
                raise CacheError(
                    "Expected files whose store gives versions, by which prepared rows are found "
                    f"again, got some without - at {source.files[0].path}"
                )
            return opened
        identity = digest(preparation.identity, versions, str(raw._engines.io.verify_crc))  # noqa: SLF001
        preparation = replace(preparation, identity=identity)
        key = preparation.key(kept.key)
        tier = PreparedTier(kept)
        known = described(tier.directory, tier.name_of(key)).get("resizes")
        counts = {output.name for output in preparation.engines.projection.outputs}
        needed = arguments["pack"] is not None or (
            isinstance(budget, TokenBudget) and budget.column not in counts
        )
        if not needed and not (_resizes(preparation) if known is None else known):
            with contextlib.suppress(OSError):
                os.makedirs(tier.path(key), mode=0o700, exist_ok=True)
                describe(tier.directory, tier.name_of(key), {"resizes": False})
            return opened
        folder = _prepared(preparation, tier, key)
        if opened_parts(folder, preparation.parts) is None:
            folder.close()
            folder = _prepared(preparation, tier, key)
    paths = [os.path.join(folder.path, part.file) for part in preparation.parts]
    return ComposedSource(paths, replace(kept, prepared=False), folder)


def _refuse_if_resized(raw: Any, make: Callable[..., Any], rows: Mapping[str, Any]) -> None:
    """Raise NullValueError for rows with nulls if the steps change the number of rows.

    Without nulls, these rows would be prepared now, and not by a pass.
    """
    with contextlib.closing(make(**{**rows, "nulls": "zero"})) as filled:
        if _resizes(filled._preparation()):  # noqa: SLF001 - of this package
            raw._refuse_nulls()  # noqa: SLF001


def _resizes(preparation: Preparation) -> bool:
    """Return whether the steps change the number of the first rows.

    If they raise an error, a pass raises it.
    """
    try:
        return preparation.resizes()
    except Exception:  # noqa: BLE001 - a step may raise any exception
        return False


def _prepared(preparation: Preparation, tier: PreparedTier, key: str) -> CacheFolder:
    total = preparation.engines.rows.row_groups.total_rows
    line = ProgressLine("prepared", total, "rows")
    try:
        about = {**about_of(preparation.engines.source), "resizes": True}
        folder = CacheFolder(tier, key, about)
        try:
            preparation.write(folder, lambda done, _: line.show(done))
        except BaseException:
            folder.close()
            raise
    except UnpreparableError as error:
        raise CacheError(
            f"Expected a cache that keeps the rows of which batches are made, got: {error}"
        ) from error
    return folder
