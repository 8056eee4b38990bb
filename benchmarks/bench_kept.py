"""One question: what do pages that stay in memory save in later epochs?

    python benchmarks/bench_kept.py [--row-groups N] [--epochs N] [--repeats N] [--codecs C,..]

A click log (row groups of 2**18 rows, 8 by default) is read with the default memory_budget of 4 GB,
uncompressed, in Snappy and in zstd, in order and shuffled. Datasets that keep pages and datasets
that keep none take turns; so do tensors that hold the table in RAM (torch.randperm and index_select
by column, and row-major). Before a case is measured, three epochs in order are compared with the
tables that were written, and three shuffled epochs with the epochs of a dataset that keeps none.
The output has milliseconds, each the least of all repeats: of the first epoch, and of later epochs;
then how often the later epochs of the dataset that keeps pages fit into one that keeps none, and
the bytes that are kept.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pyarrow.parquet as pq
import torch

from fastload import FastParquetDataset
from fastload.tools.bench import sample
from fastload.tools.bench.peers import Work
from fastload.tools.bench.peers.memory_tables import ByColumn, RowMajor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fastload.batch.batch import Batch

_BATCH_ROWS = 16_384
_SEED = 1
_Epoch: TypeAlias = "Callable[[int], Iterable[object]]"


def write(path: Path, codec: str, row_groups: int) -> None:
    """Write the click log with a codec."""
    options = {"compression": codec, "use_dictionary": sample.repeating_columns()}
    with pq.ParquetWriter(path, sample.schema(), **options) as writer:
        for index in range(row_groups):
            writer.write_table(sample.row_group(index))


def dataset_of(path: Path, *, shuffle: bool, keep: bool) -> FastParquetDataset[Batch]:
    """Return a dataset of the file, which keeps pages or keeps none."""
    dataset = FastParquetDataset(path, batch_size=_BATCH_ROWS, shuffle=shuffle, seed=_SEED)
    if not keep:
        dataset._engines.of_process(1).pipeline.limit_kept(0)  # noqa: SLF001
    return dataset


def check(path: Path, row_groups: int, *, shuffle: bool) -> None:
    """Compare three epochs.

    Raises:
        AssertionError: an epoch delivered other values than expected.
    """
    with dataset_of(path, shuffle=shuffle, keep=True) as dataset:
        if not shuffle:
            names = sample.schema().names
            for _ in range(3):
                batches = iter(dataset)
                for index in range(row_groups):
                    table = sample.row_group(index)
                    for start in range(0, len(table), _BATCH_ROWS):
                        batch = next(batches)
                        part = table.slice(start, _BATCH_ROWS)
                        same = all(
                            torch.equal(batch[name], torch.tensor(part[name].to_numpy()))
                            for name in names
                        )
                        assert same, "an epoch delivered other values than were written"
                assert next(batches, None) is None, "an epoch has too many rows"
            return
        with dataset_of(path, shuffle=True, keep=False) as other:
            for _ in range(3):
                for left, right in zip(dataset, other, strict=True):
                    same = all(torch.equal(left[name], right[name]) for name in left)
                    assert same, "kept pages delivered other values"


def seconds_of(epoch: _Epoch, epochs: int) -> list[float]:
    """Return the seconds of each epoch."""
    seconds = []
    for number in range(epochs):
        start = time.perf_counter()
        for _ in epoch(number):
            pass
        seconds.append(time.perf_counter() - start)
    return seconds


def least(runs: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return the least milliseconds of a first epoch, and of an epoch from the third one on."""
    # The second epoch is the first of which windows are read ahead.
    return 1e3 * min(run[0] for run in runs), 1e3 * min(min(run[2:]) for run in runs)


def measure(path: Path, *, shuffle: bool, epochs: int, repeats: int) -> list[str]:
    """Return the cells of a case."""
    runs: dict[bool, list[list[float]]] = {True: [], False: []}
    kept = 0
    for _ in range(repeats):
        for keep in (True, False):
            with dataset_of(path, shuffle=shuffle, keep=keep) as dataset:
                runs[keep].append(seconds_of(lambda _, d=dataset: d, epochs))  # type: ignore[misc]
                kept = max(kept, dataset.stats().memory.kept)
    (first, later), (first_without, later_without) = least(runs[True]), least(runs[False])
    cells = [first, later, first_without, later_without]
    return [
        *(f"{cell:9.1f}" for cell in cells),
        f"{later_without / later:9.2f}",
        f"{kept / 1e6:9.0f}",
    ]


def measure_tensors(path: Path, *, shuffle: bool, epochs: int, repeats: int) -> list[str]:
    """Return the cells of tensors in RAM: by column, and row-major."""
    work = Work((str(path),), tuple(sample.schema().names), _BATCH_ROWS, shuffle, _SEED)
    runs = []
    for made in (ByColumn(work), RowMajor(work)):
        of_one = [seconds_of(made.epoch, epochs) for _ in range(repeats)]
        runs.append(f"{least(of_one)[1]:9.1f}")
    return runs


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--row-groups", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--codecs", default="none,snappy,zstd")
    arguments = parser.parse_args()
    limits = {"epochs": arguments.epochs, "repeats": arguments.repeats}
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "click-log.parquet")
        titles = ["first", "later", "without:", "later", "times", "kept MB"]
        print(f"{'ms':18}" + "".join(f"{title:>9}" for title in titles))
        for codec in arguments.codecs.split(","):
            write(path, codec, arguments.row_groups)
            for shuffle in (False, True):
                check(path, arguments.row_groups, shuffle=shuffle)
                cells = measure(path, shuffle=shuffle, **limits)
                name = f"{codec}, {'shuffled' if shuffle else 'in order'}"
                print(f"{name:18}{''.join(cells)}", flush=True)
        print(f"{'tensors in RAM':18}{'by column':>9}{'row-major':>10}")
        for shuffle in (False, True):
            cells = measure_tensors(path, shuffle=shuffle, **limits)
            print(f"{'shuffled' if shuffle else 'in order':18}{' '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
