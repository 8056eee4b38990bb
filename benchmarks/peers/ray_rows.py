# /// script
# dependencies = ["ray[data]", "pandas", "pyarrow", "torch"]
# ///
"""Ray Data on this machine only, with servers of its own: read_parquet and iter_torch_batches.

Shuffled, the files are permuted and rows are drawn from a buffer, as its documentation says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ray
from timing import Work, measure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def make(work: Work) -> Callable[[int], Iterator[dict[str, Any]]]:
    """Return what yields the batches of an epoch."""
    ray.init(include_dashboard=False, log_to_driver=False, logging_level="error")
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = not work.shuffle
    files = "files" if work.shuffle and len(work.files) > 1 else None
    rows: Any = ray.data.read_parquet(work.files, columns=work.columns, shuffle=files)

    def epoch(number: int) -> Iterator[dict[str, Any]]:
        if not work.shuffle:
            yield from rows.iter_torch_batches(batch_size=work.batch_size)
            return
        yield from rows.iter_torch_batches(
            batch_size=work.batch_size,
            local_shuffle_buffer_size=work.window_rows,
            local_shuffle_seed=number,
        )

    return epoch


if __name__ == "__main__":
    measure(make)
