"""Times of passes, and passes as fractions of the roof, which several benchmarks measure."""

from __future__ import annotations

import math
import resource
import statistics
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fastload import FastParquetDataset
from fastload.tools.bench.roof import Roof

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


# Seconds after which reading ahead for the next pass has ended.
_REST_S = 0.3

# Seconds of passes that are timed at once.
_LEAST_S = 0.25
_UNCOUNTED = 2

# Number of runs of the roof; a few are enough, because each pass has its own roof.
_ROOF_REPEATS = 3


@dataclass(frozen=True, slots=True)
class Fraction:
    """Medians over passes.

    Attributes:
        pass_s: seconds of a pass.
        roof_s: seconds of the roof.
        fraction: roof_s / pass_s, a median of ratios.
        cpu_s: CPU seconds of a pass.
        rows: number of rows of a pass.
        output_bytes: bytes of the batches of a pass.
        kept_bytes: bytes of decompressed pages that stayed in memory from one pass to the next.
    """

    pass_s: float
    roof_s: float
    fraction: float
    cpu_s: float
    rows: int
    output_bytes: int
    kept_bytes: int


def measure(
    source: str | Sequence[str],
    *,
    threads: int,
    repeats: int,
    columns: Any = None,
    keep: bool = True,
    **arguments: Any,
) -> Fraction:
    """Measure passes and the roof in turns.

    The roof copies as many bytes as the batches of a pass have. If the dataset keeps decompressed
    pages in memory, the roof is measured likewise: over pages that lie decompressed in memory.

    Args:
        source: file or files.
        threads: number of threads of the core and of the roof.
        repeats: number of runs of which a median is taken.
        columns: the columns argument of the dataset.
        keep: False to have the dataset keep no pages in memory.
        **arguments: other arguments of the dataset.
    """
    roof = Roof.of(source, columns)
    passes, roofs, cpu = [], [], []
    with FastParquetDataset(source, columns=columns, threads=threads, **arguments) as dataset:
        if not keep:
            keep_no_pages(dataset)
        rows, output_bytes = _sizes(dataset)
        if rows != roof.source.num_rows and "pack" not in arguments:
            raise SystemExit(f"Expected {roof.source.num_rows} rows, got {rows} - at {source}")
        roof = replace(roof, output_bytes=output_bytes)
        steady = SteadyPasses(dataset)
        memory = dataset.stats().memory
        kept_limit_bytes = memory.kept_limit if memory.kept else 0
        for _ in range(repeats):
            pass_s, pass_cpu_s = steady.measure()
            passes.append(pass_s)
            cpu.append(pass_cpu_s)
            roofs.append(roof.measure(threads, _ROOF_REPEATS, kept_limit_bytes=kept_limit_bytes))
        kept_bytes = dataset.stats().memory.kept
    return Fraction(
        statistics.median(passes),
        statistics.median(roofs),
        statistics.median(r / p for r, p in zip(roofs, passes, strict=True)),
        statistics.median(cpu),
        rows,
        output_bytes,
        kept_bytes,
    )


def keep_no_pages(dataset: FastParquetDataset) -> None:
    """Have a dataset that has made no pass keep no decompressed pages in memory."""
    dataset._engines.of_process(1).pipeline.limit_kept(0)  # noqa: SLF001


class SteadyPasses:
    """Successive passes of a dataset, as in training.

    A pass begins with bytes that were read ahead during the pass before, perhaps all bytes, and
    ends with reading ahead for the next pass. So uncounted passes come first, and several passes
    are timed at once.
    """

    def __init__(self, dataset: FastParquetDataset) -> None:
        self._dataset = dataset
        seconds_of_pass(dataset, _UNCOUNTED)
        seconds = seconds_of_pass(dataset, _UNCOUNTED)
        self._passes = max(_UNCOUNTED, math.ceil(_LEAST_S / seconds))

    def measure(self) -> tuple[float, float]:
        """Return the seconds and the CPU seconds of a pass; then wait until reading ahead ends."""
        seconds_of_pass(self._dataset, _UNCOUNTED)
        before = cpu_s()
        seconds = seconds_of_pass(self._dataset, self._passes)
        used_s = cpu_s() - before
        time.sleep(_REST_S)
        return seconds, used_s / self._passes


def seconds_of_pass(batches: Iterable[object], passes: int = 1) -> float:
    """Return the mean seconds of several passes in a row that drop each batch at once."""
    start = time.perf_counter()
    for _ in range(passes):
        for _batch in batches:
            pass
    return (time.perf_counter() - start) / passes


def cpu_s() -> float:
    """Return the CPU seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _sizes(dataset: FastParquetDataset) -> tuple[int, int]:
    """Return the rows and bytes of the batches of a pass."""
    rows = output_bytes = 0
    for batch in dataset:
        rows += batch.rows
        output_bytes += batch.nbytes
    return rows, output_bytes
