"""FastParquetDataset: reads Parquet files and yields finished batches."""

from __future__ import annotations

import contextlib
import inspect
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from torch.utils.data import get_worker_info

from fastload.batch.transport import memory_of_workers
from fastload.dataset.arguments import (
    ATTRIBUTES,
    KEYWORDS,
    SETTERS,
    check_arguments,
    check_packed,
    check_slices,
    refuse_beside_tokens,
)
from fastload.dataset.describe import Description
from fastload.dataset.lookup import RowsByIndex, RowTaker, head
from fastload.dataset.opening import OpenedSource, PlannedOutputs, order_of
from fastload.dataset.passes.feed import Feed, FeedContext, weakly
from fastload.dataset.passes.feed_plan import PassPlan
from fastload.dataset.passes.next_pass import NextPass, feed_in_steps
from fastload.dataset.passes.running_pass import Pass
from fastload.dataset.preparing.composed import ComposedSource, composed_source
from fastload.dataset.preparing.prepared import PreparedRows
from fastload.dataset.process_engine import ProcessEngine
from fastload.dataset.ranks import Rank, rank_of, resolve_rank
from fastload.dataset.resumable import Resumable
from fastload.dataset.state import decode_state, encode_identity, encode_state, saved_window
from fastload.dataset.step_rows import step_rows
from fastload.dataset.trace import CAPACITY, Trace, recorded
from fastload.dataset.warm import warm
from fastload.dataset.weights import DatasetWeights
from fastload.engine.budget import resolve_window
from fastload.engine.first_rows import fields_after, first_rows
from fastload.engine.stats import NO_MEMORY, Stats, stats_of
from fastload.errors import NullValueError
from fastload.plan.position import Position
from fastload.plan.sequence import choose_window, rows_of_share
from fastload.plan.units.canonical import row_units, slice_options
from fastload.plan.units.weighted import UnknownWeights
from fastload.rows.selection import EpochRows
from fastload.rows.skip_report import SkipReport
from fastload.rows.values.tokens import (
    batches_of_row,
    lengths_of,
    long_documents,
    options_by_tokens,
    rows_of_batch,
    text_of_batches,
    token_units,
)
from fastload.runtime.digest import digest
from fastload.runtime.disk.cache import Cache, cache_of
from fastload.runtime.hints import missing_attribute, with_hints
from fastload.runtime.native import core
from fastload.runtime.progress import showing
from fastload.runtime.tracing import untraced
from fastload.runtime.units import counted, parse_bytes
from fastload.runtime.user_warnings import warn
from fastload.schema.fields import Schema
from fastload.schema.packs import Pack, TokenBudget
from fastload.schema.projection import plan_columns
from fastload.schema.sizes import stored_bytes
from fastload.source.stores.io import IO
from fastload.source.stores.stores import Stores
from fastload.steps.image_step import image_steps
from fastload.steps.kernel_plan import extra_outputs
from fastload.steps.steps import Steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from torch.distributed.device_mesh import DeviceMesh

    from fastload.batch.batch import Batch
    from fastload.dataset.epochs import PassStart
    from fastload.dataset.lookup import Indices
    from fastload.dataset.preparing.preparation import Preparation
    from fastload.engine.engine import Engine
    from fastload.plan.options import Options, Uneven, Window
    from fastload.plan.position import WorkerSlot
    from fastload.plan.steps import StepOfLeg
    from fastload.plan.units.units import Units
    from fastload.rows.predicate import Filters, SplitArgument
    from fastload.rows.values.weights import Weights
    from fastload.schema.projection import Columns, Nulls, OutputPlan
    from fastload.source.files import PathLike
    from fastload.source.source import SourceArgument
    from fastload.steps.steps import Augment, Preprocess

__all__ = ["FastParquetDataset"]

# What batches hold that are made of a packed dataset's rows by number.
_OF_DOCUMENTS = "of documents, not packed"
# A window of more shares of a rank, and of more bytes, costs so much that the user is told.
_MANY_SHARES = 4
_LARGE_WINDOW = 16 << 20


