"""One question: what do pages that stay in memory save in later epochs?

    python benchmarks/bench_kept.py [--sections NAME ...] [--codecs C,..] [--epochs N] [--repeats N]
        [--directory DIR]

Later epochs with the default memory_budget of 4 GB, in batches of 16,384 rows. Sections:

- click-log: 2 M rows of 40 columns, in zstd, Snappy and uncompressed
- wide: 262,144 rows of 300 float32 columns, likewise
- filter: 1 % of 4 M rows, scattered, beside hand-written polars
- documents: 10 % of 100,000 lists of 600 tokens on average, scattered, in zstd

Datasets that keep pages ("on") and datasets that keep none ("off") take turns with tensors that
hold the table in RAM, shuffled: torch.randperm, and an index_select of each tensor for each batch.
"By column" is a tensor for each column; "stacks" are the tensors of `Stack`: row-major, one for the
numbers and one for the categories. Before a section is measured, three epochs of each dataset are
compared with what pyarrow reads, and shuffled epochs on with off. The output has medians of all
repeats, in milliseconds, and each ratio beside its goal, with "short" if it misses the goal. Files
are made once and kept in DIR.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import bench_filters
import core_workloads
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import torch
from support.core_results import Figure
from support.fractions_of_roof import SteadyPasses, keep_no_pages
from support.passes import seconds_of_pass

from fastload import FastParquetDataset, Stack
from fastload.runtime.cores import available_cores
from fastload.tools.bench.check import fault, fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping


_BATCH_ROWS = 16_384
_SEED = 1
_FILES = Path(__file__).parents[1] / "build" / "core-files"
_FILTER_GOAL = 20.0
_GROUP_DOCUMENTS = 4_096
_BATCH_DOCUMENTS = 256
_CHECKED_EPOCHS = 3
# The second epoch is the first of which windows are read ahead.
_EARLY = 2
_Tensors: TypeAlias = "dict[str, torch.Tensor]"


@dataclass(frozen=True)
class Section:
    """A table that is stored with several codecs.

    Attributes:
        name: name of the section.
        files: codec -> name of the file in `core_workloads.RECIPES`.
        off: codec -> goal, shuffled: how often an epoch with kept pages fits into one without.
        by_column: goal: how often an epoch fits into one of tensors in RAM, by column.
        stacks: goal: the same of stacks.
    """

    name: str
    files: dict[str, str]
    by_column: float
    stacks: float
    off: dict[str, float] = field(default_factory=dict)


SECTIONS = {
    section.name: section
    for section in (
        Section(
            "click-log",
            {codec: f"click-log-{codec}" for codec in ("zstd", "snappy", "none")},
            8.0,
            1.5,
            {"zstd": 2.5, "snappy": 1.5},
        ),
        Section(
            "wide",
            {"zstd": "wide-300-zstd", "snappy": "wide-300", "none": "wide-300-none"},
            5.0,
            0.6,
        ),
    )
}


def stacks_of(names: Iterable[str]) -> dict[str, str | list[str]]:
    """Return the outputs of the stacks: a column, or the columns of a stack."""
    outputs: dict[str, str | list[str]] = {}
    groups: dict[str, list[str]] = {}
    for name in names:
        prefix = name.rstrip("0123456789")
        if prefix == name:
            outputs[name] = name
        else:
            groups.setdefault(prefix, []).append(name)
    return {**outputs, **groups}


def columns_of(stacks: Mapping[str, str | list[str]], table: _Tensors) -> dict[str, Any]:
    """Return the `columns` argument of the stacks, with the dtypes of the table."""
    return {
        name: part if isinstance(part, str) else Stack(part, table[part[0]].dtype)
        for name, part in stacks.items()
    }


def stacked(columns: _Tensors, stacks: Mapping[str, str | list[str]]) -> _Tensors:
    """Return row-major tensors of the stacks."""
    return {
        name: columns[part]
        if isinstance(part, str)
        else torch.stack([columns[one] for one in part], dim=1)
        for name, part in stacks.items()
    }


def unstacked(
    batches: Iterable[Mapping[str, Any]], stacks: Mapping[str, str | list[str]]
) -> Iterator[_Tensors]:
    """Yield batches of columns, of batches of stacks."""
    for batch in batches:
        columns: _Tensors = {}
        for name, part in stacks.items():
            if isinstance(part, str):
                columns[part] = batch[name]
            else:
                columns.update(zip(part, batch[name].unbind(1), strict=True))
        yield columns


def dataset_of(path: Path, columns: Any, *, shuffle: bool, keep: bool) -> FastParquetDataset:
    """Return a dataset of the file, which keeps pages or keeps none."""
    dataset = FastParquetDataset(
        path, columns=columns, batch_size=_BATCH_ROWS, shuffle=shuffle, seed=_SEED
    )
    if not keep:
        keep_no_pages(dataset)
    return dataset


def epoch_of(tensors: _Tensors, number: int) -> Iterator[_Tensors]:
    """Yield the batches of an epoch of tensors in RAM, shuffled."""
    rows = len(next(iter(tensors.values())))
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(number))
    for chosen in torch.split(order, _BATCH_ROWS):
        yield {name: tensor.index_select(0, chosen) for name, tensor in tensors.items()}


def check(path: Path, table: _Tensors, stacks: Mapping[str, str | list[str]]) -> None:
    """Compare epochs with the table that pyarrow read.

    Raises:
        SystemExit: an epoch delivered other values than expected.
    """

    def parts() -> Iterator[_Tensors]:
        split = {name: column.split(_BATCH_ROWS) for name, column in table.items()}
        for part in zip(*split.values(), strict=True):
            yield dict(zip(split, part, strict=True))

    expected = fingerprint(parts())
    for shuffle in (False, True):
        columns = list(table)
        with (
            dataset_of(path, columns, shuffle=shuffle, keep=True) as on,
            dataset_of(path, columns, shuffle=shuffle, keep=False) as off,
            dataset_of(path, columns_of(stacks, table), shuffle=shuffle, keep=True) as of_stacks,
        ):
            for _ in range(_CHECKED_EPOCHS):
                prints = [
                    fingerprint(on),
                    fingerprint(off),
                    fingerprint(
                        {name: batch[name] for name in columns}
                        for batch in unstacked(of_stacks, stacks)
                    ),
                ]
                for got in prints:
                    wrong = fault(got, expected, shuffled=shuffle, ordered=not shuffle)
                    if wrong:
                        raise SystemExit(f"{wrong} - at {path}")
                if prints[0] != prints[1]:
                    raise SystemExit(f"Expected the same order with kept pages - at {path}")


def measure(
    section: Section, codecs: list[str], directory: Path, *, epochs: int, repeats: int
) -> None:
    """Check the datasets of a section, measure all in turns, and print the section's table."""
    paths = {codec: core_workloads.path(directory, section.files[codec]) for codec in codecs}
    read = pq.read_table(paths[codecs[0]])
    table = {name: torch.tensor(read[name].to_numpy()) for name in read.column_names}
    del read
    stacks = stacks_of(table)
    for path in paths.values():
        check(path, table, stacks)
    by_column, of_stacks = "by column", "stacks"
    held = {by_column: table, of_stacks: stacked(table, stacks)}
    ways = [
        (by_column, list(table), False),
        (by_column, list(table), True),
        (of_stacks, columns_of(stacks, table), True),
    ]
    tensors: dict[str, list[float]] = {name: [] for name in held}
    first: dict[tuple[str, str, bool, bool], list[float]] = {}
    later: dict[tuple[str, str, bool, bool], list[float]] = {}
    kept: dict[str, int] = {}
    for _ in range(repeats):
        for name, of_name in held.items():
            tensors[name] += [seconds_of_pass(epoch_of(of_name, n)) for n in range(_EARLY + 1)][1:]
        for codec, path in paths.items():
            for name, columns, shuffle in ways:
                for keep in (False, True):
                    with dataset_of(path, columns, shuffle=shuffle, keep=keep) as dataset:
                        seconds = [seconds_of_pass(dataset) for _ in range(epochs)]
                        kept[codec] = dataset.stats().memory.kept
                    key = (codec, name, shuffle, keep)
                    first.setdefault(key, []).append(seconds[0])
                    later.setdefault(key, []).extend(seconds[_EARLY:])
    _print(section, first, later, tensors, kept)


