"""Names of blocks, made from everything that decides the content of a block."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fastload.runtime.digest import digest
from fastload.runtime.version import __version__
from fastload.source.stores.raw_tier import identity_of
from fastload.steps.code_digest import code_digest
from fastload.steps.kernel import Kernel
from fastload.steps.per_row import PerBlock, PerRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.plan.kept_rows import FileRows
    from fastload.schema.projection import Projection
    from fastload.source.source import Source
    from fastload.steps.steps import Step

__all__ = ["BlockKeys", "code_of"]


def code_of(steps: Sequence[Step], version: str | None) -> str:
    """Return a digest of the code of `preprocess`.

    Args:
        steps: the steps of `preprocess`.
        version: a text that stands for the code of functions, or None.

    Raises:
        TypeError: a function refers to an object that has no digest, and `version` is None.
    """
    return digest(*(_code_of_step(step, version) for step in steps))


class BlockKeys:
    """The names of the blocks of a dataset.

    Args:
        source: the files.
        projection: the columns to decode.
        rows: for each file, the rows that stay; () = all rows.
        code: the digest of the code of `preprocess`.
        verify_crc: pages are compared with their checksums, as `IO` says.
    """

    def __init__(
        self,
        source: Source,
        projection: Projection,
        rows: Sequence[FileRows],
        code: str,
        *,
        verify_crc: bool,
    ) -> None:
        self._files = source.files
        self._counts = [
            source.row_group_rows[source.row_group_file == n] for n in range(len(source.files))
        ]
        # Distinguishes stores with equal paths; None = blocks of the store's files are not kept.
        self._store = source.storage.store_identity
        self._projection = projection
        self._rows = rows
        self._code = code
        self._verify_crc = verify_crc
        self._objects: dict[int, str] = {}
        self._recipes: dict[int, str] = {}

    def name(self, file: int, row_group: int) -> str:
        """Return the name of the block of a row group: its directory and its file.

        Args:
            file: the index of the file.
            row_group: the index of the row group in the file.
        """
        if file not in self._recipes:
            self._recipes[file] = self._recipe(file)
        entry = digest(self._recipes[file], self._bits(file, row_group))
        return f"{self.object(file)}/{row_group}-{entry}.arrow"

    def object(self, file: int) -> str:
        """Return the name of one version of a file; "" if the file's blocks are not kept."""
        if file not in self._objects:
            self._objects[file] = self._object(file)
        return self._objects[file]

    def rows(self, file: int, row_group: int) -> int:
        """Return how many rows of a row group stay."""
        counts = self._rows[file].counts if self._rows else self._counts[file]
        return int(counts[row_group])

    def _object(self, number: int) -> str:
        file = self._files[number]
        if file.stored is None:
            path = os.path.realpath(file.path)
            identity: Any = ("", path, file.size, file.mtime_ns)
        else:
            identity = identity_of(self._store, file.kind, file.stored)
        if identity is None:
            return ""
        # The footer's digest distinguishes versions that were written within the resolution of the
        # file system's clock.
        name = digest(repr(identity), file.digest)
        return f"{name[:2]}/{name}"

    def _recipe(self, file: int) -> str:
        columns = [column.reads(file) for column in self._projection.columns]
        return digest(self._decoding, repr(columns))

    def _bits(self, file: int, row_group: int) -> str:
        """Return a digest of the rows of a row group that stay; "" if all rows stay."""
        if not self._rows:
            return ""
        rows = self._rows[file]
        start = int(rows.offsets[row_group])
        if start < 0:
            return ""
        stored = int(self._counts[file][row_group])
        if rows.counts[row_group] == stored:
            return ""
        bits = rows.bits[start : start + -(-stored // 8)]
        return digest(bits.tobytes())

    @cached_property
    def _decoding(self) -> str:
        """Digest of everything that is the same for all files."""
        columns = [
            replace(
                column,
                leaves=(),
                multipliers=(),
                constants=(),
                vocabulary=(digest(repr(column.vocabulary)).encode(),),
            )
            for column in self._projection.columns
        ]
        more = (__version__, self._code, f"verify_crc={self._verify_crc}")
        return digest(*more, repr(columns), repr(self._projection.outputs))


def _code_of_step(step: Step, version: str | None) -> str:
    if isinstance(step.run, Kernel):
        return step.run.code_digest()
    # A version stands for the function of its name, so the name has to be that of the function.
    fn = step.run.fn if isinstance(step.run, (PerBlock, PerRow)) else step.run
    around: tuple[object, ...] = ()
    if isinstance(step.run, PerRow):
        around = (step.run.inputs, step.run.outputs, step.run.layouts)
    try:
        return digest(code_digest(fn, version), repr(around))
    except TypeError as error:
        raise TypeError(
            f"{error}; the decoded tier of the cache can't tell when {step.label} changes: pass "
            "Cache(directory, version=...), and change the version with the code, or pass "
            "decoded=False"
        ) from None
