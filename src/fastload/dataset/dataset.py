"""FastParquetDataset: Parquet files in, finished batches out."""

from __future__ import annotations

import contextlib
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from fastload.batch.batch import Batch
from fastload.batch.transport import memory_of_workers
from fastload.dataset.passes.epoch_iterator import EpochIterator, PreparedPass
from fastload.dataset.passes.next_pass import NextPass
from fastload.dataset.passes.open_feed import FeedFactory
from fastload.dataset.process_engine import ProcessEngine
from fastload.dataset.ranks import Rank, resolve_rank
from fastload.dataset.resumable import Resumable
from fastload.dataset.state import decode_state, encode_state
from fastload.dataset.trace import CAPACITY, Trace, recorded
from fastload.dataset.warm import warm, warm_blocks
from fastload.engine.budget import resolve_window
from fastload.engine.cache.cache import DecodedCache
from fastload.engine.first_rows import first_rows, schema_after
from fastload.engine.stats import Stats, stats_of
from fastload.plan import read_plan as plan
from fastload.plan.position import Position
from fastload.rows.epoch_rows import EpochRows
from fastload.rows.predicate import Predicate, parse_filters, parse_split
from fastload.rows.skip_report import SkipReport
from fastload.runtime.disk.cache import Cache, cache_of
from fastload.runtime.sizes import parse_bytes
from fastload.schema.fields import Schema
from fastload.schema.projection import plan_columns
from fastload.source.source import Source
from fastload.source.stores.io import IO
from fastload.source.stores.stores import Stores
from fastload.steps.kernel_plan import extra_outputs, plan_kernels
from fastload.steps.steps import Steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from fastload.dataset.epochs import PassStart
    from fastload.engine.engine import Engine
    from fastload.rows.predicate import Filters, SplitArgument
    from fastload.runtime.native import core
    from fastload.schema.projection import Columns
    from fastload.source.files import PathLike
    from fastload.steps.steps import Augment, Preprocess

__all__ = ["FastParquetDataset"]

# With batch_size=None rows are read this many at a time.
_ROWS_AT_ONCE = 1024


