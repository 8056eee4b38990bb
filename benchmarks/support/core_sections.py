"""Sections of `bench_core.py`: each section yields its figures as soon as they are measured."""

from __future__ import annotations

import functools
import os
import statistics
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bench_filters
import core_workloads
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq
from support.core_results import Figure
from support.core_rows import BY_NAME, ROWS
from support.fractions_of_roof import SteadyPasses, keep_no_pages

from fastload import FastParquetDataset
from fastload.tools.bench.roof import Roof
from support import fractions_of_roof

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from support.core_rows import Row
    from support.fractions_of_roof import Fraction

_SHUFFLE_WINDOW = 1 << 19
_EPOCHS_OF_WAITS = 7  # for each repeat


@dataclass(frozen=True)
class Setting:
    """The options of all measurements.

    Attributes:
        directory: directory of the files.
        threads: number of threads of the core and of the roof.
        repeats: number of runs of which a median is taken.
        batch_size: rows of a batch.
        only: names of the rows to measure; () = all rows.
    """

    directory: Path
    threads: int
    repeats: int
    batch_size: int
    only: tuple[str, ...]

    def rows(self, *names: str) -> list[Row]:
        """Return the rows with these names that `only` selects."""
        return [BY_NAME[name] for name in names if not self.only or name in self.only]

    def open(self, row: Row, *, shuffle: bool = False, **arguments: Any) -> FastParquetDataset:
        """Open a dataset of the row."""
        return FastParquetDataset(
            row.source(self.directory),
            columns=row.columns,
            **{"threads": self.threads, **self.batches(shuffle=shuffle), **arguments},
        )

    def batches(self, *, shuffle: bool) -> dict[str, Any]:
        """Return the arguments of a dataset that determine its batches."""
        window = _SHUFFLE_WINDOW if shuffle else None
        return {"batch_size": self.batch_size, "shuffle": shuffle, "shuffle_window": window}


def roof(setting: Setting) -> Iterator[Figure]:
    """Measure passes as a share of the roof of their own run.

    Where a dataset keeps decompressed pages in memory, "kept" is another figure: the share of the
    roof over pages that lie decompressed in memory. The others are of datasets that keep no pages.
    """
    for row in setting.rows(*(row.name for row in ROWS)):
        for shuffle in (False, True):
            for keep in (False, True):
                got = fractions_of_roof.measure(
                    row.source(setting.directory),
                    threads=setting.threads,
                    repeats=setting.repeats,
                    columns=row.columns,
                    keep=keep,
                    **{**setting.batches(shuffle=shuffle), **row.options},
                )
                yield _of_roof(row, got, shuffle=shuffle)
                if not keep and not row.is_kept:
                    break


def _of_roof(row: Row, got: Fraction, *, shuffle: bool) -> Figure:
    details = {
        "pass_s": got.pass_s,
        "roof_s": got.roof_s,
        "cpu_s_per_million_rows": got.cpu_s / got.rows * 1e6,
        "output_mb": got.output_bytes / 1e6,
    }
    if got.kept_bytes:
        details["kept_mb"] = got.kept_bytes / 1e6
    mode = _mode(shuffle) + (", kept" if got.kept_bytes else "")
    return Figure("roof", row.name, mode, got.fraction, row.goal(shuffle=shuffle), details=details)


