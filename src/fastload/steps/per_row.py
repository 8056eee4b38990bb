"""Step of `preprocess` that calls a function for each row, on threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastload.steps.row_values import Layout

__all__ = ["PerRow", "check_threads", "name_of", "per_row"]


@dataclass(frozen=True, slots=True)
class PerRow:
    """A step for `preprocess`, made by `per_row`.

    Attributes:
        fn: the function to call for each row.
        inputs: the names of the outputs that the function takes.
        outputs: the names of the outputs that the function's results become.
        layouts: the layout of each output.
        threads: the number of threads of each process, or None, as `per_row` takes it.
    """

    fn: Callable[..., Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    layouts: tuple[Layout, ...]
    threads: int | None

    def __repr__(self) -> str:
        return f"per_row({name_of(self.fn)}, inputs={self.inputs}, outputs={self.outputs})"


def per_row(
    fn: Callable[..., Any],
    inputs: str | Sequence[str],
    outputs: str | Sequence[str] | Mapping[str, Layout],
    threads: int | None = None,
) -> PerRow:
    """Return a step for `preprocess` that calls `fn` for each row, on separate threads.

        FastParquetDataset(path, preprocess=per_row(decode_jpeg, inputs="jpeg", outputs="image"))

    Use it for functions that release the GIL, such as decoders of images; other functions are
    faster when they process a whole block in one call. While the consumer uses a batch, the
    threads work on the rows of the next batches: at most two batches, and no more than the
    dataset's `prefetch`.

    Args:
        fn: a function `fn(*inputs)` of one row, which may be called from several threads at a
            time. An input is a bool, int or float for an output (B,), a tensor (...) for an output
            (B, ...), or an element of a Ragged: str, bytes, a tensor or a Ragged. The function
            returns a value, or a tuple with a value for each output: a bool, int, float, str,
            bytes, tensor, array (or an object that numpy.asarray takes, such as an image of PIL)
            or list of numbers. The values of an output have the same type and dtype in all rows.
        inputs: name or names of the outputs that `fn` takes, after the earlier steps.
        outputs: name or names of the outputs to add or replace. Numbers, and values of one shape,
            become a tensor (B, ...). str, bytes, and values that differ in the length of their
            first dimension become a Ragged. Because all values of a batch may have one length by
            chance, a mapping from name to "ragged" or "dense" can fix the layout of an output
            (None = the shapes of the values decide, as described).
        threads: the number of threads of each process; None = the process's share of the cores, as
            in `FastParquetDataset`; 0 = the thread that asks for a batch calls `fn`.

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
    in_order = tuple(layouts.get(name) for name in named)
    return PerRow(fn, _names("inputs", inputs), named, in_order, threads)


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