class FastParquetDataset(Resumable[Batch | dict[str, Any]]):
    """An IterableDataset of finished batches, for `DataLoader(ds, batch_size=None)`.

    Args:
        source: a file, directory or glob, or a list of them: local, or a URL of an object store
            (gs://, s3://, az://, http(s):// or any that fsspec knows). Files may differ in their
            columns and types: see `columns`. Directories called `key=value` below the one
            given, or from the first wildcard of a glob on, are columns too.
        columns: None = all; a list of names ("a.b" for a struct's field); or a mapping from
            output name to name, `Column`, `Stack`, `Pad`, `Hash` or `Codes`. A column has the type
            that pyarrow's permissive unification gives those in the files, and is null where a
            file lacks it.
        batch_size: rows of a batch; None yields single rows, for DataLoader to collate.
        filters: which rows the dataset is made of: a pyarrow.compute Expression, or conditions as
            pyarrow and pandas take them, `[("price", ">", 0)]`: a list is joined by "and", a
            list of lists by "or" ("a.b" names the field of a struct). A row for which they
            are null is left out. They may name any column of the files and any hive key. Row
            groups are pruned by their statistics; the exact rows of the others are found
            when the dataset is made, and kept in $FASTLOAD_CACHE_DIR, else in the user's cache
            directory.
        split: `(columns or None, start, stop)`: of the rows left, those whose hash lies in
            [start, stop) of [0, 1), on every machine the same: `("user", 0, 0.9)` for training
            and `("user", 0.9, 1)` for validation share no user. None hashes the file's path
            below the directory given, and the row's number. Module `row_hash` defines it.
        limit: only the first so many rows of the epoch's sequence; ranks' slices of these are
            near-equal.
        shuffle: permute row groups over the whole dataset, then rows within windows.
        shuffle_window: rows mixed at once; None = min(2**19, the rows that decode to 512 MiB).
        seed: of all random choices.
        drop_last: leave out a last batch that is short.
        rank: this process among those that share an epoch; None = from torch.distributed, else
            RANK and WORLD_SIZE, else 0 of 1. Resolved when first needed, then kept.
        world_size: how many share it.
        uneven: "wrap" (a short rank repeats its last row), "drop" (loses at most one row a
            rank), "pad" (as wrap, and adds the bool tensor `__valid__`) or "keep" (every row
            once; batch counts may differ).
        preprocess: what is computed from the columns of each row, the same in every epoch: one or
            a list of `fn(block)`, called in order on some rows at a time, `per_row(...)`,
            `per_block(...)`, or what `kernel` made, which the core calls if none but kernels
            come before. A block is a dict of the outputs of `columns`: numpy arrays (B, ...) that
            share the batch's memory, and Raggeds (of bfloat16, which numpy lacks, a tensor).
            fn returns it, or a mapping of outputs to add or replace, each a numpy array,
            tensor or Ragged of as many rows. What it deletes from the block is gone. Which
            rows make a block is not defined, so one row must not depend on the others.
        augment: what is drawn at random anew in each epoch: one or a list of
            `fn(batch, seeds)`, called in order after `preprocess` on each batch, with all its
            outputs; it returns what `preprocess` does. `seeds` is a numpy array uint64 (B,), a
            seed for each row that depends on the dataset's seed, the epoch, the row's file and
            number and the place in the list alone. Kernels, too.
        cache: a directory, or `Cache(directory, max_bytes=...)`, shared by all processes of this
            user on the node. The bytes that are read of remote files are kept in it, and the rows
            of row groups after `preprocess`, by the files' versions, the columns and the code of
            `preprocess` with what that refers to: from the second pass on they are neither read
            nor decoded nor computed. In a pass that makes them, callables are called on a thread
            of its own, on blocks of row groups, and outputs have to be what they are in the first
            rows. What an output or a `memory_budget` rules out is said in a warning, and read and
            computed each time.
        threads: of the core; None = the cores this process may use, divided among the ranks of
            this machine (LOCAL_WORLD_SIZE) and the DataLoader's workers; 0 = all work is done by
            the thread that asks for a batch. Those that shuffle are no more than `memory_budget`
            has room for.
        memory_budget: bytes, or a size such as "4GB", for windows, reads and batches of this
            rank, divided among the DataLoader's workers.
        prefetch: batches kept ready ahead of the consumer, at least; without shuffle.
        pin_memory: hand out batches in page-locked memory, from which copies to a device are
            quick and may overlap with work; "auto" = where there is a CUDA device. Never in the
            DataLoader's workers, nor for rows: there DevicePrefetcher and DataLoader see to it.
        filesystem: an fsspec or pyarrow filesystem to read `source` from.
        storage_options: of the filesystem of a URL, in fsspec's words: token, key, secret, anon,
            endpoint_url, project, client_kwargs and so on. A credential is in no message.
        io: how files are read; None = `IO()`.
        on_error: "raise", or "skip": the rows of a corrupt row group are left out and listed in
            `skipped`, with one warning. The number of batches stays: the nearest readable rows
            of the same rank and window stand in (`__valid__` is False for them), and a rank
            with none raises. With filters or a split, a row group whose filter columns can't
            be read has no row that stays. Storage errors are never skipped.
        provenance: adds `__file__` (int32 index into `files`) and `__row__` (int64 row in that
            file).

    Raises:
        SourceNotFoundError, CorruptFileError, StorageError: what `source` names can't be read.
        ColumnNotFoundError, SchemaError, UnsupportedTypeError, NullValueError: the columns are
            not there, have no common type in the files, can't be read (encrypted ones), or hold
            nulls without a fill (with filters or a split that is told while iterating).
        ValueError, TypeError: a wrong argument; a memory_budget too small for the windows.
            While iterating, what `preprocess` or `augment` returned is no such mapping, or has
            other rows. What they raise is raised as it is, with a note of where (from Python
            3.11 on), and again by whatever asks the same iterator for more.
    """

    def __init__(
        self,
        source: PathLike | Sequence[PathLike],
        *,
        columns: Columns = None,
        batch_size: int | None = 1024,
        filters: Filters | None = None,
        split: SplitArgument | None = None,
        limit: int | None = None,
        shuffle: bool = False,
        shuffle_window: int | None = None,
        seed: int = 0,
        drop_last: bool = False,
        rank: int | None = None,
        world_size: int | None = None,
        uneven: plan.Uneven = "wrap",
        preprocess: Preprocess = None,
        augment: Augment = None,
        cache: PathLike | Cache | None = None,
        threads: int | None = None,
        memory_budget: int | str = "4GB",
        prefetch: int = 4,
        pin_memory: bool | Literal["auto"] = "auto",
        filesystem: Any = None,
        storage_options: Mapping[str, Any] | None = None,
        io: IO | None = None,
        on_error: Literal["raise", "skip"] = "raise",
        provenance: bool = False,
    ) -> None:
        _check_type(
            int,
            {
                "batch_size": batch_size,
                "limit": limit,
                "shuffle_window": shuffle_window,
                "seed": seed,
                "rank": rank,
                "world_size": world_size,
                "threads": threads,
                "prefetch": prefetch,
            },
        )
        _check_type(bool, {"shuffle": shuffle, "drop_last": drop_last, "provenance": provenance})
        if io is not None and not isinstance(io, IO):
            raise TypeError(f"Expected io as fastload.IO, got {io!r}")
        if pin_memory not in (True, False, "auto"):
            raise ValueError(f"Expected pin_memory to be True, False or 'auto', got {pin_memory!r}")
        if on_error not in ("raise", "skip"):
            raise ValueError(f"Expected on_error to be 'raise' or 'skip', got {on_error!r}")
        for name, value, least in (
            ("shuffle_window", shuffle_window, 1),
            ("threads", threads, 0),
            ("prefetch", prefetch, 0),
        ):
            if value is not None and value < least:
                raise ValueError(f"Expected {name} to be at least {least}, got {value}")
        super().__init__(Position(seed, 0, ()))
        self._batch_size = batch_size
        io, memory_budget = io or IO(), parse_bytes(memory_budget)
        self._rank_arguments = (rank, world_size)
        self._rank: Rank | None = None
        if rank is not None or world_size is not None:
            self._rank = resolve_rank(rank, world_size)
        # Checked before the files are looked at, so that a wrong argument is told at once.
        options = plan.Options(
            batch_size=1 if batch_size is None else batch_size,
            shuffle=shuffle,
            seed=seed,
            drop_last=drop_last,
            uneven=uneven,
            limit=limit,
        )
        self._provenance = provenance
        self._steps = Steps(preprocess, augment, provenance=provenance)
        self._schema: Schema | None = None  # after the steps, once it was asked for
        filters = parse_filters(filters)
        checked_split = parse_split(split)
        kept = cache_of(cache)
        storage = Stores(filesystem, storage_options, io, kept)
        self._source = Source.open(source, storage)
        self._predicate = Predicate()
        if filters is not None or checked_split is not None:
            from fastload.rows.filter_schema import FilterSchema

            filter_schema = FilterSchema.of(self._source)
            self._predicate = filter_schema.predicate(filters, checked_split)
        # The rows with nulls may be those that are left out.
        self._projection = plan_columns(self._source, columns, check_nulls=not self._predicate)
        self._steps.check_inputs(output.name for output in self._projection.outputs)
        self._outputs, kernels = plan_kernels(
            self._steps,
            self._projection.outputs,
            extra_outputs(provenance=provenance or self._steps.need_places, padded=uneven == "pad"),
        )
        blocks = DecodedCache.of(
            kept,
            self._source,
            self._projection,
            self._steps,
            padded=uneven == "pad",
            provenance=provenance,
        )
        self._report = SkipReport() if on_error == "skip" else None
        self._rows = EpochRows(
            self._source,
            (filter_schema, self._predicate) if self._predicate else None,
            self._report,
        )
        self._options = replace(
            options,
            shuffle_window=resolve_window(shuffle_window, self._projection.row_bytes),
        )
        self._engines = ProcessEngine(
            source=self._source,
            projection=self._projection,
            outputs=self._outputs,
            kernels=kernels,
            rows=self._rows,
            options=self._options,
            batch_rows=self._batch_rows,
            yields_rows=self._yields_rows,
            fixed_stripes=self._report is not None,
            io=io,
            threads=threads,
            memory_budget=memory_budget,
            prefetch=prefetch,
            pin_memory=pin_memory,
            dataset=secrets.token_hex(8),
            blocks=blocks,
        )
        self._feeds = FeedFactory(
            rows=self._rows,
            options=self._options,
            steps=self._steps,
            source=self._source,
            report=self._report,
            batch_rows=self._batch_rows,
            yields_rows=self._yields_rows,
            prefetch=prefetch,
            memory_budget=memory_budget,
        )
        # The pass after the running one: first while it is prepared, then begun.
        self._ahead: NextPass | None = None
        self._prepared: PreparedPass | None = None
        self._engines.budget(workers=1)  # so that one that is too small is told at once

    @property
    def schema(self) -> Schema:
        """What a batch holds, in output order: name -> `Field`.

        With `preprocess` or `augment` it is what they made of the first rows, on which they are
        called when it is first asked for: dtypes and shapes that vary from batch to batch are
        those of these rows. A ValueError if there are none.
        """
        fields = {output.name: output.field for output in self._outputs if not output.hidden}
        if not self._steps:
            return Schema(fields)
        if self._schema is None:
            with contextlib.closing(self._engines.another(inline=True)) as engine:
                skip = self._report is not None
                batch = first_rows(engine, self._rows.row_groups, skip=skip)
            files, seed = self._source.files, self._options.seed
            self._schema = schema_after(self._steps, batch, fields, seed, files)
        return self._schema

    @property
    def files(self) -> tuple[str, ...]:
        """The files in canonical order."""
        return tuple(file.path for file in self._source.files)

    @property
    def skipped(self) -> tuple[tuple[str, int, str], ...]:
        """What on_error="skip" left out so far, worker processes included.

        The file, the row group in it and the cause of each, in the order in which they were
        found.
        """
        entries = self._report.entries if self._report else ()
        files = self._source.files
        return tuple((files[index].path, group, cause) for index, group, cause in entries)

    def __iter__(self) -> Iterator[Batch | dict[str, Any]]:
        """Begins a pass and closes the one before; each pass is of the next epoch."""
        start, part = self._begin()
        engine = self._engines.of_process(part.workers)
        feed = self._prepared.take(engine, start, part) if self._prepared else None
        self._ahead = self._prepared = None
        rank = self._resolved_rank().rank
        feed = feed or self._feeds.open(engine, start, part, rank)
        feed.on_opened = self._prepare_next if engine.looks_ahead else None
        self._pass = EpochIterator(feed, start, part)
        return self._pass.rows() if self._yields_rows else self._pass

    def stats(self) -> Stats:
        """What the stages have done in this process so far, and what memory they hold."""
        # A fork's copy of another process's pipeline may be locked for ever.
        engine = self._engine if self._engine and self._engine.mine else None
        counts = engine.counts() if engine else {}
        memory = [engine.pipeline.memory] if engine else [[0, 0, 0]]
        running = self._pass.consuming_s if self._pass else 0.0
        return stats_of(
            counts,
            memory + memory_of_workers(self._engines.dataset),
            copied_batches=self._feeds.copied_batches,
            consuming_s=self._consuming_s + running,
            steps_s=self._steps.seconds + self._engines.steps_s,
        )

    def trace(self, capacity: int = CAPACITY) -> contextlib.AbstractContextManager[Trace]:
        """Record what the core does for this dataset in this process, inside a with block.

            with dataset.trace() as trace:
                for batch in dataset:
                    ...
            trace.write("trace.json")  # for https://ui.perfetto.dev

        The Trace is filled when the block ends. Each span costs a system call and a lock; outside
        the block nothing is recorded. DataLoader's worker processes record nothing. In a mix,
        call the method of each source: `mix` reads the datasets that it was given.

        Args:
            capacity: how many spans are kept at most, the first ones.

        Raises:
            ValueError: capacity is less than 1.
        """
        return recorded(self._engines, capacity)

    def warm_cache(self, progress: bool | Callable[[int, int], None] = True) -> None:
        """Reads what passes will ask for, so that `cache` has it; with shuffle for all ranks.

        Begun again, it asks only for what is not there yet.

        progress: whether to show it on stderr (a bar on a terminal, else lines), or what is
            called with how many rows are read, of how many.

        Raises:
            CacheError: nothing is kept of these files, or there was no room for all.
        """
        self._warm(progress, share=(0, 1))

    def _warm(self, progress: bool | Callable[[int, int], None], share: tuple[int, int]) -> None:
        """Does that for one share, of so many, of this rank's rows."""
        plans = (self._rows.row_groups, self._options, self._resolved_rank())
        maker = self._engines.block_maker()
        if maker is not None:
            with contextlib.closing(maker):
                warm_blocks(maker, *plans, progress, share, skip=self._report is not None)
            self._source.storage.flush()
            return
        with contextlib.closing(self._engines.another()) as engine:
            warm(engine, self._batch_rows, *plans, self._source, progress, share)

    def close(self) -> None:
        """Ends the pass and the threads, and closes the files; batches stay valid. Idempotent."""
        super().close()
        self._steps.close()
        if self._engine is not None:
            self._engine.close()
        self._source.storage.close()

    def __getstate__(self) -> dict[str, Any]:
        # What was prepared belongs to this process.
        return {**super().__getstate__(), "_ahead": None, "_prepared": None}

    def __repr__(self) -> str:
        files = self._source.files
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        rows = f"{self._rows.row_groups.total_rows} rows"
        shown = [o.name for o in self._outputs if not o.hidden and o.name not in self._steps.hidden]
        outputs = f"{len(shown)} outputs"
        steps = f", {self._steps.count} steps" if self._steps.count else ""
        return f"FastParquetDataset({files[0].path!r}{more}: {rows}, {outputs}{steps})"

    @property
    def _engine(self) -> Engine | None:
        return self._engines.current

    @property
    def _yields_rows(self) -> bool:
        return self._batch_size is None

    @property
    def _batch_rows(self) -> int:
        return self._batch_size or _ROWS_AT_ONCE

    def _resolved_rank(self) -> Rank:
        if self._rank is None:
            self._rank = resolve_rank(*self._rank_arguments)
        return self._rank

    def _batches(self, position: Position, rank: int | None) -> int:
        total = self._rows.row_groups.total_rows
        world = self._resolved_rank().world
        return plan.batches(total, self._options, position.progress, world, rank)

    def _encoded(self, position: Position, worker: tuple[int, int] | None = None) -> dict[str, Any]:
        return encode_state(self._source, self._options, self._predicate, position, worker)

    def _decoded(
        self, state: Mapping[str, Any], worker: tuple[int, int] | None
    ) -> tuple[Position, bool]:
        decoded = decode_state(state, self._source, self._options, self._predicate, worker)
        position = decoded[0]
        if not position.progress:
            return decoded
        # Refuses progress that this dataset can't have made.
        plan.remaining_rows(self._rows.row_groups.total_rows, self._options, position.progress)
        return decoded

    def _give(self, order: PassStart) -> None:
        super()._give(order)
        ahead = self._prepared or self._ahead
        if ahead is not None and ahead.start != self._next_position():
            self._drop_prepared()

    def _prepare_next(self, scan: core.Scan | None) -> bool:
        """Has the first windows of the next pass read while this one ends in `scan`, if so.

        A step of that; whether it was the last one.
        """
        # Another thread may begin a pass meanwhile.
        engine, running, ahead = self._engine, self._pass, self._ahead
        if scan is None or engine is None or running is None:
            self._drop_prepared()
            return True
        if ahead is None or ahead.before is not scan:
            self._drop_prepared()
            start, rank = self._next_position(), self._resolved_rank().rank
            self._ahead = NextPass(self._feeds, engine, start, running.part, rank, scan)
            return False
        following = ahead.step()
        if following is None:
            return False
        self._ahead = None
        self._prepared = PreparedPass(following, ahead.start, ahead.part)
        return True

    def _drop_prepared(self) -> None:
        self._ahead = None
        prepared, self._prepared = self._prepared, None
        if prepared is not None:
            prepared.close()


def _check_type(kind: type, arguments: Mapping[str, object]) -> None:
    for name, value in arguments.items():
        if value is not None and type(value) is not kind:
            raise TypeError(f"Expected {name} as {kind.__name__}, got {value!r}")
