"""per_block: a step of `preprocess` that calls a function for several blocks at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastload.steps.code_digest import code_digest
from fastload.steps.per_row import check_threads, name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fastload.steps.block import Block

__all__ = ["PerBlock", "per_block"]


@dataclass(frozen=True, slots=True)
class PerBlock:
    """What `per_block` makes: a step, for `preprocess`."""

    fn: Callable[[Block], Mapping[str, Any]]
    threads: int | None

    def __repr__(self) -> str:
        return f"per_block({name_of(self.fn)})"

    def code_digest(self) -> str:
        """The digest of the function's code: the number of threads does not change its results."""
        return code_digest(self.fn)


def per_block(fn: Callable[[Block], Mapping[str, Any]], threads: int | None = None) -> PerBlock:
    """A step of `preprocess` that calls `fn` for the blocks of several batches at a time.

        @numba.njit(nogil=True)
        def distance(x, y): ...

        def features(block):
            return {"distance": distance(block["x"], block["y"])}

        FastParquetDataset(path, preprocess=per_block(features))

    For functions that release the GIL for most of their time, as those do that numba compiled with
    `nogil=True`. They work while a batch is used, on as many of
    the next ones as there are threads, and no more than the dataset's `prefetch`. Batches come in
    the same order and hold the same as without.

    Args:
        fn: a function as `preprocess` takes, `fn(block)`, which may be called from several
            threads at a time, and for blocks in any order.
        threads: of each process; None = its share of the cores, as of `FastParquetDataset`; 0 =
            the thread that asks for a batch calls `fn`.

    Raises:
        TypeError, ValueError: a wrong argument. What `fn` raises is raised where the batch would
            have come.
    """
    if not callable(fn):
        raise TypeError(f"Expected fn of per_block to be callable, got {fn!r}")
    check_threads("per_block", threads)
    return PerBlock(fn, threads)
