"""Timing of a dataset's second pass, for several ways of doing a step, in turns."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

from fastload import FastParquetDataset

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


def pass_s(dataset: FastParquetDataset, away_s: float = 0) -> float:
    """Return the seconds of a pass whose consumer sleeps for `away_s` after each batch."""
    start = time.perf_counter()
    for _batch in dataset:
        time.sleep(away_s)
    return time.perf_counter() - start


def medians(
    path: Path, ways: Mapping[str, Mapping[str, Any]], away_s: float, repeats: int
) -> dict[str, float]:
    """Return the median seconds of a second pass for each way.

    Args:
        path: the file to read.
        ways: name of the way -> arguments of the dataset.
        away_s: seconds that the consumer sleeps after each batch.
        repeats: number of datasets of each way.
    """
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, options in ways.items():
            with FastParquetDataset(path, **options) as dataset:
                pass_s(dataset)
                seconds[name].append(pass_s(dataset, away_s))
    return {name: statistics.median(values) for name, values in seconds.items()}


def show(title: str, values: Mapping[str, float], form: Callable[[float], str]) -> None:
    """Print one table."""
    print(title)
    width = max(map(len, values))
    for name, value in values.items():
        print(f"  {name:{width}}  {form(value)}")
