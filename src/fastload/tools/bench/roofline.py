"""Roof of each stage, measured on the same files and in the same process as fastload."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastload.runtime.cores import available_cores
from fastload.tools.bench.peers.fastload_dataset import dataset_of
from fastload.tools.bench.roof import Roof

if TYPE_CHECKING:
    from fastload.dataset.dataset import FastParquetDataset
    from fastload.tools.bench.peers import Work

_REPEATS = 5
# Seconds of the epochs after the first.
_PASSES_S = 0.6


@dataclass(frozen=True, slots=True)
class StageRoofs:
    """Seconds for all rows, as medians.

    Attributes:
        threads: number of threads of the roof and of fastload.
        read_s: seconds of the roof to read the columns' chunks.
        decompress_s: seconds of the roof to run the chunks through libparquet's page reader.
        kept_read_s: seconds of the roof to read the kept pages in memory.
        memcpy_s: seconds of the roof to copy as many bytes as the batches have.
        roof_s: the sum of these four: the roof of an epoch in host memory.
        epoch_s: seconds of an epoch of fastload.
        fastload_read_s: seconds of fastload's read stage in an epoch, summed over its threads.
        fastload_decode_s: seconds of fastload's decode stage, summed over its threads.
        bottleneck: name of the slowest stage.
        kept_bytes: bytes of decompressed pages that stay in memory, of fastload and of the roof
            alike. The roof neither reads nor decompresses these pages.
    """

    threads: int
    read_s: float
    decompress_s: float
    kept_read_s: float
    memcpy_s: float
    roof_s: float
    epoch_s: float
    fastload_read_s: float
    fastload_decode_s: float
    bottleneck: str
    kept_bytes: int


def measure(work: Work) -> StageRoofs:
    """Measure fastload's own times, then the roofs, over as many kept pages as fastload has."""
    cores = available_cores()
    threads = min(work.threads or cores, cores)
    with dataset_of(work) as dataset:
        _drain(dataset)
        before = dataset.stats()
        epochs: list[float] = []
        begun = time.perf_counter()
        while len(epochs) < 2 or time.perf_counter() - begun < _PASSES_S:
            epochs.append(_drain(dataset))
        after = dataset.stats()
    kept = after.memory
    roof = Roof.of(list(work.files), list(work.columns))
    kept_limit = kept.kept_limit if kept.kept else 0
    times = [roof.once(threads, kept_limit) for _ in range(_REPEATS)]
    stages = (
        statistics.median(t.read_s for t in times),
        statistics.median(max(0.0, t.pages_s - t.read_s - t.kept_s) * bool(t.pages) for t in times),
        statistics.median(t.kept_s for t in times),
        statistics.median(t.memcpy_s for t in times),
    )
    read_s = after.read.working_s - before.read.working_s
    read_s += after.read_ahead.working_s - before.read_ahead.working_s
    return StageRoofs(
        threads,
        *stages,
        roof_s=sum(stages),
        epoch_s=statistics.median(epochs),
        fastload_read_s=read_s / len(epochs),
        fastload_decode_s=(after.decode.working_s - before.decode.working_s) / len(epochs),
        bottleneck=after.bottleneck,
        kept_bytes=kept.kept,
    )


def _drain(dataset: FastParquetDataset) -> float:
    started = time.perf_counter()
    for _ in dataset:
        pass
    return time.perf_counter() - started
