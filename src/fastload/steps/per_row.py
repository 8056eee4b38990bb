"""Steps that call a function for each row, or for several blocks, on threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from fastload.steps.row_values import RefusedRowError, RowValues, rows_of
from fastload.steps.thread_pool import Job

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

    from fastload.batch.ragged import Ragged
    from fastload.steps.block import Block
    from fastload.steps.row_values import Layout

__all__ = ["PerBlock", "PerRow", "RowJob", "name_of", "per_block", "per_row"]

# The most rows that a thread takes at once: few, so that all threads end at about the same time.
_MOST_CHUNK_ROWS = 16
_CHUNKS_PER_THREAD = 4


@dataclass(frozen=True, slots=True)
class PerRow:
    """A step for `preprocess`, or with seeds for `augment`, made by `per_row`.

    Attributes:
        fn: the function to call for each row.
        inputs: the names of the outputs that the function takes.
        outputs: the names of the outputs that the function's results become.
        layouts: the layout of each output.
        threads: the number of threads of each process, or None, as `per_row` takes it.
        seeds: the function takes the row's seed after the inputs.
    """

    fn: Callable[..., Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    layouts: tuple[Layout, ...]
    threads: int | None
    seeds: bool

    @property
    def label(self) -> str:
        """Name of the step in messages."""
        return f"per_row step `{name_of(self.fn)}`"

    def __repr__(self) -> str:
        seeds = ", seeds=True" if self.seeds else ""
        return f"per_row({name_of(self.fn)}, inputs={self.inputs}, outputs={self.outputs}{seeds})"


def per_row(
    fn: Callable[..., Any],
    inputs: str | Sequence[str],
    outputs: str | Sequence[str] | Mapping[str, Layout],
    threads: int | None = None,
    *,
    seeds: bool = False,
) -> PerRow:
    """Return a step that calls `fn` for each row, on separate threads.

    The step is for `preprocess`. With `seeds`, the step is for `augment`, and computes something
    new in every epoch.

    Example:
        length = per_row(len, inputs="user.name", outputs="length")
        ds = FastParquetDataset("train", columns=["user.name"], preprocess=length)
        next(iter(ds))["length"]  # int64 (B,)

        part = per_row(lambda name, seed: name[seed % 3 :], "user.name", "part", seeds=True)
        ds = FastParquetDataset("train", columns=["user.name"], augment=part)

    Use it for functions that release the GIL, such as decoders of images; other functions are
    faster when they process a whole block in one call. While the consumer uses a batch, the
    threads work on the rows of the next batches: at most two batches, and no more than the
    dataset's `prefetch`.

    Args:
        fn: a function `fn(*inputs)`, or with `seeds` `fn(*inputs, seed)`, of one row, which may be
            called from several threads at a time. An input is a bool, int or float for an output
            (B,), a tensor (...) for an output (B, ...), or an element of a Ragged: str, bytes, a
            tensor or a Ragged. The function returns a value, or for several outputs a tuple of
            values: a bool, int, float, str, bytes, tensor, array (or an object that numpy.asarray
            takes, such as an image of PIL) or list of numbers. The values of an output have the
            same type and dtype in all rows, and `fn` does not change an array or tensor that it has
            returned. An empty list takes the dtype and the inner shape of the other lists. Where
            all lists of a batch may be empty, return arrays, which have both:
            `np.array(boxes, "float32").reshape(-1, 4)`. Otherwise such a batch has float32 values
            of shape (0,).
        inputs: name or names of the outputs that `fn` takes, after the earlier steps.
        outputs: name or names of the outputs to add or replace. Numbers, and values of one shape,
            become a tensor (B, ...). str, bytes, and values that differ in the length of their
            first dimension become a Ragged. Because all values of a batch may have one length by
            chance, a mapping from name to "ragged" or "dense" can fix the layout of an output
            (None = the shapes of the values decide, as described).
        threads: the number of threads of each process; None = the process's share of the cores, as
            in `FastParquetDataset`; 0 = the thread that asks for a batch calls `fn`.
        seeds: `fn` takes the row's seed as its last argument: an int from 0 to 2**64 - 1, the same
            that a function of `augment` gets for the row at the same index in the list.

    Raises:
        TypeError, ValueError: an argument is wrong. During iteration, a RuntimeError names the row
            for which `fn` failed, with the error of `fn` as its cause, and a ValueError names the
            row whose value does not fit the other values.
    """
    if not callable(fn):
        raise TypeError(f"Expected fn of per_row to be callable, got {fn!r}")
    layouts = dict(outputs) if isinstance(outputs, Mapping) else {}
    named = _names("outputs", tuple(layouts) if isinstance(outputs, Mapping) else outputs)
    for name, layout in layouts.items():
        if layout not in (None, "dense", "ragged"):
            raise ValueError(
                f"Expected 'dense', 'ragged' or None for output `{name}` of per_row, got {layout!r}"
            )
    check_threads("per_row", threads)
    if type(seeds) is not bool:
        raise TypeError(f"Expected seeds of per_row as bool, got {seeds!r}")
    in_order = tuple(layouts.get(name) for name in named)
    return PerRow(fn, _names("inputs", inputs), named, in_order, threads, seeds)


class RowJob(Job):
    """Calls a step's function for each row of a block.

    Args:
        step: the step.
        columns: the arguments of the step's function, each with a value for each row.
        rows: the number of rows in the block.
        location: returns the file and number of a row, for messages.
    """

    def __init__(
        self,
        step: PerRow,
        columns: Sequence[torch.Tensor | Ragged | NDArray[np.uint64]],
        rows: int,
        location: Callable[[int], str],
    ) -> None:
        super().__init__()
        self._step = step
        self._columns = columns
        self._location = location
        self._rows = rows
        self._values = [RowValues(rows, layout) for layout in step.layouts]
        self._outputs: dict[str, torch.Tensor | Ragged] = {}
        self._left = rows

    def outputs(self) -> dict[str, torch.Tensor | Ragged]:
        """Return the outputs by name. The job has to be done.

        Raises:
            RuntimeError: the function failed for a row (the function's error is the cause), or the
                job was cancelled.
            ValueError: a row's value does not fit the other values.
        """
        if self._error is not None and isinstance(self._error.__cause__, KeyboardInterrupt):
            # Ctrl-C reaches a function that the main thread itself has called (threads=0).
            self._error = self._error.__cause__
        self.raise_error()
        return self._outputs

    @override
    def chunks(self, threads: int) -> list[tuple[int, int]]:
        """Divide all rows into ranges (start, stop)."""
        rows = self._rows
        size = max(1, min(_MOST_CHUNK_ROWS, rows // max(1, threads * _CHUNKS_PER_THREAD)))
        return [(start, min(start + size, rows)) for start in range(0, rows, size)]

    @override
    def run(self, start: int, stop: int) -> None:
        """Call the function for a range of rows, and keep its results or its error.

        Raises nothing.
        """
        if self.done:
            return
        row = start
        try:
            columns = [rows_of(column[start:stop]) for column in self._columns]
            for row, arguments in enumerate(zip(*columns, strict=True), start):
                if self._over.is_set():
                    return
                self._put(row, self._step.fn(*arguments))
        except RefusedRowError as refused:
            self._refuse(refused)
            return
        except BaseException as error:  # noqa: BLE001 - raised where the batch is asked for
            self._fail(self._failed(row, error), error)
            del self  # the traceback refers to this frame, and the job to the error
            return
        with self._lock:
            self._left -= stop - start
            last = not self._left
        if last:
            self._collate()
            self._end(None)

    def _put(self, row: int, value: Any) -> None:
        outputs = self._step.outputs
        parts = (value,) if len(outputs) == 1 else self._parts(row, value)
        for name, values, part in zip(outputs, self._values, parts, strict=True):
            try:
                values.put(row, part)
            except RefusedRowError as refused:
                raise refused.of(name) from refused.__cause__

    def _parts(self, row: int, value: Any) -> tuple[Any, ...]:
        count = len(self._step.outputs)
        if isinstance(value, tuple) and len(value) == count:
            return value
        got = str(len(value)) if isinstance(value, tuple) else type(value).__name__
        names = ", ".join(self._step.outputs)
        raise RefusedRowError(
            row, f"Expected a tuple of {count} values, ({names}), got {got} as the result"
        )

    def _collate(self) -> None:
        try:
            for name, values in zip(self._step.outputs, self._values, strict=True):
                self._outputs[name] = values.column()
        except RefusedRowError as refused:
            self._refuse(refused.of(name))
        except Exception as error:  # noqa: BLE001 - raised where the batch is asked for
            what = f"Expected values that make an output `{name}` of {self._step.label}"
            self._fail(RuntimeError(f"{what}, got {type(error).__name__}: {error}"), error)
        self._columns, self._values = (), []

    def _failed(self, row: int, error: BaseException) -> Exception:
        return RuntimeError(
            f"Expected {self._step.label} to take the row, got {type(error).__name__}: {error} - "
            f"at {self._location(row)}"
        )

    def _refuse(self, refused: RefusedRowError) -> None:
        error = ValueError(f"{refused} of {self._step.label} - at {self._location(refused.row)}")
        self._fail(error, refused.__cause__)

    def _fail(self, error: Exception, cause: BaseException | None) -> None:
        """End the job with an error, unless the job has a result or an earlier error."""
        error.__cause__ = cause
        self._end(error)


def check_threads(step: str, threads: object) -> None:
    """Raise TypeError or ValueError unless `threads` is None or a number of threads.

    Args:
        step: the name of the function that takes `threads`, for messages.
        threads: the argument.
    """
    if threads is None:
        return
    if type(threads) is not int:
        raise TypeError(f"Expected threads of {step} as int, got {threads!r}")
    if threads < 0:
        raise ValueError(f"Expected threads of {step} to be at least 0, got {threads}")


def name_of(fn: object) -> str:
    """Return the name of a function for messages; the file and line of a lambda."""
    inner = getattr(fn, "func", fn)  # the function of a functools.partial
    name = str(getattr(inner, "__qualname__", type(inner).__qualname__))
    code = getattr(inner, "__code__", None)
    if name.endswith("<lambda>") and code is not None:
        return f"lambda at {code.co_filename}:{code.co_firstlineno}"
    return name


def _names(what: str, names: Any) -> tuple[str, ...]:
    named = (names,) if isinstance(names, str) else names
    if not isinstance(named, Sequence) or not all(isinstance(name, str) for name in named):
        raise TypeError(f"Expected {what} of per_row as a name or names, got {names!r}")
    if not named:
        raise ValueError(f"Expected {what} of per_row to name at least one output, got none")
    if what == "outputs" and len(set(named)) < len(named):
        raise ValueError(f"Expected each output of per_row once, got {names!r}")
    return tuple(named)


@dataclass(frozen=True, slots=True)
class PerBlock:
    """A step for `preprocess`, made by `per_block`.

    Attributes:
        fn: the function to call for each block.
        threads: the number of threads of each process, or None, as `per_block` takes it.
    """

    fn: Callable[[Block], Mapping[str, Any]]
    threads: int | None

    def __repr__(self) -> str:
        return f"per_block({name_of(self.fn)})"


def per_block(fn: Callable[[Block], Mapping[str, Any]], threads: int | None = None) -> PerBlock:
    """Return a step for `preprocess` that calls `fn` for the blocks of several batches at a time.

    Example:
        def total(block):
            return {"sum": block["f1"] + block["f2"]}

        FastParquetDataset("train", columns=["f1", "f2"], preprocess=per_block(total))

    Use it for functions that release the GIL most of the time, such as functions that numba
    compiled with `nogil=True`. While the consumer uses a batch, the threads work on the next
    batches: on one batch for each thread, and on no more batches than the dataset's `prefetch`.
    `per_block` changes neither the order nor the content of batches.

    Args:
        fn: a function `fn(block)` as `preprocess` takes. It may be called from several threads at
            a time, and for blocks in any order.
        threads: the number of threads of each process; None = the process's share of the cores, as
            in `FastParquetDataset`; 0 = the thread that asks for a batch calls `fn`.

    Raises:
        TypeError, ValueError: an argument is wrong. Errors of `fn` are raised where the batch is
            asked for.
    """
    if not callable(fn):
        raise TypeError(f"Expected fn of per_block to be callable, got {fn!r}")
    check_threads("per_block", threads)
    return PerBlock(fn, threads)
