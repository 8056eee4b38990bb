"""Step of `preprocess` that calls a function for several blocks at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastload.steps.per_row import check_threads, name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fastload.steps.block import Block

__all__ = ["PerBlock", "per_block"]


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
