"""Tuning: a coarse search for threads, workers, prefetch and request size, with a time limit."""

from __future__ import annotations

import statistics
import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from fastload.runtime.platform import usable_cores
from fastload.tools.bench.child import Job, Timing
from fastload.tools.bench.launch import JobError, launch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fastload.tools.bench.launch import Launch
    from fastload.tools.bench.peers import Work

# Seconds of each trial, after its first two epochs.
_PATIENCE_S = 1.0
# Trials of the defaults, with which every other setting is compared.
_REFERENCES = 3
# Number of further trials that confirm a setting that seems to be faster.
_CONFIRMATIONS = 2


@dataclass(frozen=True, slots=True)
class Setting:
    """The options that are tuned, named as in `Work`; None = fastload's default."""

    threads: int | None = None
    workers: int = 0
    prefetch: int | None = None
    request_bytes: int | None = None


@dataclass(slots=True)
class Trial:
    """The epochs of all processes that ran with a setting.

    Attributes:
        setting: the options.
        epochs: seconds of the epochs after each process's first epoch.
        note: the reason why `epochs` is empty, or "".
    """

    setting: Setting
    epochs: list[float]
    note: str = ""

    @property
    def epoch_s(self) -> float:
        """The median of the epochs, in seconds."""
        return statistics.median(self.epochs)

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles of the epochs, as a share of the median."""
        if len(self.epochs) < 2:
            return 0.0
        low, middle, high = statistics.quantiles(self.epochs, method="inclusive")
        return (high - low) / 2 / middle


@dataclass(frozen=True, slots=True)
class Tuning:
    """Result of a search.

    Attributes:
        trials: the trials in the order in which they began; the first trial is of the defaults.
        best: the setting to use. It differs from the defaults only if it was faster by more than
            the noise of both.
        noise: difference of the defaults from process to process, as a share of their median.
        rows: number of rows of an epoch.
        shuffled: True if the rows were shuffled.
        seconds: duration of the search.
        left_out: number of settings that the time limit left untried.
    """

    trials: list[Trial]
    best: Setting
    noise: float
    rows: int
    shuffled: bool
    seconds: float
    left_out: int


def tune(
    work: Work,
    rows: int,
    limit_s: float,
    progress: Callable[[str], None],
    *,
    remote: bool = False,
    run: Launch = launch,
) -> Tuning:
    """Change one option after the other, and keep changes that gain more than the noise.

    Args:
        work: the rows to read, and how.
        rows: number of rows of an epoch.
        limit_s: seconds after which no trial is begun.
        progress: function called with the name of each trial.
        remote: True if the files lie in a store, so that the size of requests matters.
        run: function that does a Job and returns its result.

    Raises:
        JobError: the defaults can't be measured.
    """
    started = time.perf_counter()
    # The search begins with the options of the command line.
    reference = Trial(Setting(work.threads, work.workers), [])
    trials = [reference]
    medians = []
    for _ in range(_REFERENCES):
        progress(f"tuning: {_words(reference.setting)}")
        medians.append(statistics.median(_more(reference, work, run)))
    noise = (max(medians) - min(medians)) / statistics.median(medians)
    best = reference
    left_out = 0
    for change in _changes(remote=remote):
        setting = replace(best.setting, **change)
        if any(trial.setting == setting for trial in trials):
            continue
        if time.perf_counter() - started > limit_s:
            left_out += 1
            continue
        progress(f"tuning: {_words(setting)}")
        trial = Trial(setting, [])
        trials.append(trial)
        try:
            _more(trial, work, run)
            for _ in range(_CONFIRMATIONS):
                if not _better(trial, best, noise):
                    break
                _more(trial, work, run)
        except JobError as error:
            trial.note = str(error)
            continue
        if _better(trial, best, noise):
            best = trial
    seconds = time.perf_counter() - started
    return Tuning(trials, best.setting, noise, rows, work.shuffle, seconds, left_out)


def table(tuning: Tuning) -> str:
    """Return a table with a line for each trial."""
    head = ("threads", "workers", "prefetch", "request", "rows/s", "+-", "")
    rows = [head, *(_cells(trial, tuning) for trial in tuning.trials)]
    widths = [max(len(row[j]) for row in rows) for j in range(len(head))]
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    lines.insert(1, "-" * len(lines[0]))
    return "\n".join(lines)


def remarks(tuning: Tuning, source: str, columns: tuple[str, ...], work: Work) -> str:
    """Return the meaning of the table, and the program of `constructor` to paste."""
    best, default = tuning.best, tuning.trials[0]
    text = f"The same setting differed by {100 * tuning.noise:.0f} % from process to process"
    if best == default.setting:
        text += ": nothing tried was faster by more than that and the spread of both."
    else:
        found = next(trial for trial in tuning.trials if trial.setting == best)
        text += f"; the setting below was {default.epoch_s / found.epoch_s:.2f} times as fast."
    if tuning.left_out:
        text += f" The time limit left {tuning.left_out} untried."
    return f"{text}\n\n{constructor(tuning, source, columns, work)}"


def constructor(tuning: Tuning, source: str, columns: tuple[str, ...], work: Work) -> str:
    """Return a program that makes the dataset and its loader with the best setting.

    Args:
        tuning: result of the search.
        source: the source, as given on the command line.
        columns: names of the columns to read; () = all columns.
        work: the work that was tuned.
    """
    best = tuning.best
    options = [f"{source!r}"]
    if columns:
        options.append(f"columns={list(columns)!r}")
    options.append(f"batch_size={work.batch_size}")
    if tuning.shuffled:
        options.append("shuffle=True")
    if work.cache_dir:
        options.append(f"cache={work.cache_dir!r}")
    if best.threads is not None:
        options.append(f"threads={best.threads}")
    if best.prefetch is not None:
        options.append(f"prefetch={best.prefetch}")
    if best.request_bytes is not None:
        options.append(f'io=IO(request_bytes="{best.request_bytes // 10**6}MB")')
    loader = "batch_size=None"
    if best.workers:
        loader += f", num_workers={best.workers}, persistent_workers=True"
    names = "FastParquetDataset" if best.request_bytes is None else "IO, FastParquetDataset"
    lines = (
        "from torch.utils.data import DataLoader",
        "",
        f"from fastload import {names}",
        "",
        f"dataset = FastParquetDataset({', '.join(options)})",
        f"loader = DataLoader(dataset, {loader})",
    )
    return "\n".join(lines)


def to_json(tuning: Tuning) -> dict[str, Any]:
    """Convert the result of a search to the plain values that --json writes."""
    return {
        "mode": "shuffled" if tuning.shuffled else "in_order",
        "best": asdict(tuning.best),
        "noise": tuning.noise,
        "seconds": tuning.seconds,
        "left_out": tuning.left_out,
        "trials": [
            {
                **asdict(trial.setting),
                "rows_per_s": tuning.rows / trial.epoch_s if trial.epochs else None,
                "spread": trial.spread,
                "epochs": len(trial.epochs),
                "note": trial.note,
            }
            for trial in tuning.trials
        ],
    }


def _changes(*, remote: bool) -> Iterator[dict[str, int]]:
    """Yield the changes to try on the best setting so far, the most promising first."""
    cores = usable_cores()
    doublings = [1 << k for k in range(cores.bit_length())]
    for threads in sorted({*doublings, cores, 2 * cores}, reverse=True):
        yield {"threads": threads}
    if remote:
        for size in (2, 16, 32):
            yield {"request_bytes": size * 10**6}
    for workers in (1, 2, 4):
        if workers <= max(2, cores):
            yield {"workers": workers}
    for prefetch in (2, 8, 16):
        yield {"prefetch": prefetch}


def _more(trial: Trial, work: Work, run: Launch) -> list[float]:
    """Run the setting once more, and return the seconds of the new epochs."""
    changed = replace(work, **asdict(trial.setting))
    timing = Timing(**run(Job("time", "fastload", changed, patience_s=_PATIENCE_S)))
    epochs = timing.epoch_s[1:] or timing.epoch_s
    trial.epochs += epochs
    return epochs


def _better(trial: Trial, best: Trial, noise: float) -> bool:
    least = 1 - noise - trial.spread - best.spread
    return trial.epoch_s < best.epoch_s * least


def _words(setting: Setting) -> str:
    prefetch = "as it is" if setting.prefetch is None else setting.prefetch
    return f"threads {setting.threads or 'all'}, workers {setting.workers}, prefetch {prefetch}"


def _cells(trial: Trial, tuning: Tuning) -> tuple[str, ...]:
    one = trial.setting
    request = "-" if one.request_bytes is None else f"{one.request_bytes // 10**6} MB"
    rate = f"{tuning.rows / trial.epoch_s:,.0f}" if trial.epochs else "-"
    return (
        "all" if one.threads is None else str(one.threads),
        str(one.workers),
        "-" if one.prefetch is None else str(one.prefetch),
        request,
        rate,
        f"{100 * trial.spread:.0f} %",
        trial.note or ("<- best" if one == tuning.best else ""),
    )