def first_batch(setting: Setting) -> Iterator[Figure]:
    """Measure the seconds from the first iter() to the first batch beyond the floor, in roofs.

    The roof of the first batch is the time to read and decompress the pages that hold its rows,
    with their dictionaries, and to copy the batch once. The floor is what Python and torch take for
    a pass and the tensors of a batch: the seconds from iter() to the batch of a dataset that has
    the same columns, one row, and its threads from an earlier pass.
    """
    for row in setting.rows("click-log-snappy", "one-group", "lineitem", "wide"):
        whole = Roof.of(row.source(setting.directory), row.columns)
        roof_of_batch = whole.of_first_rows(setting.batch_size)
        seconds, roofs, floors = [], [], []
        with tempfile.TemporaryDirectory() as home:
            one_row = Path(home) / "one-row.parquet"
            with pq.ParquetFile(row.source(setting.directory)[0]) as file:
                first = next(file.iter_batches(batch_size=1))
            pq.write_table(pa.Table.from_batches([first]), one_row)
            with FastParquetDataset(
                one_row,
                columns=row.columns,
                threads=setting.threads,
                **setting.batches(shuffle=False),
            ) as tiny:
                _seconds_to_first(tiny)
                for _ in range(setting.repeats):
                    with setting.open(row) as dataset:
                        seconds.append(_seconds_to_first(dataset))
                    roofs.append(roof_of_batch.measure(setting.threads))
                    floors.append(_seconds_to_first(tiny))
        beyond = (s - f for s, f in zip(seconds, floors, strict=True))
        ratio = statistics.median(s / r for s, r in zip(beyond, roofs, strict=True))
        details = {
            "first_batch_s": statistics.median(seconds),
            "roof_s": statistics.median(roofs),
            "floor_s": statistics.median(floors),
        }
        yield Figure("first batch", row.name, "in order", ratio, 2.0, most=True, details=details)


def _seconds_to_first(dataset: FastParquetDataset) -> float:
    """Return the seconds from iter() to the first batch of a new pass."""
    start = time.perf_counter()
    next(iter(dataset))
    return time.perf_counter() - start


def waits(setting: Setting) -> Iterator[Figure]:
    """Measure the longest wait of a consumer that takes half of the possible rate, in its steps.

    The consumer sleeps for twice the seconds that a batch takes otherwise. All waits count except
    the wait for the very first batch; the end of an epoch and the start of the next epoch are one
    wait. The figure is the median over epochs, since a scheduler that gives a core to another
    program for a time slice of 3 ms makes single waits as long as that.
    """
    for row in setting.rows("click-log-snappy", "one-group", "lineitem"):
        for shuffle in (False, True):
            with setting.open(row, shuffle=shuffle) as dataset:
                step_s = 2 * SteadyPasses(dataset).measure()[0] / len(dataset)
                longest = _longest_waits(dataset, step_s, _EPOCHS_OF_WAITS * setting.repeats)
            wait_s = statistics.median(longest)
            details = {"wait_s": wait_s, "step_s": step_s, "worst_wait_s": max(longest)}
            yield Figure("waits", row.name, _mode(shuffle), wait_s / step_s, 1.0, True, details)


def _longest_waits(dataset: FastParquetDataset, step_s: float, epochs: int) -> list[float]:
    """Return the seconds of the longest wait of each epoch; its end belongs to the epoch."""
    longest = [0.0] * epochs
    batches = iter(dataset)
    next(batches)
    for epoch in range(epochs):
        ended = False
        while not ended:
            time.sleep(step_s)
            start = time.perf_counter()
            batch = next(batches, None)
            if batch is None:
                ended = True
                batches = iter(dataset)
                batch = next(batches)
            longest[epoch] = max(longest[epoch], time.perf_counter() - start)
    return longest


def memory(setting: Setting) -> Iterator[Figure]:
    """Measure the speed in order with a small memory budget, as a share of a large budget's.

    Only a large budget has room for all decompressed pages, so neither dataset keeps any.
    """
    for row in setting.rows("click-log-snappy", "lineitem", "tokens", "wide"):
        opens = {
            budget: functools.partial(_open_without_kept, setting, row, budget)
            for budget in ("4GB", "256MB")
        }
        seconds = _alternate(setting.repeats, opens)
        yield Figure("memory", row.name, "256MB against 4GB", *_ratio(seconds, "4GB", "256MB", 0.9))


def _open_without_kept(setting: Setting, row: Row, memory_budget: str) -> FastParquetDataset:
    dataset = setting.open(row, memory_budget=memory_budget)
    keep_no_pages(dataset)
    return dataset


