"""per_row: a step of `preprocess` that calls a function for each row, on threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastload.steps.row_values import Layout

__all__ = ["PerRow", "check_threads", "name_of", "per_row"]


@dataclass(frozen=True, slots=True)
class PerRow:
    """What `per_row` makes: a step, for `preprocess`."""

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
    """A step of `preprocess` that calls `fn` for each row, on threads of its own.

        FastParquetDataset(path, preprocess=per_row(decode_jpeg, inputs="jpeg", outputs="image"))

    For functions that release the GIL, such as decoders of images; others are quicker as one
    call for a block. The rows of the next batches are in work while a batch is used, at most two
    batches and no more than the dataset's `prefetch`.

    Args:
        fn: `fn(*inputs)` of one row, which may be called from several threads at a time. An
            input is a bool, int or float of an output (B,), a tensor (...) of an output
            (B, ...), or what a Ragged indexes as: str, bytes, a tensor or a Ragged. It returns a
            value, or a tuple of as many as there are outputs: a bool, int, float, str, bytes,
            tensor, array (or what numpy.asarray takes, such as an image of PIL) or list of
            numbers, in all rows of one type and dtype.
        inputs: name or names of outputs that it takes, as the steps before have left them.
        outputs: name or names of outputs to add or replace. Numbers, and values of one shape,
            become a tensor (B, ...); str and bytes a Ragged, and so do values whose lengths
            differ in their first dimension. A batch may have values of one length by chance:
            a mapping from name to "ragged" or "dense" says what always comes (None = as above).
        threads: of each process; None = its share of the cores, as of `FastParquetDataset`; 0 =
            the thread that asks for a batch calls `fn`.

    Raises:
        TypeError, ValueError: a wrong argument. While iterating, a RuntimeError names the row
            for which `fn` failed, with that error as its cause, and a ValueError the row whose
            value does not go with the others.
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
    """Refuses what can be no number of threads, of a step of that kind."""
    if threads is None:
        return
    if type(threads) is not int:
        raise TypeError(f"Expected threads of {step} as int, got {threads!r}")
    if threads < 0:
        raise ValueError(f"Expected threads of {step} to be at least 0, got {threads}")


def name_of(fn: object) -> str:
    """What a function is called in messages; of a lambda, where it stands."""
    inner = getattr(fn, "func", fn)  # of functools.partial
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
