"""Ray Data on this machine only: read_parquet and iter_torch_batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ray

from fastload.runtime.platform import usable_cores

if TYPE_CHECKING:
    from collections.abc import Iterable

    import torch

    from fastload.tools.bench.peers import Work


class Contender:
    """Batches of `iter_torch_batches`.

    Shuffled, the files are permuted and rows are drawn from a buffer, as the documentation of
    Ray Data says.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        ray.init(
            num_cpus=work.threads or usable_cores(),
            include_dashboard=False,
            ignore_reinit_error=True,
            log_to_driver=False,
            logging_level="error",
        )
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.execution_options.preserve_order = not work.shuffle
        self._rows: Any = ray.data.read_parquet(
            list(work.files),
            columns=list(work.columns),
            shuffle="files" if work.shuffle and len(work.files) > 1 else None,
        )

    def epoch(self, number: int) -> Iterable[dict[str, torch.Tensor]]:
        """Yield the batches of one epoch, as `Contender.epoch` describes."""
        work = self._work
        if not work.shuffle:
            batches = self._rows.iter_torch_batches(batch_size=work.batch_size)
        else:
            batches = self._rows.iter_torch_batches(
                batch_size=work.batch_size,
                local_shuffle_buffer_size=work.window_rows,
                local_shuffle_seed=work.seed + number,
            )
        for batch in batches:
            yield {name: batch[name] for name in work.columns}