def threads(setting: Setting) -> Iterator[Figure]:
    """Measure how many times as fast several threads are as one thread.

    The same ratio of the roof shows what the machine gains from several threads.
    """
    doubled = (1 << power for power in range(setting.threads.bit_length()))
    counts = sorted({*doubled, setting.threads})
    for row in setting.rows("click-log-snappy", "lineitem"):
        roof = Roof.of(row.source(setting.directory), row.columns)
        of_roof: dict[str, list[float]] = {str(count): [] for count in counts}
        for _ in range(setting.repeats):
            for count in counts:
                of_roof[str(count)].append(roof.measure(count))
        for count in counts[1:]:
            ratio = _ratio(of_roof, "1", str(count), None)
            yield Figure("threads", row.name, f"1 -> {count}, roof", *ratio)
        for shuffle in (False, True):
            seconds = _alternate(
                setting.repeats,
                {
                    str(count): functools.partial(setting.open, row, shuffle=shuffle, threads=count)
                    for count in counts
                },
            )
            for count in counts[1:]:
                goal = 1.8 if count == 2 else 0.75 * count
                mode = f"1 -> {count}, {_mode(shuffle)}"
                yield Figure("threads", row.name, mode, *_ratio(seconds, "1", str(count), goal))


def filters(setting: Setting) -> Iterator[Figure]:
    """Measure the speed of a filter that 1 % of the rows meet, against the faster of two peers.

    "first" finds the rows and reads them, as the peers do on each pass. "later" is the mean of
    successive passes that know the rows.
    """
    if setting.only and "conditions" not in setting.only:
        return
    path = core_workloads.path(setting.directory, "conditions")
    with tempfile.TemporaryDirectory() as home:
        os.environ["FASTLOAD_CACHE_DIR"] = home
        for key in ("scattered", "clustered"):
            yield from _filter_figures(setting, path, key, bench_filters.KEYS // 100)


def _filter_figures(setting: Setting, path: Path, key: str, limit: int) -> Iterator[Figure]:
    first, later = bench_filters.fastload_passes(path, key, limit, setting.threads)
    passes: dict[str, Callable[[], Iterator[Any]]] = {
        "first": first,
        "later": later.__iter__,
        "pyarrow": lambda: bench_filters.pyarrow_pass(path, key, limit),
        "polars": lambda: bench_filters.polars_pass(path, key, limit),
    }
    expected = pads.dataset(path).to_table(bench_filters.COLUMNS, filter=pc.field(key) < limit)
    for make in passes.values():
        bench_filters.check_answer(make(), expected)
    seconds: dict[str, list[float]] = {name: [] for name in passes}
    steady = SteadyPasses(later)
    for _ in range(setting.repeats):
        for name, make in passes.items():
            once = steady.measure() if name == "later" else bench_filters.measure(make, 1)
            seconds[name].append(once[0])
    fastest = min("pyarrow", "polars", key=lambda name: statistics.median(seconds[name]))
    for name in ("first", "later"):
        yield Figure("filters", key, f"{name} pass", *_ratio(seconds, fastest, name, 3.0))


def _alternate(
    repeats: int, opens: Mapping[str, Callable[[], FastParquetDataset]]
) -> dict[str, list[float]]:
    """Return the seconds of the passes of several datasets, which take turns."""
    seconds: dict[str, list[float]] = {name: [] for name in opens}
    with ExitStack() as stack:
        passes = {name: SteadyPasses(stack.enter_context(make())) for name, make in opens.items()}
        for _ in range(repeats):
            for name, steady in passes.items():
                seconds[name].append(steady.measure()[0])
    return seconds


def _ratio(
    seconds: dict[str, list[float]], slow: str, fast: str, goal: float | None
) -> tuple[float, float | None, bool, dict[str, float]]:
    """Return the ratio of the seconds of two datasets whose passes took turns, for a Figure."""
    ratio = statistics.median(s / f for s, f in zip(seconds[slow], seconds[fast], strict=True))
    details = {f"{name}_s": statistics.median(seconds[name]) for name in (slow, fast)}
    return ratio, goal, False, details


def _mode(shuffle: bool) -> str:
    return "shuffled" if shuffle else "in order"


SECTIONS = {
    "roof": roof,
    "first-batch": first_batch,
    "waits": waits,
    "memory": memory,
    "threads": threads,
    "filters": filters,
}
