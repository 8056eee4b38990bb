"""How near passes of a dataset come to the roof: what several benchmarks measure."""

from __future__ import annotations

import resource
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastload import FastParquetDataset, roof

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Fraction:
    """Medians over passes: seconds of a pass, of the roof, their ratio, CPU seconds of a pass."""

    pass_s: float
    roof_s: float
    fraction: float
    cpu_s: float


def measure(
    source: str | Sequence[str],
    *,
    threads: int,
    repeats: int,
    columns: Any = None,
    **arguments: Any,
) -> Fraction:
    """Lets passes and measurements of the roof take turns.

    Args:
        source: file or files.
        threads: of the core, and of the roof.
        repeats: passes counted; one more comes first, which takes its memory from the system.
        columns: as FastParquetDataset takes them.
        **arguments: of the dataset.
    """
    passes, roofs, cpu = [], [], []
    with FastParquetDataset(source, columns=columns, threads=threads, **arguments) as dataset:
        for repeat in range(repeats + 1):
            before, start = cpu_s(), time.perf_counter()
            for _ in dataset:
                pass
            elapsed = time.perf_counter() - start
            if repeat:
                passes.append(elapsed)
                cpu.append(cpu_s() - before)
                roofs.append(roof.measure(source, columns, threads))
    return Fraction(
        statistics.median(passes),
        statistics.median(roofs),
        statistics.median(r / p for r, p in zip(roofs, passes, strict=True)),
        statistics.median(cpu),
    )


def cpu_s() -> float:
    """CPU seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
