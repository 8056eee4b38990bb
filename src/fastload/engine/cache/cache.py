"""The decoded tier of one dataset: what its blocks hold, and the engine that reads them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fastload.engine.budget import Budget, divide_budget
from fastload.engine.cache.answers import PassAnswers
from fastload.engine.cache.blocks import UnfitOutputError, arrow_schema, fields_of, projection_of
from fastload.engine.cache.filler import BlockFiller, row_groups_at_once
from fastload.engine.cache.key import BlockNames, code_of
from fastload.engine.cache.maker import BlockMaker
from fastload.engine.cache.service import serve_blocks
from fastload.engine.cache.tier import DecodedTier
from fastload.engine.engine import Engine
from fastload.engine.first_rows import fields_after, first_rows
from fastload.engine.work_units import work_units
from fastload.runtime.disk.cache import tell_once
from fastload.runtime.native import core
from fastload.steps.kernel_plan import extra_outputs, plan_kernels
from fastload.steps.steps import Steps

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastload.batch.transfer import PinnedMemory
    from fastload.batch.transport import Home
    from fastload.plan.kept_rows import FileRows
    from fastload.plan.read_plan import RowGroups
    from fastload.runtime.disk.cache import Cache
    from fastload.schema.fields import Field
    from fastload.schema.projection import OutputPlan, Projection
    from fastload.source.source import Source
    from fastload.source.stores.io import IO
    from fastload.steps.kernel_plan import CoreKernel, KernelPlan

__all__ = ["BlockEngine", "DecodedCache"]

# Of memory_budget, for making blocks; reading them needs no memory for fetches.
_FILL_SHARE = 4
_MOST_FILL_BYTES = 512 << 20
# A record batch: large enough that its own cost vanishes.
_BATCH_BYTES = 16 << 20
# And a share of what its row group has that leaves more than a third for what is read, which one
# that is whole does by itself.
_BATCH_SHARE = 12
_WHOLE_SHARE = 4
_MOST_BATCH_ROWS = 1 << 18
_ALIGNED_ROWS = 64
# Row groups whose blocks are looked for to learn what is in them.
_MOST_LOOKS = 10_000


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """What blocks hold, and what is made of them.

    fields: of the outputs after `preprocess`.
    projection: how they are read.
    outputs: of a batch, those behind them and of kernels too.
    kernels: of `augment`.
    steps: likewise, all of it.
    """

    fields: dict[str, Field]
    projection: Projection
    outputs: tuple[OutputPlan, ...]
    kernels: tuple[CoreKernel, ...]
    steps: Steps


class BlockArguments(NamedTuple):
    """What a process has for blocks.

    threads: of the core.
    memory_budget: of this process.
    io: how files are read.
    rows: by file, its rows that stay; () = all.
    row_groups: all, with the rows that stay.
    skip: leave out row groups that are corrupt.
    """

    threads: int
    memory_budget: int
    io: IO
    rows: Sequence[FileRows]
    row_groups: RowGroups
    skip: bool

    @property
    def fill_bytes(self) -> int:
        """Of the budget, for making blocks."""
        return min(self.memory_budget // _FILL_SHARE, _MOST_FILL_BYTES)


class BlockEngine(Engine):
    """An engine whose rows come from blocks.

    Attributes:
        failures: by the message that the core was given, what kept blocks from being made.
        filler: makes them.
        steps: what is left of the dataset's for their batches: `augment`.
        of_files: makes the engine of the process that reads the files instead.
        refuse: is told why blocks can't be made.
    """

    of_files: Callable[[], Engine]
    refuse: Callable[[BaseException], None]

    def __init__(
        self,
        source: Source,
        plan: BlockPlan,
        process: BlockArguments,
        budget: Budget,
        allocate: PinnedMemory | None,
        home: Home | None,
        filler: BlockFiller,
    ) -> None:
        queue = core.DecodedQueue(filler.at_once)
        super().__init__(
            source,
            plan.projection,
            plan.outputs,
            budget,
            process.io,
            process.rows,
            allocate,
            home,
            plan.kernels,
            blocks=queue,
        )
        self.filler = filler
        self.steps = plan.steps
        answers = PassAnswers(filler, queue)
        self.failures = answers.failures
        end = serve_blocks(filler, queue, answers, self)
        self.close = partial(_close, end, self.close)

    def counts(self) -> dict[str, int]:
        """As of any engine, with what making blocks took."""
        counts = super().counts()
        for name, count in self.filler.maker.engine.counts().items():
            if name.startswith(("read_", "decode")) or name in ("kernel_calls", "kernel_ns"):
                counts[name] += count
        return counts


def _close(*ends: Callable[[], object]) -> None:
    for end in ends:
        end()


class DecodedCache:
    """The decoded tier of a dataset.

    Args:
        cache: the dataset's.
        source: the files.
        projection: of the dataset.
        steps: likewise.
        padded: batches say which rows are real.
        provenance: batches say where rows come from.

    Raises:
        CacheError: the directory is not for this user alone.
        TypeError: the code of a step can't be told.
    """

    def __init__(
        self,
        cache: Cache,
        source: Source,
        projection: Projection,
        steps: Steps,
        *,
        padded: bool,
        provenance: bool,
    ) -> None:
        self._code = code_of(steps.preprocess, cache.version)
        self._cache = cache
        self._tier = DecodedTier(cache)
        self._source = source
        self._projection = projection
        self._steps = Steps(None, [step.run for step in steps.augment], provenance=provenance)
        self._made_by = Steps([step.run for step in steps.preprocess], None, provenance=False)
        places = provenance or self._steps.need_places
        self._extra = extra_outputs(provenance=places, padded=padded)
        places = self._made_by.need_places
        self._making = plan_kernels(
            self._made_by, projection.outputs, extra_outputs(provenance=places, padded=False)
        )
        self._plan: BlockPlan | None = None
        self._refused = False

    @classmethod
    def of(
        cls,
        cache: Cache | None,
        source: Source,
        projection: Projection,
        steps: Steps,
        *,
        padded: bool,
        provenance: bool,
    ) -> DecodedCache | None:
        """That of a dataset's `cache`; None if that has none."""
        if cache is None or not cache.decoded:
            return None
        return cls(cache, source, projection, steps, padded=padded, provenance=provenance)

    @property
    def steps_s(self) -> float:
        """Seconds that the consumer of blocks has waited for steps."""
        return self._steps.seconds

    @property
    def usable(self) -> bool:
        """Whether it may be of use, as far as is known in this process."""
        return not self._refused and self._tier.of_process().writes

    def engine(
        self,
        process: BlockArguments,
        divide: Callable[[int, Projection, int, int], Budget],
        allocate: PinnedMemory | None,
        home: Home | None,
    ) -> BlockEngine | None:
        """What reads blocks in this process; None where they are of no use, with a warning.

        Args:
            process: what it has.
            divide: from a budget, a projection, bytes of a row beside that, and threads to how it
                is divided.
            allocate: as `Engine` takes it.
            home: likewise.
        """
        filler = self.filler(process)
        if filler is None:
            return None
        plan = self._plan
        assert plan is not None
        extra = plan.outputs[len(plan.projection.outputs) :]
        extra_bytes = sum(output.field.item_bytes for output in extra)
        left = process.memory_budget - process.fill_bytes
        try:
            budget = divide(left, plan.projection, extra_bytes, process.threads)
        except ValueError as error:
            filler.maker.close()
            self._refuse(str(error))
            return None
        made = BlockEngine(self._source, plan, process, budget, allocate, home, filler)
        made.refuse = self.refuse
        return made

    def filler(self, process: BlockArguments) -> BlockFiller | None:
        """What brings blocks in this process; None where they are of no use, with a warning."""
        tier = self._tier.of_process()
        place = self._source.storage.store_place
        names = BlockNames(self._source, place, self._projection, process.rows, self._code)
        keeps = all(map(names.object, range(len(self._source.files))))
        if not self.usable or not keeps or not process.row_groups.total_rows:
            return None
        try:
            plan = self._plan = self._plan or self._planned(names, process)
            row_group_bytes = self._source.most_row_group_rows * self._read_row_bytes
            remote = self._source.remote
            at_once = row_groups_at_once(process.fill_bytes, row_group_bytes, remote=remote)
            maker = self._maker(plan, process, at_once)
        except (UnfitOutputError, ValueError) as error:
            self._refuse(str(error))
            return None
        files, patience_s = self._source.files, process.io.timeout_s
        return BlockFiller(tier, names, maker, files, at_once, process.threads, patience_s)

    def _maker(self, plan: BlockPlan, process: BlockArguments, at_once: int) -> BlockMaker:
        """What makes blocks, so many at a time."""
        projection = self._projection
        row_bytes = self._read_row_bytes
        largest = max(row_bytes, plan.projection.row_bytes)
        each_bytes = process.fill_bytes // at_once
        # Columns of such a number of rows need no padding in a file.
        most_rows = -(-self._source.most_row_group_rows // _ALIGNED_ROWS) * _ALIGNED_ROWS
        whole = most_rows * largest <= each_bytes // _WHOLE_SHARE
        share = _WHOLE_SHARE if whole else _BATCH_SHARE
        most = min(min(_BATCH_BYTES, each_bytes // share) // largest, _MOST_BATCH_ROWS)
        batch_rows = min(most // _ALIGNED_ROWS * _ALIGNED_ROWS or max(1, most), most_rows)
        budget = divide_budget(
            each_bytes,
            batch_size=batch_rows,
            row_bytes=row_bytes,
            staged_row_bytes=projection.staged_row_bytes,
            total_rows=self._source.most_row_group_rows,
            shuffle_window=None,
            columns=len(projection.columns),
            work=work_units(projection.outputs),
            threads=process.threads,
            prefetch=1,
            once=True,
        )
        engine = Engine(
            self._source,
            projection,
            self._making.outputs,
            budget,
            process.io,
            process.rows,
            kernels=self._making.kernels,
            at_once=at_once,
        )
        files, outputs = self._source.files, self._making.outputs
        return BlockMaker(engine, batch_rows, outputs, self._made_by, plan.fields, files)

    @property
    def _read_row_bytes(self) -> int:
        """Of a row as it is read from the files, kernels' outputs included."""
        computed = self._making.outputs[len(self._projection.outputs) :]
        return self._projection.row_bytes + sum(o.field.item_bytes for o in computed)

    def _planned(self, names: BlockNames, process: BlockArguments) -> BlockPlan:
        """Raises UnfitOutputError where there can be no blocks."""
        outputs = [o for o in self._making.outputs if not o.hidden]
        if not self._made_by:
            fields = {output.name: output.field for output in outputs}
            ragged_bytes = self._projection.staged_row_bytes
        else:
            known = self._known(names, process.row_groups)
            fields, ragged_bytes = known or self._sampled(process)
        arrow_schema(fields)
        projection = projection_of(fields, len(self._source.files), ragged_bytes)
        planned: KernelPlan = plan_kernels(self._steps, projection.outputs, self._extra)
        return BlockPlan(fields, projection, planned.outputs, planned.kernels, self._steps)

    def _known(
        self, names: BlockNames, row_groups: RowGroups
    ) -> tuple[dict[str, Field], int] | None:
        """The outputs of a block that is there, and bytes of a row of its ragged ones."""
        tier = self._tier.of_process()
        for group in np.flatnonzero(row_groups.rows)[:_MOST_LOOKS]:
            file, index = int(row_groups.file[group]), int(row_groups.index[group])
            name = f"{names.object(file)}/{names.entry(file, index)}"
            schema = tier.schema(name) if tier.there(name) else None
            block_bytes = tier.file_bytes(name)
            if schema is not None and block_bytes is not None:
                fields = fields_of(schema)
                fixed = sum(f.item_bytes for f in fields.values() if not f.ragged)
                return fields, max(0, block_bytes // int(row_groups.rows[group]) - fixed)
        return None

    def _sampled(self, process: BlockArguments) -> tuple[dict[str, Field], int]:
        """Likewise, of what the steps make of the first rows."""
        projection, making = self._projection, self._making
        budget = Budget(
            threads=0,
            stripe_rows=16,
            open_windows=1,
            window_bytes=1 << 20,
            staged_bytes=1 << 20,
            fetch_bytes=64 << 20,
            segment_bytes=1 << 20,
            lend_bytes=1 << 40,
        )
        where = (budget, process.io, process.rows)
        engine = Engine(self._source, projection, making.outputs, *where, kernels=making.kernels)
        try:
            batch = first_rows(engine, process.row_groups, skip=process.skip)
            before = {o.name: o.field for o in making.outputs if not o.hidden}
            fields, after = fields_after(self._made_by, batch, before, 0, self._source.files)
        finally:
            engine.close()
        ragged = sum(int(after[name].nbytes) for name, field in fields.items() if field.ragged)
        return fields, ragged // max(1, after.rows)

    def refuse(self, cause: BaseException) -> None:
        """Uses no more blocks in this process, unless one may be had later; says why."""
        if isinstance(cause, UnfitOutputError):
            self._refuse(str(cause))
        else:
            tell_once(self._cache, f"Can't keep more in the cache: {cause}; rows are decoded")

    def _refuse(self, cause: str) -> None:
        """Uses no blocks in this process; says so once."""
        self._refused = True
        warnings.warn(
            f"Can't use the decoded tier of the cache: {cause}; rows are decoded each time. "
            "Cache(directory, decoded=False) says that this is meant",
            stacklevel=5,
        )