def _print(
    section: Section,
    first: Mapping[tuple[str, str, bool, bool], list[float]],
    later: Mapping[tuple[str, str, bool, bool], list[float]],
    tensors: Mapping[str, list[float]],
    kept: Mapping[str, int],
) -> None:
    ms = {key: 1e3 * statistics.median(values) for key, values in later.items()}
    first_ms = {key: 1e3 * statistics.median(values) for key, values in first.items()}
    in_ram = {name: 1e3 * statistics.median(values) for name, values in tensors.items()}
    rows = f"{section.name}: tensors in RAM, shuffled, "
    print(rows + ", ".join(f"{name} {value:.1f} ms" for name, value in in_ram.items()))
    titles = ["first off", "first on", "off", "on", "kept MB"]
    heads = "".join(f"{title:>10}" for title in titles)
    print(f"{'ms':30}{heads}   off / on              tensors in RAM / on")
    for codec, name, shuffle, keep in ms:
        if not keep:
            continue
        off, on = ((codec, name, shuffle, flag) for flag in (False, True))
        cells = [first_ms[off], first_ms[on], ms[off], ms[on], kept[codec] / 1e6]
        by_column = name == "by column"
        goal = section.off.get(codec) if shuffle and by_column else None
        line = f"{f'{codec}, {name}, {_mode(shuffle)}':30}"
        line += "".join(f"{cell:10.1f}" for cell in cells)
        line += f"   {_beside(ms[off] / ms[on], goal)}"
        if shuffle:
            goal = section.by_column if by_column else section.stacks
            line += _beside(in_ram[name] / ms[on], goal)
        print(line.rstrip(), flush=True)


