"""One question: what do packed rows of tokens cost, beside lists as they are and other packers?

    python benchmarks/bench_packing.py [--documents N] [--repeats N] [--peer-documents N]

The documents have log-normal lengths of mean 600 tokens, the packed rows 8192 tokens. The output
has the fill (tokens / places of packed rows), the microseconds a document of planning an epoch (of
packed rows, and of batches of as many tokens), the milliseconds to the first batch, and of batches
in hand the tokens per second and the CPU time. The ways take turns; the figures are medians over
the turns, also of the shares of the `Ragged`'s rate or time in the same turn. TRL, Grain and
LanceDB are measured where they are installed; they pack fewer documents, and all their work counts:
reading (LanceDB reads a table of its own), packing and making tensors. Before any timing, the
documents of all packed rows are compared with those of the files.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from support.packers import PEERS, Packer, numpy_best_fit, numpy_stream

from fastload import FastParquetDataset, Pack, TokenBudget
from fastload.plan.position import Position, WorkerSlot
from fastload.plan.units.windows import UnitsOfWindows
from fastload.rows.values.tokens import token_units
from fastload.runtime.cores import available_cores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_LENGTH = 8192
_MEAN = 600
_BATCH_ROWS = 8
_VOCABULARY = 32_000
_FILES = 4
_GROUP_ROWS = 4_096
_WINDOW = 1 << 19
_BUDGET = 8 * _LENGTH
_EPOCHS = 4

# Rows of tokens, and for each row the tokens of its documents in turn; padding is left out.
Packed = tuple[torch.Tensor, "Sequence[Sequence[int]]"]


@dataclass(slots=True)
class Result:
    """The figures of one way to make batches, by turn.

    Attributes:
        tokens_per_s: tokens of documents per second, without padding.
        cpu_ns: CPU time of all threads for a token.
        fill: tokens of documents / places of rows, the same in all turns.
    """

    tokens_per_s: list[float] = field(default_factory=list)
    cpu_ns: list[float] = field(default_factory=list)
    fill: float = 0.0


def write_documents(directory: Path, documents: int) -> list[Path]:
    """Write lists of random tokens; return the files."""
    random = np.random.default_rng(0)
    paths = []
    for number, part in enumerate(np.array_split(np.arange(documents), _FILES)):
        lengths = random.lognormal(np.log(_MEAN) - 0.5, 1, len(part))
        offsets = np.append(0, np.cumsum(np.clip(lengths.astype(int), 1, _LENGTH)))
        tokens = random.integers(1, _VOCABULARY, offsets[-1], np.int32)
        column = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(tokens))
        paths.append(directory / f"part-{number}.parquet")
        pq.write_table(pa.table({"input_ids": column}), paths[-1], row_group_size=_GROUP_ROWS)
    return paths


def packed(source: Any, fit: Any = "best") -> FastParquetDataset:
    """Open a packed dataset."""
    pack = Pack("input_ids", _LENGTH, fit=fit)
    return FastParquetDataset(
        source, pack=pack, batch_size=_BATCH_ROWS, shuffle=True, shuffle_window=_WINDOW
    )


def ragged(source: Any) -> FastParquetDataset:
    """Open a dataset of the same lists, with as many tokens in a batch."""
    return FastParquetDataset(
        source,
        columns=["input_ids"],
        batch_size=_BATCH_ROWS * _LENGTH // _MEAN,
        shuffle=True,
        shuffle_window=_WINDOW,
    )


def packed_rows(batches: Iterable[Any]) -> Iterator[Packed]:
    """Yield the packed rows of batches of fastload."""
    for batch in batches:
        lengths: list[list[int]] = [[] for _ in range(batch.rows)]
        edges = batch["input_ids__cu_seqlens"]
        flat = batch["input_ids__document"].flatten()
        for first, size in zip(edges[:-1].tolist(), torch.diff(edges).tolist(), strict=True):
            if flat[first] >= 0:
                lengths[first // _LENGTH].append(size)
        yield batch["input_ids"], lengths


def expect_all(rows: Iterable[Packed], source: Sequence[Path], name: str, *, whole: bool) -> None:
    """Raise unless the rows hold each document, or with whole=False each token, once.

    A row's documents must be as long, together, as the row has tokens.

    Args:
        rows: the packed rows.
        source: the files.
        name: what packed the rows.
        whole: compare documents, not the counts of tokens.
    """
    found: Counter[bytes] = Counter()
    counts = np.zeros(_VOCABULARY, np.int64)
    for tokens, lengths in rows:
        for row, sizes in zip(tokens.numpy(), lengths, strict=True):
            row = row.astype(np.int32)
            of_row = row[row > 0]
            if sum(sizes) != len(of_row):
                raise AssertionError(
                    f"Expected documents of {len(of_row)} tokens in a row, got {sum(sizes)} from "
                    f"{name}"
                )
            counts += np.bincount(of_row, minlength=_VOCABULARY)
            if whole:
                parts = np.split(row[: sum(sizes)], np.cumsum(sizes)[:-1])
                found.update(part.tobytes() for part in parts)
    column = pa.concat_arrays(pq.read_table(list(source))["input_ids"].chunks)
    values, offsets = column.values.to_numpy(), column.offsets.to_numpy()
    same = np.array_equal(counts, np.bincount(values, minlength=_VOCABULARY))
    if whole:
        same = same and found == Counter(v.tobytes() for v in np.split(values, offsets[1:-1]))
    if not same:
        raise AssertionError(f"Expected every token once, got other tokens from {name}")


def _expect_all_of(name: str, packer: Packer, source: list[Path]) -> None:
    rows = packer(source, _LENGTH, _BATCH_ROWS)
    expect_all(rows, source, name, whole="best fit" in name)


def planning_us(dataset: FastParquetDataset, spec: Pack | TokenBudget, repeats: int) -> float:
    """Return the microseconds a document of forming the units of an epoch and its plan."""
    units, options = dataset._units, dataset._options  # noqa: SLF001
    assert isinstance(units, UnitsOfWindows)
    lengths = units._lengths  # noqa: SLF001
    if isinstance(spec, TokenBudget):
        options = replace(options, batch_size=1)
    best = float("inf")
    for epoch in range(repeats):
        units = token_units(spec, lengths, options)
        start = time.perf_counter()
        at = Position(0, epoch, ())
        mine = units.share(at, WorkerSlot(1))
        units.read_plan(at, mine, stripe_rows=_BATCH_ROWS, ramp=True)
        best = min(best, time.perf_counter() - start)
    return best / dataset.num_rows * 1e6


def first_batch_ms(
    ways: Sequence[Callable[[], FastParquetDataset]], repeats: int
) -> list[list[float]]:
    """Return the milliseconds from making a dataset to its first batch, lengths being kept.

    Args:
        ways: make a dataset each.
        repeats: number of turns.

    Returns:
        For each way, the milliseconds by turn.
    """
    taken: list[list[float]] = [[] for _ in ways]
    for _ in range(repeats):
        for number, make in enumerate(ways):
            start = time.perf_counter()
            with make() as dataset:
                next(iter(dataset))
                taken[number].append((time.perf_counter() - start) * 1e3)
    return taken


def in_turn(ways: dict[str, Callable[[], tuple[int, int]]], repeats: int) -> dict[str, Result]:
    """Return the figures of each way; a way returns its tokens, and the places of its rows."""
    results = {name: Result() for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            start, used = time.perf_counter(), time.process_time()
            tokens, places = way()
            result = results[name]
            result.tokens_per_s.append(tokens / (time.perf_counter() - start))
            result.cpu_ns.append((time.process_time() - used) / tokens * 1e9)
            result.fill = tokens / places
    return results


def median_share(figures: Sequence[float], base: Sequence[float]) -> float:
    """Return the median over the turns of figures as shares of those of the base."""
    return statistics.median(one / of for one, of in zip(figures, base, strict=False))


def in_hand(dataset: FastParquetDataset, tokens: int) -> tuple[int, int]:
    """Iterate over some epochs; return the tokens of the files, and the places of the rows.

    One epoch alone would count too little: the pass before reads its first windows.
    """
    places = 0
    for _ in range(_EPOCHS):
        for batch in dataset:
            value = batch["input_ids"]
            places += value.numel() if isinstance(value, torch.Tensor) else len(value.values)
    return _EPOCHS * tokens, places


def of_packer(packer: Packer, source: Sequence[Path]) -> tuple[int, int]:
    """Iterate over the packed rows of files; return their tokens and places."""
    tokens = places = 0
    for values, lengths in packer(source, _LENGTH, _BATCH_ROWS):
        places += values.numel()
        tokens += sum(map(sum, lengths))
    return tokens, places


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=50_000)
    parser.add_argument("--peer-documents", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=9)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["FASTLOAD_CACHE_DIR"] = os.path.join(directory, "cache")
        os.environ["HF_HOME"] = os.path.join(directory, "hf")
        whole, few = Path(directory, "whole"), Path(directory, "few")
        whole.mkdir()
        few.mkdir()
        source = write_documents(whole, arguments.documents)
        small = write_documents(few, arguments.peer_documents)
        _compare(source, small, arguments.repeats)


def _compare(source: list[Path], small: list[Path], repeats: int) -> None:
    specs = {fit: Pack("input_ids", _LENGTH, fit=fit) for fit in ("best", "split")}
    for fit in specs:
        expect_all(packed_rows(packed(source, fit)), source, f"fit={fit}", whole=fit == "best")
    peers: dict[str, Callable[[], tuple[int, int]]] = {}
    by_hand: dict[str, Packer] = {
        "numpy, best fit": numpy_best_fit,
        "numpy, stream": numpy_stream,
    }
    for name, packer in by_hand.items():
        _expect_all_of(name, packer, small)
        peers[name] = partial(of_packer, packer, source)
    slow: dict[str, Callable[[], tuple[int, int]]] = {}
    for name, packer in PEERS.items():
        try:
            _expect_all_of(name, packer, small)
        except ImportError as error:
            print(f"{name}: not measured, because Python can't import it ({error})")
            continue
        slow[name] = partial(of_packer, packer, small)

    datasets = {"fastload, best": packed(source), "fastload, split": packed(source, "split")}
    lists = ragged(source)
    tokens = in_hand(lists, 0)[1] // _EPOCHS
    ways: dict[str, Callable[[], tuple[int, int]]] = {
        "fastload, Ragged": partial(in_hand, lists, tokens)
    }
    for name, dataset in datasets.items():
        ways[name] = partial(in_hand, dataset, tokens)
    results = in_turn({**ways, **peers}, repeats)
    results |= in_turn(slow, 2)
    base = results["fastload, Ragged"].tokens_per_s
    mean = tokens / lists.num_rows
    print(
        f"{lists.num_rows:,} documents of {mean:.0f} tokens on average, rows of {_LENGTH} tokens, "
        f"{available_cores()} cores; medians of {repeats} turns"
    )
    print(f"{'':20}{'M tokens/s':>12}{'of Ragged':>11}{'CPU ns/token':>14}{'fill':>8}")
    for name, result in results.items():
        rate = statistics.median(result.tokens_per_s)
        share = median_share(result.tokens_per_s, base)
        line = f"{name:20}{rate / 1e6:12.1f}{share:11.4f}{statistics.median(result.cpu_ns):14.2f}"
        print(f"{line}{result.fill:8.4f}")
    plans: dict[str, Pack | TokenBudget] = {
        **specs,
        "budget": TokenBudget("input_ids", _BUDGET),
        "padded budget": TokenBudget("input_ids", _BUDGET, padded=True),
    }
    for name, spec in plans.items():
        took = planning_us(datasets["fastload, best"], spec, repeats)
        print(f"planning, {name}: {took:.2f} us a document")
    for dataset in (lists, *datasets.values()):
        dataset.close()  # a run has one dataset, and memory for its batches
    makers = [lambda: packed(source), lambda: ragged(source)]
    of_packed, of_lists = first_batch_ms(makers, 4 * repeats)
    both = (
        f"{statistics.median(of_packed):.1f} ms packed, {statistics.median(of_lists):.1f} ms Ragged"
    )
    print(f"first batch: {both}, ratio {median_share(of_packed, of_lists):.2f}")


if __name__ == "__main__":
    main()