class FastParquetDataset(Resumable):
    """A PyTorch IterableDataset that reads Parquet files and yields finished batches.

    Iterate over the dataset itself, or over `DataLoader(ds, batch_size=None)`.

    Example:
        ds = FastParquetDataset("train", columns=["f1", "label"], shuffle=True)
        for batch in ds:
            train(batch)
        ds.head(3)["label"]  # a tensor of 3 labels

    A row of the files is a row of a batch, unless `pack` packs lists of tokens into rows of one
    length. A batch has a number of rows, or with `TokenBudget` a number of tokens.

    Args:
        source: The Parquet files: a file, a directory, a glob, or a list of these; or a `Delta` or
            `Iceberg` table.
            Each is a local path (`~` is the home directory) or the URL of an object store (gs://,
            s3://, az://, http(s):// or any other that fsspec knows), or of the Hugging Face Hub
            (hf://datasets/org/name@revision/path), of which one commit is read. Files may differ
            in their columns and types: see `columns`. Directories named `key=value` become
            columns too, if they lie below the given directory, or at or after the first wildcard
            of a glob.
        columns: The outputs of a batch: None (all columns), a list of names, or a mapping.
            A name "a.b" selects a field of a struct. A mapping goes from output name to a
            column name, a dtype (the column of that name, cast), a list of names (a `Stack`), or a
            `Column`, `Stack`, `Pad`, `Fixed`, `Hash`, `Codes` or `Image`; `"*": ...` stands for
            every other column. A list may hold these specs too, but for `Stack`. If the type of a
            column differs between files, the column has the type that pyarrow's permissive
            unification gives. In a file that lacks the column, the column is null.
        batch_size: Number of rows in a batch, or a `TokenBudget`.
            For single rows, iterate over `batch.iter_rows()`, or use `by_index`.
        filters: The condition that rows must meet: an Expression, or a list of conditions.
            An Expression is one of pyarrow.compute. Conditions have the form that pyarrow and
            pandas take, `("price", ">", 0)`: "and" joins the conditions of a list, "or" joins
            the lists of a list; "a.b" names a field of a struct. A date or time may be a str,
            `("day", ">=", "2024-01-31")`. A datetime has a time zone if the column has one. A row
            for which the condition is null is left out. The condition may name any column of the
            files and any hive key. Row-group statistics rule out row groups. For the other row
            groups, the exact rows are found when the dataset is made, and kept in
            $FASTLOAD_CACHE_DIR, or else in the user's cache directory.
        split: A part of the rows by hash: `(columns or None, start, stop)`.
            Of the rows that meet `filters`, the dataset keeps those whose hash lies in
            [start, stop), a part of [0, 1). Hashes are the same on every machine.
            `("user", 0, 0.9)` for training and `("user", 0.9, 1)` for validation share no user.
            With None, the hash is that of the row's number and its file's path below the given
            directory. Module `row_hash` defines the hash.
        limit: Number of rows of the epoch's sequence to keep, from `offset` on, or None for all.
            The kept rows are divided among the ranks into nearly equal slices.
        shuffle: True to permute row groups over the whole dataset, then rows within windows.
        shuffle_window: Number of rows that are shuffled at once; None chooses it.
            None means a rank's share of the epoch, but not fewer rows than an average row group
            has, and at most 2**19 rows or 512 MiB of decoded rows. With `pack` or a `TokenBudget`,
            or with `limit` or `offset`, it is a quarter of a share; with `canonical_ranks`, the
            share is that of a slice. The first run chooses it: a state holds it, and a resume on
            any number of ranks keeps it. A rank decodes the whole windows that its share touches.
            Without shuffle, so many rows are packed, or padded, together.
        seed: Seed of all random choices.
        drop_last: True to leave out the last batch if the batch is short.
        rank: Number of this process among the processes that share an epoch.
            None takes the rank from torch.distributed, or else from RANK and WORLD_SIZE, or else
            from the variables of MPI's launchers (mpirun), or else rank 0 of 1. The rank is
            resolved when it is first needed, and then kept.
        world_size: Number of processes that share an epoch; given together with `rank`.
        uneven: What to do if ranks have different numbers of rows: to evaluate, "pad" or "keep".
            The default repeats rows on the short ranks, and a metric would count them twice.
            "wrap": a short rank repeats its last row. "drop": each rank loses at most one row.
            "pad": as "wrap", and batches have the bool tensor `__valid__`, False for a repeated
            row. "keep": every row comes once, so ranks may have different numbers of batches. With
            a `TokenBudget`, a short rank repeats its last batch, and "drop" loses at most one batch
            a rank.
        preprocess: Deterministic steps: one function or kernel, or a list of them.
            A step computes the same from a row in every epoch. Steps are plain functions
            `fn(block)`, `per_row(...)`, `per_block(...)`, or kernels made by `kernel`, and are
            called in order on a block of rows at a time. The core calls a kernel if only kernels
            come before the kernel. A block is a dict of the outputs of `columns`: numpy arrays
            (B, ...) that share the batch's memory, and Raggeds; a bfloat16 output is a tensor,
            because numpy lacks bfloat16. A function returns the block, or a mapping of outputs to
            add or replace; each output is a numpy array, tensor or Ragged of as many rows (with
            `cache`, of more or fewer rows). An
            output that the function deletes from the block is gone. Which rows form a block is
            not defined, so the result for a row must not depend on other rows.
        augment: Random steps, drawn again in each epoch: one function or kernel, or a list.
            The steps are functions `fn(batch, seeds)`, `per_row(..., seeds=True)` or kernels,
            called in order after `preprocess` on each batch with all its outputs. A function
            returns the same as in `preprocess`. `seeds` is a numpy array uint64 (B,), one seed for
            each row. The seed depends only on the dataset's seed, the epoch, the row's file, the
            row's number and the step's index in the list.
        cache: Where to keep what was read and computed: a directory, a `Cache`, or None.
            `Cache(directory, max_bytes=...)` limits the size. All processes of this user on the
            node share the directory. The cache keeps the bytes read from remote files. With
            `preprocess`, the first pass begins by writing all rows after these steps to Parquet
            files, and passes read these rows. They are valid for one version of the files, one
            choice of columns and rows, and the code of `preprocess` with everything that this code
            refers to. Every output must keep the dtype and shape that it has in the first rows. If
            the rows cannot be written, a warning says why, and rows are read and computed on every
            pass. Functions of blocks may return more or fewer rows than they get, if they do so
            with the first 16 rows; the rows are then written when the dataset is made, and
            `num_rows`, `files` and all options of the order count them.
        threads: Number of threads of the core; None chooses it, 0 starts no thread.
            None divides the cores that this process may use among the ranks of this machine
            (LOCAL_WORLD_SIZE, or MPI's variable) and the DataLoader's workers. With 0, the thread
            that asks for a batch does all work. With shuffle, `memory_budget` may have room for
            fewer threads.
        memory_budget: Memory of this rank for windows, reads, batches, and pages kept for later
            epochs. A number of bytes, or a size such as "4GB". The DataLoader's workers divide the
            budget among themselves. From the first epoch on, decompressed pages, or the rows that
            filters and deletes leave, stay in memory as far as the budget has room, so that later
            epochs neither read nor decompress them.
        prefetch: Least number of batches to keep ready ahead of the consumer, without shuffle.
        pin_memory: Whether batches lie in page-locked memory: True, False or "auto".
            "auto" means True if there is a CUDA device. Copies from page-locked memory to a device
            are fast and may overlap with work. The option has no effect in the DataLoader's
            workers, where DevicePrefetcher and DataLoader pin memory.
        filesystem: An fsspec or pyarrow filesystem to read `source` from, or None.
        storage_options: Options of the filesystem of a URL, in fsspec's words.
            They include token, key, secret, anon, endpoint_url, project and client_kwargs; for
            hf://, token and endpoint. No message shows a credential.
        io: How to read files: an `IO`; None means `IO()`.
        on_error: What to do with a corrupt row group: "raise" or "skip".
            "skip" leaves out the rows of the row group, lists the row group in `skipped`, and
            warns once. The number of batches stays the same: the nearest readable rows of the
            same rank and window take the place of the lost rows. With uneven="pad", `__valid__` is
            False for them; otherwise nothing marks these rows, which come more than once. A rank
            without readable rows raises, and so does a file without a readable footer. With
            `filters` or `split`, no row is kept of a row group whose filter columns cannot be read.
            Storage errors are never skipped. "skip" does not go with `pack`, a `TokenBudget`,
            `global_batch_size`, `canonical_ranks` or `weights`.
        provenance: True to add the outputs `__file__` and `__row__`.
            `__file__` is an int32 index into `files`, `__row__` the int64 number of the row in
            that file.
        nulls: What becomes of nulls in columns without `fill` and `valid` of their own.
            "raise": a pass raises `NullValueError`, before its first batch if the footers show the
            nulls. "nan": NaN in a float column, and an error in any other. "zero": 0, False or
            empty. "mask": as "zero", and each output whose files have a null (or do not say) gets
            an output `<output>__valid`, a bool tensor (B,) that is True where the value is not
            null; for a `Stack`, it is (B, F). A `Codes` has a code for nulls, and no such output.
        exclude: Names of columns to leave out; the name of a struct leaves out all its fields.
        offset: Number of rows to leave out at the start of the epoch's sequence.
            `offset=n` and `limit=n` share no row and miss none if all else is equal. If the
            sequence has no more rows than `offset`, an epoch has no batch.
        mesh: A torch DeviceMesh whose data-parallel dimensions give rank and world size.
            Processes that differ only in other dimensions (tensor, pipeline, context) read the
            same rows. Data-parallel are dimensions with names such as "dp", "dp_replicate",
            "dp_shard", "data_parallel", "fsdp", "ddp", "replicate", "shard" and "batch", and the
            only dimension of a mesh without names. For other names, pass a pair of the mesh and
            the names of its data-parallel dimensions: `mesh=(mesh, ["dp", "ep"])`.
        global_batch_size: Rows of a step over all ranks, instead of `batch_size`.
            The epoch's sequence is cut into `canonical_ranks` slices, and each step takes as many
            rows of each slice. So step t has the same set of rows on every number of ranks that
            divides `canonical_ranks`, also after a resume on another number. `shuffle_window`
            counts the rows of all slices that are mixed at once. The rank is resolved when the
            dataset is made.
        canonical_ranks: Number of slices, which `global_batch_size` is a multiple of.
            None means the number of ranks of the first run; a resume on fewer ranks has to name
            it.
        pack: A `Pack`, to pack lists of tokens into rows of equal size.
            `batch_size` then counts packed rows. With None for `columns`, the outputs are those
            that `Pack` names. `limit` counts documents. With `provenance`, `__file__`, `__row__`
            and `__offset__` name the first document of each packed row, and its first token in
            this row.
        weights: How often rows come: the name of a column, or an array of `num_rows` numbers.
            With N rows, row i comes N * w[i] / sum(w) times in an epoch on average: rounded down
            or up, drawn again in each epoch. Weight 0 leaves a row out. An array has the order of
            `take`. The copies of a row have the same seed for `augment`.

    Raises:
        SourceNotFoundError, CorruptFileError, StorageError: The files of `source` cannot be read.
        ColumnNotFoundError, SchemaError, UnsupportedTypeError: Columns do not exist, have no
            common type in the files, or cannot be read (encrypted columns).
        NullValueError: During iteration: a column holds nulls and has no fill. The
            constructor raises if it reads the rows itself: null lists that `pack` or a
            `TokenBudget` counts, and with `cache`, steps that change the number of rows.
        ValueError, TypeError: An argument is wrong, or `memory_budget` is too small for the
            windows. During iteration: `preprocess` or `augment` returned something other than a
            mapping of outputs with as many rows. An exception that a step raises is raised
            unchanged (that of a `per_row` as the cause of a RuntimeError), from Python 3.11 on with
            a note that says where, and is raised again each time the same iterator is asked for
            more.
    """

    @with_hints("FastParquetDataset", KEYWORDS)
    def __init__(
        self,
        source: SourceArgument,
        *,
        columns: Columns = None,
        batch_size: int | TokenBudget = 1024,
        filters: Filters | None = None,
        split: SplitArgument | None = None,
        limit: int | None = None,
        shuffle: bool = False,
        shuffle_window: int | None = None,
        seed: int = 0,
        drop_last: bool = False,
        rank: int | None = None,
        world_size: int | None = None,
        uneven: Uneven = "wrap",
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
        nulls: Nulls = "raise",
        exclude: Sequence[str] = (),
        offset: int = 0,
        mesh: DeviceMesh | tuple[DeviceMesh, str | Sequence[str]] | None = None,
        global_batch_size: int | None = None,
        canonical_ranks: int | None = None,
        pack: Pack | None = None,
        weights: Weights | None = None,
    ) -> None:
        check_arguments(locals())
        super().__init__(Position(seed, 0, ()))
        # 1. The order, before any file is opened, so that a wrong argument raises at once.
        by_tokens = pack or (batch_size if isinstance(batch_size, TokenBudget) else None)
        if by_tokens is not None:
            refuse_beside_tokens(locals())
        self._by_tokens = by_tokens
        io, memory_budget = IO() if io is None else io, parse_bytes(memory_budget)
        skips, padded = on_error == "skip", uneven == "pad"
        self._batch_size = batch_size if isinstance(batch_size, int) else 0
        self._rows_of_batch = 0  # rows of a batch that has no fixed number of them; 0 = it has
        self._buffers = 1  # as in `ProcessEngine`
        self._window_given = shuffle_window
        self._settles_window = False  # at the next `_resolved_rank`
        self._rank_arguments = (rank, world_size)
        self._rank: Rank | None = None
        if mesh is not None or rank is not None or world_size is not None:
            self._rank = rank_of(mesh, rank, world_size)
        slices, step_rows = self._slices(global_batch_size, canonical_ranks)
        check_packed(pack, self._batch_size)
        self._options: Options = order_of(locals(), step_rows or self._batch_size or 1, slices)

        images = image_steps(columns, threads, pack)

        # 2. Steps that change what the rows are: the dataset reads the rows after these steps.
        self._composed, opened = None, composed_source(FastParquetDataset, locals())
        if isinstance(opened, ComposedSource):
            self._composed = opened
            source, cache = opened.files, opened.cache
            columns = filters = split = preprocess = filesystem = storage_options = None
            exclude = ()
            images = [step for step in images if step.seeds]  # the others are decoded

        # 3. The source, and the outputs.
        self._provenance = provenance
        self._steps = Steps(preprocess, augment, provenance=provenance, images=images)
        # `take` does not call the functions of `augment`, but decodes random images.
        self._lasting_steps = Steps(preprocess, None, provenance=provenance, images=images)
        kept = cache_of(cache)
        if not isinstance(opened, OpenedSource):
            storage = Stores(filesystem, storage_options, io, kept)
            opened = OpenedSource.of(source, storage, filters, split)
        self._opened = opened
        self._source, self._predicate = opened.source, opened.predicate
        planned = PlannedOutputs.of(
            opened,
            columns,
            exclude,
            nulls,
            self._steps,
            pack,
            provenance=provenance,
            padded=padded,
        )
        self._lists, self._projection, self._outputs = planned[:3]
        # If some rows are left out, these may be the ones with nulls.
        self._refusal = planned.lists.refusal if opened.filter_schema is None else ""
        self._columns = (columns, tuple(exclude))
        self._nulls: Nulls = nulls
        self._taker: RowTaker | None = None
        self._schema: Schema | None = None  # after the steps; None until first asked for

        # 4. The rows, and the passes over them.
        self._report = SkipReport() if skips else None
        self._rows = EpochRows(self._source, opened.chooses, self._report)
        most_rows = resolve_window(shuffle_window, self._projection.row_bytes)
        self._options = replace(self._options, shuffle_window=most_rows)
        if by_tokens is not None:
            self._options = options_by_tokens(by_tokens, self._lists, self._options)
        self._weights: DatasetWeights | None = None
        if weights is not None:
            self._weights = DatasetWeights(
                self._source, self._rows, io, memory_budget, weights, self._epochs
            )
        self._units = self._planned(io, memory_budget)
        identity = digest(self._predicate.digest, str(io.verify_crc))
        self._prepared = PreparedRows.of(
            kept, self._steps, identity, provenance=provenance, padded=padded, skips=skips
        )
        # Rows of a window are packed, and batches are padded, together: without shuffle, too.
        in_windows = shuffle or pack is not None or getattr(by_tokens, "padded", False)
        self._engines = ProcessEngine(
            source=self._source,
            projection=self._projection,
            outputs=self._outputs,
            extra_bytes=planned.extra_bytes,
            kernels=planned.kernels,
            rows=self._rows,
            options=self._options,
            window=self._options.shuffle_window if in_windows else None,
            batch_rows=self._batch_rows,
            buffers=self._buffers,
            fixed_stripes=skips,
            io=io,
            threads=threads,
            memory_budget=memory_budget,
            prefetch=prefetch,
            pin_memory=pin_memory,
            dataset=secrets.token_hex(8),
            prepared=self._prepared,
        )
        self._context = FeedContext(
            engines=self._engines,
            steps=self._steps or None,
            report=self._report,
            marked=padded,
            composed=self._composed is not None,
        )
        self._ahead = NextPass()
        self._settles_window = in_windows
        self._settle_window()
        self._engines.budget(workers=1)  # raises at once if memory_budget is too small

    def _slices(
        self, global_batch_size: int | None, canonical_ranks: int | None
    ) -> tuple[int | None, int]:
        """Return the number of canonical slices, and the rows of a step; (None, 0) = no slices."""
        if global_batch_size is None and canonical_ranks is None:
            return None, 0
        world = self._resolved_rank().world
        slices = canonical_ranks or world
        # With a TokenBudget, a step has one budget of each slice.
        step_rows = global_batch_size or slices
        check_slices(step_rows, slices, of_ranks=canonical_ranks is None)
        self._batch_size = step_rows // world
        return slices, step_rows

    @property
    def schema(self) -> Schema:
        """The outputs of a batch, in output order: name -> `Field`.

        With `preprocess` or `augment`, the schema describes the result of these steps. The first
        access calls the steps on the first rows of the dataset. If a dtype or shape varies from
        batch to batch, the schema holds the dtype or shape of these first rows.

        Raises:
            ValueError: The dataset has steps but no rows.
        """
        fields = {output.name: output.field for output in self._outputs if not output.hidden}
        if not self._steps or not self._steps.of_user:
            return self._schema_before_steps
        if self._schema is None:
            files, seed = self._source.files, self._options.seed
            after, _ = fields_after(self._steps, self._first_rows(), fields, seed, files)
            self._schema = Schema(after)
        return self._schema

    def _first_rows(self) -> Batch:
        """Return the first rows before the steps; a null that would be an error is 0 there."""
        row_groups, skip = self._rows.row_groups, self._report is not None
        try:
            with contextlib.closing(self._engines.another(inline=True)) as engine:
                return first_rows(engine, row_groups, skip=skip)
        except NullValueError:
            if isinstance(self._by_tokens, Pack):
                raise
        columns, exclude = self._columns
        projection = plan_columns(self._source, columns, exclude=exclude, nulls="zero")
        extra = self._extra_outputs(self._steps)
        engines = self._engines.beside(projection, extra, self._steps)
        with contextlib.closing(engines.another(inline=True)) as engine:
            return first_rows(engine, row_groups, skip=skip)

    @property
    def num_rows(self) -> int:
        """Number of rows that `filters` and `split` keep, on all ranks.

        `offset` and `limit` do not count.
        """
        return self._rows.row_groups.total_rows

    @property
    def epoch_bytes(self) -> int:
        """Bytes that the columns of an epoch take in the files, compressed, on all ranks.

        Footers tell the bytes; nothing is read. Each column chunk counts as a whole, with its
        dictionary, in each row group in which `filters` and `split` keep a row. `offset`, `limit`
        and `weights` do not count, nor do columns that only `filters`, `split` or `weights` name.
        All ranks together may read fewer bytes, because a pass leaves out pages without rows, and
        later epochs take kept pages from memory. They may read more bytes, because two ranks can
        need the same row group, and some pages are read twice.

        Example:
            ds = FastParquetDataset("train", columns=["f1", "label"])
            ds.epoch_bytes / 1e6  # MB on disk, or over the network
        """
        return stored_bytes(self._source.files, self._projection.columns, self._rows.row_groups)

    @untraced
    def head(self, n: int = 5) -> Batch:
        """Return the first rows of the dataset as a Batch, in stored order.

        With `pack`, the rows are documents and the packed outputs are lists: nothing is packed.
        The running pass and the epoch stay as they are. The steps of `preprocess` and `augment`
        are applied, with the seeds of epoch 0. Nulls are treated as with nulls="mask", but for
        those of an `Image`. `offset` does not count; `limit` does.

        Args:
            n: Number of rows, at least 1. A dataset with fewer rows gives all its rows.

        Raises:
            ValueError: The dataset has no rows, `n` is less than 1, or `memory_budget` has no room
                for `n` rows.
            RuntimeError: The dataset was closed.
        """
        self._expect_open()
        columns, exclude = self._columns
        projection = plan_columns(
            self._source, columns, exclude=exclude, nulls="mask", check_nulls=False
        )
        extra = self._extra_outputs(self._steps)
        return head(self._engines, projection, extra, self._steps, n)

    @untraced
    def take(self, indices: Indices) -> Batch:
        """Return rows by number as one Batch, in the order of `indices`.

        Row i is the i-th of the `num_rows` rows that `filters` and `split` keep, in stored order:
        `shuffle`, `limit` and the ranks play no part. With `pack`, the rows are documents, as in
        `head`. A row may be asked for several times. Each page that holds a row is decoded once.
        `preprocess` is applied, `augment` is not, and a random `Image` is drawn as in epoch 0. A
        corrupt row group raises an error whatever `on_error` says. The running pass and the epoch
        stay as they are. Several threads may take rows at the same time.

        Example:
            ds = FastParquetDataset("train", columns=["f1", "label"])
            ds.take([7, 0, -1, 7])["label"]  # a tensor of 4 labels

        Args:
            indices: Numbers of rows: a list, a range, an array or a tensor of integers. -1 is the
                last row.

        Raises:
            IndexError: A row does not exist.
            NullValueError: One of the rows holds a null that is an error.
            TypeError: `indices` are not integers in one dimension.
            ValueError: `indices` are empty, and so is the dataset.
            RuntimeError: The dataset was closed.
        """
        self._expect_open()
        if self._taker is None:
            extra = self._extra_outputs(self._lasting_steps)
            self._taker = RowTaker(self._engines, self._lists, extra, self._lasting_steps)
        return self._taker.take(indices)

    def _preparation(self) -> Preparation:
        """Return what writes the rows of this dataset after `preprocess` to files."""
        from fastload.dataset.preparing.preparation import Preparation

        self._expect_open()
        self._refuse_nulls()
        steps = self._lasting_steps.resizing()
        engines = self._engines.beside(self._lists, self._extra_outputs(steps), steps)
        return Preparation(engines, steps, digest(self._source.fingerprint, self._predicate.digest))

    @untraced
    def by_index(self) -> RowsByIndex:
        """Return the rows as a map-style dataset, for torch's samplers and others that count rows.

        Item i is row i of `take`, as a dict of scalars and tensors; with `pack`, a document. A
        DataLoader needs no collate_fn: with batch_size=32, it hands out Batches of 32 rows.

        Example:
            rows = FastParquetDataset("train", columns=["f1", "label"]).by_index()
            loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=2)
        """
        described, schema = self._description, self._schema_before_steps
        if isinstance(self._by_tokens, Pack):
            outputs = (*self._lists.outputs, *self._extra_outputs(self._lasting_steps))
            schema = Schema({output.name: output.field for output in outputs})
            described = replace(described, batches=_OF_DOCUMENTS)
        return RowsByIndex(self, described.text(schema, final=False))

    def set_weights(self, weights: Weights) -> None:
        """Replace the weights of a dataset that was made with `weights`, from the next epoch on.

        A running or resumed epoch keeps its weights. Worker processes that are already running
        begin their next epoch with the new weights, which they find in shared memory.

        Example:
            ds = FastParquetDataset("train", columns=["f1"], weights="weight", shuffle=True)
            for batch in ds:
                ...
            ds.set_weights([1.0] * ds.num_rows)  # the next epoch has each row once

        Args:
            weights: The new weights, as the parameter `weights`.

        Raises:
            TypeError, ValueError: The weights are wrong, the dataset was made without weights, or a
                mix has the dataset as a source.
            OSError: Worker processes were started, and there is no shared memory for the weights.
        """
        if self._weights is None:
            raise ValueError(
                "A dataset made without weights has none to replace: pass weights= when you make "
                "the dataset, such as numpy.ones(num_rows) for each row once"
            )
        running = self._pass
        self._weights.replace(weights, {running.start.weights} if running else set())
        self._drop_unexpected()

    @property
    def files(self) -> tuple[str, ...]:
        """The files in canonical order."""
        return tuple(file.path for file in self._source.files)

    @property
    def skipped(self) -> tuple[tuple[str, int, str], ...]:
        """The row groups that on_error="skip" has left out so far, in any process.

        An entry holds the file, the number of the row group in the file, and the cause. Entries
        come in the order in which the row groups were found.
        """
        entries = self._report.entries if self._report else ()
        files = self._source.files
        return tuple((files[index].path, group, cause) for index, group, cause in entries)

    @untraced
    def __iter__(self) -> Iterator[Batch]:
        """Begin a pass over the next epoch, and end the pass before.

        If the first batch of the pass before raised an error, begin where that pass began.

        If the iterator of an ended pass is asked for more, it raises RuntimeError. To look at some
        rows while a pass is running, call `head`; to read the whole dataset, iterate over a copy:
        `copy.copy(dataset)`.
        """
        self._refuse_nulls()
        with self._beginning() as (start, part):
            engine = self._engines.of_process(part.workers)
            feed = self._ahead.take(engine, start, part)
            if feed is None:
                feed = Feed(self._context, engine, PassPlan(self._units, start, part))
            feed.on_opened = weakly(self._prepare_next) if engine.looks_ahead else None
            if engine.looks_ahead:
                self._units.foresee(self._next_position)
            begun = self._pass = Pass(feed, start, part, self._epochs, of=self._digest)
        return begun

    def _refuse_nulls(self) -> None:
        """Raise NullValueError if footers show a null that a pass over the rows would meet."""
        if self._refusal and self.num_rows:
            raise NullValueError(self._refusal)

    def stats(self) -> Stats:
        """Return what the stages have done in this process so far, and the memory they hold."""
        # After a fork, the locks in the copy of the parent's pipeline may stay locked for ever.
        engine = self._engine if self._engine and self._engine.mine else None
        counts = engine.counts() if engine else {}
        memory = [engine.pipeline.memory] if engine else [NO_MEMORY]
        return stats_of(
            counts,
            memory + memory_of_workers(self._engines.dataset),
            copied_batches=self._context.copied_batches,
            consuming_s=self._seconds_between_batches(),
            steps_s=self._steps.seconds + self._engines.steps_s,
            documents=long_documents(self._by_tokens, self._units, self._epoch_position()),
            threads=max(engine.budget.threads, 1) if engine else 1,
        )

    def trace(self, capacity: int = CAPACITY) -> contextlib.AbstractContextManager[Trace]:
        """Record what the core does for this dataset in this process, inside a with block.

            with dataset.trace() as trace:
                for batch in dataset:
                    ...
            trace.write("trace.json")  # for https://ui.perfetto.dev

        The Trace is filled when the block ends. Each span costs a system call and a lock. Outside
        the block, and in DataLoader's worker processes, nothing is recorded. To trace a mix, call
        `trace` of each dataset that was passed to `mix`.

        Args:
            capacity: Largest number of spans to keep; later spans are counted and dropped.

        Raises:
            TypeError, ValueError: `capacity` is not an int, or is less than 1.
            RuntimeError: A trace of this dataset is being recorded already.
        """
        return recorded(self._engines, capacity)

    def warm_cache(self, progress: bool | Callable[[int, int], None] = True) -> None:
        """Fill `cache` with the rows of this rank; with shuffle, with the rows of all ranks.

        With `pack`, a `TokenBudget` or `weights`, the rows of all ranks are also read. A second
        call reads only rows that the cache lacks.

        Args:
            progress: True to show the progress on stderr (a bar on a terminal, otherwise lines),
                or a function to call with the number of rows read and the number of all rows.

        Raises:
            CacheError: The cache keeps nothing of these files, or has no room for all rows.
            RuntimeError: The dataset was closed.
        """
        self._warm(progress, share=(0, 1))

    def _warm(
        self,
        progress: bool | Callable[[int, int], None],
        share: tuple[int, int],
        since_ns: int | None = None,
    ) -> None:
        """Fill `cache` with one share of this rank's rows.

        Args:
            progress: as for `warm_cache`.
            share: number of the share, and number of shares.
            since_ns: time at which the first share began; None = now.
        """
        self._expect_open()
        self._refuse_nulls()
        if self._composed is not None:  # the rows were prepared when the dataset was made
            with showing(progress) as show:
                show(self.num_rows, self.num_rows)
            return
        engines, options = self._engines, self._options
        # Which rows are a rank's differs from epoch to epoch, or depends on all lengths.
        if self._by_tokens is not None:
            options = replace(options, shuffle=True, batch_size=1)
        if self._weights is not None:
            options = replace(options, shuffle=True)
        if isinstance(self._by_tokens, Pack):
            engines = replace(engines, projection=self._lists, outputs=self._lists.outputs)
        warm(engines, self._prepared, options, self._resolved_rank(), progress, share, since_ns)

    def close(self) -> None:
        """End the pass and the threads, close the files, and free the kept pages. Idempotent.

        Batches stay valid. If the iterator of the pass is asked for more, it raises RuntimeError.
        """
        super().close()
        self._units.close()
        self._steps.close()
        if self._prepared is not None:
            self._prepared.close()
        if self._taker is not None:
            self._taker.close()
        if self._engine is not None:
            self._engine.close()
        self._source.storage.close()
        if self._composed is not None:
            self._composed.folder.close()

    if not TYPE_CHECKING:  # type checkers refuse unknown attributes themselves

        def __getattr__(self, name: str) -> Any:
            return missing_attribute(self, name, ATTRIBUTES)

    @staticmethod
    def _instead_of_setting(name: str) -> str:
        if name in SETTERS:
            return SETTERS[name]
        known = inspect.signature(FastParquetDataset.__init__).parameters
        return f"pass {name}= when you make the dataset" if name in known else ""

    def __repr__(self) -> str:
        return self._description.text(self._known_schema, final=self._schema is not None)

    def _repr_html_(self) -> str:
        return self._description.html(self._known_schema)

    @property
    def _description(self) -> Description:
        if self._by_tokens is not None:
            batches = text_of_batches(self._by_tokens, self._options.batch_size)
        else:
            batches = f"of {counted(self._batch_size, 'row')}"
        seed = self._epochs.next.position.seed  # perhaps that of a loaded state
        options = replace(self._options, seed=seed)
        return Description(self.files, self.num_rows, batches, options, self._steps)

    @property
    def _known_schema(self) -> Schema:
        """The schema, without calling the steps for it: perhaps the schema before the steps."""
        return self._schema or self._schema_before_steps

    @property
    def _schema_before_steps(self) -> Schema:
        """The schema of what the steps get, without the columns that only steps use."""
        hidden = self._steps.hidden
        shown = (o for o in self._outputs if not o.hidden and o.name not in hidden)
        fields = {output.name: output.field for output in shown}
        return Schema(fields | {step.inputs[0]: step.field for step in self._steps.images})

    def _extra_outputs(self, steps: Steps) -> list[OutputPlan]:
        places = self._provenance or steps.need_places
        return extra_outputs(provenance=places, padded=self._options.uneven == "pad")

    @property
    def _engine(self) -> Engine | None:
        return self._engines.current

    @property
    def _batch_rows(self) -> int:
        return self._rows_of_batch or self._batch_size or 1

    def _resolved_rank(self) -> Rank:
        if self._rank is None:
            self._rank = resolve_rank(*self._rank_arguments)
        self._settle_window()
        return self._rank

    def _settle_window(self) -> None:
        """Once the rank is known, choose the shuffle window, or warn of the user's."""
        if self._rank is None or not self._settles_window:
            return
        self._settles_window = False
        world = self._rank.world
        options, groups = self._options, self._rows.row_groups
        if self._weights is not None:
            options = options.weighted(self._weights.name)
        if self._window_given is None:
            self._use_window(choose_window(options, groups, world))
            return
        share = rows_of_share(options, groups.total_rows, world)
        rows = min(slice_options(options).shuffle_window, groups.total_rows)
        large = rows * self._projection.row_bytes > _LARGE_WINDOW
        info = get_worker_info()
        if rows > _MANY_SHARES * share and large and (info is None or not info.id):
            slices = options.canonical_ranks or 1
            warn(
                f"shuffle_window={self._window_given} mixes {rows} rows at once, "
                f"{rows // share} times the {share} rows of a rank's share of an epoch, and a rank "
                "reads and decodes the whole windows that its share touches: pass "
                f"shuffle_window={slices * share}, or leave shuffle_window out"
            )

    def _use_window(self, window: Window) -> None:
        if window == self._options.window:
            return
        self._options = self._options.in_windows(window)
        self._units.use_window(window)
        self._engines.options, self._engines.window = self._options, window.rows
        self._ahead.drop()
        self.__dict__.pop("_digest", None)

    def _use_windows(self, windows: tuple[Window | None, ...]) -> None:
        for window in filter(None, windows):
            self._settles_window = False
            self._use_window(window)

    @contextlib.contextmanager
    def _in_windows(self, windows: tuple[Window | None, ...]) -> Iterator[None]:
        before = self._options.window, self._settles_window
        try:
            self._use_windows(windows)
            yield
        finally:
            self._use_window(before[0])
            self._settles_window = before[1]

    def _saved_window(self, state: Mapping[str, Any]) -> Window | None:
        """Return the shuffle windows to take over from a state; None = those of the dataset stay.

        Args:
            state: the state, or the part of this source in the state of a mix.
        """
        if self._window_given is not None or self._engines.window is None:
            return None
        return saved_window(state)

    def _planned(self, io: IO, memory_budget: int) -> Units:
        """Return the units of the epochs; arguments as for `lengths_of`."""
        options, by_tokens = self._options, self._by_tokens
        units = row_units(self._rows.row_groups, options, core.permutation)
        if self._weights is not None:
            units = self._weights.units(options)
        rows = slice_options(options).batch_size
        slices = 1
        if options.canonical_ranks is not None:
            slices = max(1, options.canonical_ranks // self._resolved_rank().world)
            self._buffers = slices if options.pack is None else 1
        if by_tokens is not None:
            lengths = lengths_of(
                by_tokens, self._source, self._lists, self._rows, io, memory_budget
            )
            units = token_units(by_tokens, lengths, options)
            self._buffers *= batches_of_row(by_tokens, lengths, rows)
            rows = rows_of_batch(by_tokens, lengths, rows)
        if units.options is not options:
            self._rows_of_batch = rows * slices
        return units

    def _batches(self, position: Position, rank: int | None) -> int:
        return self._units.batches(position, self._resolved_rank().world, rank)

    def _rows_of(
        self, position: Position, steps: Iterable[StepOfLeg], rank: int | None
    ) -> dict[str, NDArray[Any]]:
        shares = list(self._units.step_shares(position, steps, rank))
        return step_rows(shares, position, [(self._source, self._rows, self._units)])[0]

    def _encoded(self, position: Position, worker: tuple[int, int] | None = None) -> dict[str, Any]:
        self._resolved_rank()
        options = self._options.weighted(position.weights)
        return encode_state(self._source, options, self._predicate, position, worker)

    def _identity(self) -> dict[str, Any]:
        self._resolved_rank()
        # A position names the weights of its epoch.
        options = self._options.weighted("")
        return encode_identity(self._source, options, self._predicate)

    def _decoded(
        self, state: Mapping[str, Any], worker: tuple[int, int] | None
    ) -> tuple[Position, bool]:
        windows = (self._saved_window(state),)
        with self._in_windows(windows):
            options = self._options
            if self._weights is not None:
                options = self._weights.options_of(state, options)
            position, own = decode_state(state, self._source, options, self._predicate, worker)
            if position.progress:
                # Raises if this dataset cannot have made the progress.
                self._units.check(position)
            self._engines.budget(workers=1)  # raises if memory_budget is too small
        return replace(position, windows=windows), own

    def _give(self, order: PassStart) -> None:
        super()._give(order)
        self._drop_unexpected()

    def _drop_unexpected(self) -> None:
        self._ahead.expect(self._next_position)

    def _prepare_next(self, scan: core.Scan | None) -> bool:
        """Take one step towards the next pass; True if no step is left.

        With None (the running pass gave up its scan for another scan), drop the prepared pass.
        """
        # Another thread may begin a pass while this method runs.
        engine, running = self._engine, self._pass
        if scan is None or engine is None or running is None:
            self._ahead.drop()
            return True
        context, part = self._context, running.part

        def plan() -> tuple[Position, WorkerSlot, Iterator[Feed | None]]:
            start = self._next_position()
            following = PassPlan(self._units, start, part)
            return start, part, feed_in_steps(context, engine, following, scan)

        try:
            return self._ahead.step(scan, plan)
        except UnknownWeights:  # the process that gives weights has replaced them meanwhile
            self._ahead.drop()
            return True