def _beside(value: float, goal: float | None) -> str:
    figure = Figure("", "", "", value, goal)
    text = f"{value:.2f}"
    if goal is not None:
        text += f" of {goal:.2f}{' short' if figure.short else ''}"
    return f"{text:22}"


def measure_filter(directory: Path, *, repeats: int) -> None:
    """Check passes with a filter, measure them in turns with polars, and print the table."""
    path = core_workloads.path(directory, "conditions")
    key, limit, threads = "scattered", bench_filters.KEYS // 100, available_cores()
    with tempfile.TemporaryDirectory() as home:
        os.environ["FASTLOAD_CACHE_DIR"] = home
        _, on = bench_filters.fastload_passes(path, key, limit, threads)
        _, off = bench_filters.fastload_passes(path, key, limit, threads)
        keep_no_pages(off)
        expected = pads.dataset(path).to_table(bench_filters.COLUMNS, filter=pc.field(key) < limit)
        ways: dict[str, Callable[[], Iterator[Any]]] = {
            "off": off.__iter__,
            "on": on.__iter__,
            "polars": lambda: bench_filters.polars_pass(path, key, limit),
        }
        for make in ways.values():
            for _ in range(_CHECKED_EPOCHS):
                bench_filters.check_answer(make(), expected)
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        passes = {"off": SteadyPasses(off), "on": SteadyPasses(on)}
        for _ in range(repeats):
            for name, steady in passes.items():
                seconds[name].append(steady.measure()[0])
            seconds["polars"].append(seconds_of_pass(ways["polars"]()))
        kept = on.stats().memory.kept
        on.close()
        off.close()
    ms = {name: 1e3 * statistics.median(values) for name, values in seconds.items()}
    cells = ", ".join(f"{name} {value:.2f} ms" for name, value in ms.items())
    print(f"filter: {expected.num_rows:,} of 4 M rows, {cells}, kept {kept / 1e6:.0f} MB")
    for name in passes:
        goal = _FILTER_GOAL if name == "on" else None
        print(f"polars / {name:3} {_beside(ms['polars'] / ms[name], goal)}".rstrip(), flush=True)


