"""How near passes of a dataset come to the roof: what several benchmarks measure."""

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
    from collections.abc import Sequence


# What is read ahead for the next pass is read by then.
_REST_S = 0.3

# As many passes are timed at once as take so long.
_LEAST_S = 0.25
_UNCOUNTED = 2

# A median of few, as each pass has a roof of its own.
_ROOF_REPEATS = 3


@dataclass(frozen=True, slots=True)
class Fraction:
    """Medians over passes: seconds of a pass, of the roof, their ratio, CPU seconds of a pass.

    rows: of a pass.
    output_bytes: of the batches of a pass.
    """

    pass_s: float
    roof_s: float
    fraction: float
    cpu_s: float
    rows: int
    output_bytes: int


def measure(
    source: str | Sequence[str],
    *,
    threads: int,
    repeats: int,
    columns: Any = None,
    **arguments: Any,
) -> Fraction:
    """Lets passes and measurements of the roof take turns.

    The copy of the roof is one of as many bytes as the batches were found to have.

    Args:
        source: file or files.
        threads: of the core, and of the roof.
        repeats: medians are of so many.
        columns: as FastParquetDataset takes them.
        **arguments: of the dataset.
    """
    roof = Roof.of(source, columns)
    passes, roofs, cpu = [], [], []
    with FastParquetDataset(source, columns=columns, threads=threads, **arguments) as dataset:
        rows, output_bytes = _sizes(dataset)
        if rows != roof.source.num_rows:
            raise SystemExit(f"Expected {roof.source.num_rows} rows, got {rows} - at {source}")
        roof = replace(roof, output_bytes=output_bytes)
        steady = SteadyPasses(dataset)
        for _ in range(repeats):
            pass_s, pass_cpu_s = steady.measure()
            passes.append(pass_s)
            cpu.append(pass_cpu_s)
            roofs.append(roof.measure(threads, _ROOF_REPEATS))
    return Fraction(
        statistics.median(passes),
        statistics.median(roofs),
        statistics.median(r / p for r, p in zip(roofs, passes, strict=True)),
        statistics.median(cpu),
        rows,
        output_bytes,
    )


class SteadyPasses:
    """Passes of a dataset that follow each other, as in training.

    A pass begins with what was read ahead while the one before it ended, perhaps all of it, and
    ends with reading ahead for the next: so some that are not counted come before those that
    are, and several are timed at once.
    """

    def __init__(self, dataset: FastParquetDataset) -> None:
        self._dataset = dataset
        self._drain(_UNCOUNTED)
        seconds = self._drain(_UNCOUNTED) / _UNCOUNTED
        self._passes = max(_UNCOUNTED, math.ceil(_LEAST_S / seconds))

    def measure(self) -> tuple[float, float]:
        """Seconds and CPU seconds of a pass; then the machine comes to rest."""
        self._drain(_UNCOUNTED)
        before = cpu_s()
        seconds = self._drain(self._passes)
        used_s = cpu_s() - before
        time.sleep(_REST_S)
        return seconds / self._passes, used_s / self._passes

    def _drain(self, passes: int) -> float:
        """Seconds of so many passes; each batch is let go at once."""
        start = time.perf_counter()
        for _ in range(passes):
            for _ in self._dataset:
                pass
        return time.perf_counter() - start


def cpu_s() -> float:
    """CPU seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _sizes(dataset: FastParquetDataset) -> tuple[int, int]:
    """Rows and bytes of the batches of a pass."""
    rows = output_bytes = 0
    for batch in dataset:
        rows += batch.rows
        output_bytes += batch.nbytes
    return rows, output_bytes
