"""Decoded tier of one dataset: the content of blocks, and the engines that read and make them.

If a block can't be kept, the pass decodes rows straight from the files, from the first batch that
needs the block on.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np

from fastload.engine.budget import Budget, divide_budget, work_units
from fastload.engine.cache.arrow_format import (
    UncacheableError,
    arrow_schema,
    fields_of,
    projection_of,
)
from fastload.engine.cache.block_engine import BlockEngine, BlockPlan
from fastload.engine.cache.keys import BlockKeys, code_of
from fastload.engine.cache.maker import BlockMaker, row_groups_at_once
from fastload.engine.cache.store import BlockStore
from fastload.engine.engine import Engine
from fastload.engine.first_rows import fields_after, first_rows
from fastload.runtime.disk.cache import tell_once
from fastload.steps.kernel_plan import extra_outputs, plan_kernels
from fastload.steps.steps import Steps

if TYPE_CHECKING:
    from fastload.batch.pinned_memory import PinnedMemory
    from fastload.batch.transport import Destination
    from fastload.engine.cache.block_engine import BlockArguments
    from fastload.plan.sequence import RowGroups
    from fastload.runtime.disk.cache import Cache
    from fastload.schema.fields import Field
    from fastload.schema.projection import Projection
    from fastload.source.source import Source
    from fastload.steps.kernel_plan import KernelPlan
    from fastload.steps.steps import AugmentStep

__all__ = ["DecodedCache"]

# The bytes of a record batch: large enough that the fixed cost of a record batch vanishes.
_BATCH_BYTES = 16 << 20
# A record batch takes at most 1/12 of its row group's memory, so that more than a third is left
# for reading; 1/4 where one batch holds the whole row group.
_BATCH_SHARE = 12
_WHOLE_SHARE = 4
_MOST_BATCH_ROWS = 1 << 18
_ALIGNED_ROWS = 64
# The most memory for blocks that are not written yet, and the share of the memory for batches that
# these blocks take.
_MOST_BEHIND_BYTES = 1 << 30
_BEHIND_SHARE = 2
# The share of the budget that stays free for what is small.
_FREE_SHARE = 16
# The most row groups whose blocks are looked up to find a block that tells the fields.
_MOST_LOOKS = 10_000


class DecodedCache:
    """The decoded tier of a dataset.

    Args:
        cache: the dataset's cache.
        source: the files.
        projection: the dataset's projection.
        steps: the dataset's steps.
        padded: batches contain `__valid__`, which is False for rows that pad a batch.
        provenance: batches contain the file and number of each row.

    Raises:
        CacheError: other users have access to the directory.
        TypeError: the code of a step has no digest.
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
        self._cache = cache
        self._store = BlockStore(cache)
        self._source = source
        self._projection = projection
        # `steps` has checked these.
        drawn = [cast("AugmentStep", step.run) for step in steps.augment]
        self._steps = Steps(None, drawn, provenance=provenance)
        self._made_by = Steps([step.run for step in steps.preprocess], None, provenance=False)
        origins = provenance or self._steps.need_places
        self._extra = extra_outputs(provenance=origins, padded=padded)
        origins = self._made_by.need_places
        self._making = plan_kernels(
            self._made_by, projection.outputs, extra_outputs(provenance=origins, padded=False)
        )
        self._code = self.code()
        self._plan: BlockPlan | None = None
        self._refused = False
        self._cause = ""
        self._step_failed = False  # on the first rows

    @property
    def steps_s(self) -> float:
        """Seconds that the consumer of blocks has waited for steps."""
        return self._steps.seconds

    @property
    def usable(self) -> bool:
        """True unless this process has found that it can't use the decoded tier."""
        return not self._refused and self._store.of_process().writes

    @property
    def failure(self) -> str:
        """Why this process keeps no blocks; "" if it does, or if no block can have a key."""
        return self._cause or self._store.of_process().failure

    def code(self) -> str:
        """Return a digest of the steps' code, with the values to which it refers now."""
        return code_of(self._made_by.preprocess, self._cache.version)

    def engine(
        self,
        process: BlockArguments,
        allocate: PinnedMemory | None,
        home: Destination | None,
    ) -> BlockEngine | None:
        """Make the engine that reads blocks in this process.

        Args:
            process: the arguments of this process.
            allocate: allocates the memory of batches, as in `Engine`.
            home: the process to which batches are sent, as in `Engine`.

        Returns:
            The engine, or None if blocks can't be used.
        """
        ready = self._ready(process)
        if ready is None:
            return None
        plan, budget, maker = ready
        return BlockEngine(self._source, plan, process, budget, allocate, home, maker)

    def maker(self, process: BlockArguments) -> BlockMaker | None:
        """Make the block maker of this process; return None if blocks can't be used.

        Raises:
            Exception: the error of a step on the first rows.
        """
        ready = self._ready(process, raises=True)
        return None if ready is None else ready[2]

    def _ready(
        self, process: BlockArguments, *, raises: bool = False
    ) -> tuple[BlockPlan, Budget, BlockMaker] | None:
        """Return what an engine needs; None if blocks can't be used.

        Args:
            process: as for `engine`.
            raises: True to raise the error of a step on the first rows. False leaves a ValueError
                to the pass that decodes these rows.
        """
        store = self._store.of_process()
        if (code := self.code()) != self._code:
            self._code, self._plan = code, None
        keys = BlockKeys(
            self._source,
            self._projection,
            process.rows,
            self._code,
            verify_crc=process.io.verify_crc,
        )
        keeps = all(map(keys.object, range(len(self._source.files))))
        if not keeps or not process.row_groups.total_rows:
            self._refused = True
        if not self.usable:
            return None
        try:
            plan = self._plan = self._plan or self._planned(keys, process)
            extra = plan.outputs[len(plan.projection.outputs) :]
            extra_bytes = sum(output.field.item_bytes for output in extra)
            budget = process.divide(plan.projection, extra_bytes)
            behind_bytes = _behind_bytes(budget)
            budget = replace(budget, lend_bytes=budget.lend_bytes - behind_bytes)
            # Reading blocks needs no memory for fetches: the maker takes it.
            memory = (budget.fetch_bytes, behind_bytes)
            return plan, budget, self._maker(store, keys, plan, process, *memory)
        except (UncacheableError, ValueError) as error:
            if raises and self._step_failed:
                raise
            self.refuse(error)
            return None

    def _maker(
        self,
        store: BlockStore,
        keys: BlockKeys,
        plan: BlockPlan,
        process: BlockArguments,
        memory_bytes: int,
        behind_bytes: int,
    ) -> BlockMaker:
        """Make the block maker. Raise ValueError if `memory_bytes` are too few."""
        source, projection, making = self._source, self._projection, self._making
        row_bytes = self._read_row_bytes
        row_group_bytes = source.most_row_group_rows * row_bytes
        at_once = row_groups_at_once(memory_bytes, row_group_bytes, remote=source.remote)
        largest = max(row_bytes, plan.projection.row_bytes)
        each_bytes = memory_bytes // at_once
        # Columns whose number of rows is a multiple of _ALIGNED_ROWS need no padding in a file.
        most_rows = -(-source.most_row_group_rows // _ALIGNED_ROWS) * _ALIGNED_ROWS
        whole = most_rows * largest <= each_bytes // _WHOLE_SHARE
        share = _WHOLE_SHARE if whole else _BATCH_SHARE
        most = min(min(_BATCH_BYTES, each_bytes // share) // largest, _MOST_BATCH_ROWS)
        batch_rows = min(most // _ALIGNED_ROWS * _ALIGNED_ROWS or max(1, most), most_rows)
        budget = divide_budget(
            each_bytes,
            batch_size=batch_rows,
            row_bytes=row_bytes,
            staged_row_bytes=projection.staged_row_bytes,
            total_rows=source.most_row_group_rows,
            shuffle_window=None,
            columns=len(projection.columns),
            work=work_units(projection.outputs),
            threads=process.threads,
            prefetch=1,
            once=True,
        )
        make_engine = partial(
            Engine,
            source,
            projection,
            making.outputs,
            budget,
            process.io,
            process.rows,
            kernels=making.kernels,
            at_once=at_once,
        )
        return BlockMaker(
            store,
            keys,
            make_engine,
            batch_rows=batch_rows,
            outputs=making.outputs,
            steps=self._made_by,
            fields=plan.fields,
            files=source.files,
            at_once=at_once,
            row_bytes=largest,
            behind_bytes=behind_bytes,
            on_failure=self.refuse,
            core_threads=process.threads,
            patience_s=process.io.timeout_s,
        )

    @property
    def _read_row_bytes(self) -> int:
        """Bytes of one row decoded from the files, including the outputs of kernels."""
        computed = self._making.outputs[len(self._projection.outputs) :]
        return self._projection.row_bytes + sum(o.field.item_bytes for o in computed)

    def _planned(self, keys: BlockKeys, process: BlockArguments) -> BlockPlan:
        """Plan the blocks. Raise UncacheableError if an output can't be stored in blocks."""
        outputs = [o for o in self._making.outputs if not o.hidden]
        if not self._made_by:
            fields = {output.name: output.field for output in outputs}
            ragged_bytes = self._projection.staged_row_bytes
        else:
            known = self._known(keys, process.row_groups)
            fields, ragged_bytes = known or self._sampled(process)
        arrow_schema(fields)
        projection = projection_of(fields, len(self._source.files), ragged_bytes)
        planned: KernelPlan = plan_kernels(self._steps, projection.outputs, self._extra)
        return BlockPlan(fields, projection, planned.outputs, planned.kernels, self._steps)

    def _known(self, keys: BlockKeys, row_groups: RowGroups) -> tuple[dict[str, Field], int] | None:
        """Look for an existing block.

        Returns:
            The block's outputs and the bytes of its ragged outputs in one row; None if no block
            was found.
        """
        store = self._store.of_process()
        for group in np.flatnonzero(row_groups.rows)[:_MOST_LOOKS]:
            file, index = int(row_groups.file[group]), int(row_groups.index[group])
            found = store.schema(keys.name(file, index))
            if found is not None:
                fields = fields_of(found[0])
                fixed = sum(f.item_bytes for f in fields.values() if not f.ragged)
                return fields, max(0, found[1] // int(row_groups.rows[group]) - fixed)
        return None

    def _sampled(self, process: BlockArguments) -> tuple[dict[str, Field], int]:
        """Run the steps on the first rows.

        Returns:
            The outputs after the steps, and the bytes of the ragged outputs in one row.
        """
        projection, making = self._projection, self._making
        budget = Budget(
            memory_bytes=1 << 30,
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
            try:
                fields, after = fields_after(self._made_by, batch, before, 0, self._source.files)
            except Exception:
                self._step_failed = True
                raise
        finally:
            engine.close()
        ragged = sum(int(after[name].nbytes) for name, field in fields.items() if field.ragged)
        return fields, ragged // max(1, after.rows)

    def refuse(self, cause: object) -> None:
        """Use no blocks in this process from now on, and warn why."""
        self._refused = True
        self._cause = self._cause or str(cause)
        tell_once(
            self._cache,
            f"Can't keep decoded rows in the cache: {cause}; rows are decoded each time. "
            "Cache(directory, decoded=False) turns the decoded tier, and this warning, off",
        )


def _behind_bytes(budget: Budget) -> int:
    """Return the most bytes of blocks in memory that are not written yet."""
    spare = budget.lend_bytes - budget.least_lent_bytes - budget.memory_bytes // _FREE_SHARE
    return max(0, min(_MOST_BEHIND_BYTES, spare // _BEHIND_SHARE))