def measure_documents(*, repeats: int) -> None:
    """Check passes over filtered lists, measure them in turns, and print the table."""
    with tempfile.TemporaryDirectory() as home:
        os.environ["FASTLOAD_CACHE_DIR"] = home
        path = Path(home) / "documents.parquet"
        table = _documents()
        pq.write_table(table, path, compression="zstd", row_group_size=_GROUP_DOCUMENTS)
        expected = table.filter(pc.less(table["key"], 10))["ids"].combine_chunks()
        for shuffle in (False, True):
            on, off = (
                FastParquetDataset(
                    path,
                    columns=["ids"],
                    filters=[("key", "<", 10)],
                    batch_size=_BATCH_DOCUMENTS,
                    shuffle=shuffle,
                )
                for _ in range(2)
            )
            keep_no_pages(off)
            for _ in range(_CHECKED_EPOCHS):
                _check_documents(on, off, None if shuffle else expected)
            passes = {"off": SteadyPasses(off), "on": SteadyPasses(on)}
            seconds: dict[str, list[float]] = {name: [] for name in passes}
            for _ in range(repeats):
                for name, steady in passes.items():
                    seconds[name].append(steady.measure()[0])
            ms = {name: 1e3 * statistics.median(values) for name, values in seconds.items()}
            print(
                f"documents, {_mode(shuffle)}: {len(expected):,} of {len(table):,} lists, off "
                f"{ms['off']:.2f} ms, on {ms['on']:.2f} ms, {ms['off'] / ms['on']:.2f} times, kept "
                f"{on.stats().memory.kept / 1e6:.0f} MB",
                flush=True,
            )
            on.close()
            off.close()


def _documents() -> pa.Table:
    random = np.random.default_rng(1)
    lengths = np.clip(random.lognormal(np.log(600) - 0.5, 1, 100_000).astype(int), 1, 8192)
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int32)
    tokens = random.integers(0, 32_000, offsets[-1], np.int32)
    ids = pa.ListArray.from_arrays(pa.array(offsets), pa.array(tokens))
    return pa.table({"key": random.integers(0, 100, len(lengths)), "ids": ids})


def _check_documents(
    on: FastParquetDataset, off: FastParquetDataset, expected: pa.ListArray | None
) -> None:
    """Compare two passes, and a pass in order with what pyarrow reads.

    Raises:
        SystemExit: a pass delivered other values than expected.
    """
    parts = []
    for got, want in zip(on, off, strict=True):
        one, other = got["ids"], want["ids"]
        if not (torch.equal(one.values, other.values) and torch.equal(one.offsets, other.offsets)):
            raise SystemExit("Expected the same lists with kept rows, got others")
        parts.append(one.values.clone())
    if expected is not None and not np.array_equal(torch.cat(parts), expected.flatten()):
        raise SystemExit("Expected the lists that pyarrow reads, got others")


def _mode(shuffle: bool) -> str:
    return "shuffled" if shuffle else "in order"


def main() -> None:
    """Print the tables."""
    names = [*SECTIONS, "filter", "documents"]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sections", nargs="+", choices=names, default=names)
    parser.add_argument("--codecs", default="zstd,snappy,none")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--directory", type=Path, default=_FILES)
    arguments = parser.parse_args()
    if arguments.epochs <= _EARLY:
        parser.error(f"Expected at least {_EARLY + 1} epochs, got {arguments.epochs}")
    for name in arguments.sections:
        if name == "filter":
            measure_filter(arguments.directory, repeats=arguments.repeats)
        elif name == "documents":
            measure_documents(repeats=arguments.repeats)
        else:
            measure(
                SECTIONS[name],
                arguments.codecs.split(","),
                arguments.directory,
                epochs=arguments.epochs,
                repeats=arguments.repeats,
            )


if __name__ == "__main__":
    main()
