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


# What is read ahead for the next pass is read by then.
_REST_S = 0.3


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

    A pass begins with what was read ahead while the one before it ended, and ends with reading
    ahead for the next: so one pass that is not counted comes before each that is, and the
    machine comes to rest before the roof is measured.

    Args:
        source: file or files.
        threads: of the core, and of the roof.
        repeats: passes counted; two more come first, which take their memory from the system.
        columns: as FastParquetDataset takes them.
        **arguments: of the dataset.
    """
    passes, roofs, cpu = [], [], []
    with FastParquetDataset(source, columns=columns, threads=threads, **arguments) as dataset:
        for _ in range(2):
            _drain(dataset)
        for _ in range(repeats):
            _drain(dataset)
            before, start = cpu_s(), time.perf_counter()
            _drain(dataset)
            passes.append(time.perf_counter() - start)
            cpu.append(cpu_s() - before)
            time.sleep(_REST_S)
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


def _drain(dataset: FastParquetDataset) -> None:
    for _ in dataset:
        pass
