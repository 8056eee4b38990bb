"""One question: is there a shape of files at which fastload falls off a cliff?

    python benchmarks/bench_shapes.py [--only NAME,NAME] [--seconds N]

Each line is of one shape, read by a child process of its own in at most N seconds; "> N" stands for
what was not reached. A dataset is constructed, gives its first batch, and ends its first epoch
(first batch included); "later" is the median of the next two epochs. All this in order, and then
shuffled. Then pyarrow (`dataset.to_batches`) and polars (`scan_parquet`) open the files and read
the same columns in order, and make the numbers of them that a batch holds (decimals as float64, 0
for null): the better of two runs, unless the first takes more than 2 s. "-" stands for a peer that
can't read the shape, or has nothing alike.

Columns: seconds; microseconds of a later epoch for each unit of work; "plain", how often that is
the plain line's, the worse of in order and shuffled; and a later epoch in order over each peer.

Units make a shape with many small column chunks and one with a few large ones comparable. A unit is
a column chunk, or a batch, or 64 KiB of what the batches hold. A rank has its share of the chunks.
Of calls of `take`, a unit is a row taken, which nothing in the plain line is like, and an epoch is
five calls.

"!" marks a line whose "plain" is above 3, or whose later epoch is slower than a peer, unless the
epoch takes less than 10 ms. Sums of all leaves (of strings, of their lengths) in the epoch after
the timed ones are compared with those that pyarrow reads, so no wrong answer is timed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq
from support.click_log_store import serve
from support.fractions_of_roof import seconds_of_pass

from fastload import FastParquetDataset, Ragged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

_BATCH_ROWS = 4_096
_UNIT_BYTES = 64 << 10
_MOST = 3.0
_SHORT_S = 0.01
_SLOW_S = 2.0
_PASSES = 3
_TAKES = 5
_TAKEN = 32
_MODES = ("in order", "shuffled")
_STEPS = ("construct", "batch", "first", "later")
_PEERS = ("pyarrow", "polars")
_RNG = np.random.default_rng(1)
_LISTED = _RNG.integers(0, 1 << 40, 1_000_000)


@dataclass(frozen=True)
class Shape:
    """A shape of files, and how they are read.

    Attributes:
        table: returns the rows of a file.
        files: number of files, all alike.
        group: rows of a row group.
        read: names of the columns to read; None = all.
        options: arguments of the dataset.
        write: arguments of `pyarrow.parquet.write_table`.
        listed: values that the column `key` has in the rows to read.
        own: each file has a column that no other file has.
        stored: the files lie in a store.
        takes: rows are read by `take`.
        peers: the peers that do something alike.
    """

    table: Callable[[], pa.Table]
    files: int = 1
    group: int = 125_000
    read: list[str] | None = None
    options: dict[str, Any] = field(default_factory=lambda: {"batch_size": _BATCH_ROWS})
    write: dict[str, Any] = field(default_factory=dict)
    listed: list[int] | None = None
    own: bool = False
    stored: bool = False
    takes: bool = False
    peers: tuple[str, ...] = _PEERS

    def save(self, directory: Path) -> None:
        """Write the files."""
        table, options = self.table(), {"row_group_size": self.group, **self.write}
        first = directory / "part-00000.parquet"
        for number in range(self.files):
            path = directory / f"part-{number:05}.parquet"
            if self.own:
                own = table.append_column(f"own{number}", table.column(0))
                pq.write_table(own, path, **options)
            elif number:
                shutil.copyfile(first, path)
            else:
                pq.write_table(table, path, **options)

    def chunks(self, directory: Path) -> float:
        """Return the number of column chunks that a rank reads in an epoch."""
        metadata = pq.read_metadata(directory / "part-00000.parquet")
        paths = (metadata.schema.column(i).path for i in range(metadata.num_columns))
        read = [path for path in paths if not self.read or path.partition(".")[0] in self.read]
        chunks: int = len(read) * metadata.num_row_groups * self.files
        return chunks / int(self.options.get("world_size", 1))


def floats(rows: int, columns: int, unread: int = 0) -> pa.Table:
    """Return columns c0, c1, ... of floats, and columns of zeros, which take little space."""
    zeros = pa.array(np.zeros(rows, np.float32))
    made = {f"c{i}": pa.array(_RNG.random(rows, np.float32)) for i in range(columns)}
    return pa.table(made | {f"x{i}": zeros for i in range(unread)})


def read_of(columns: int) -> list[str]:
    """Return the names of the columns that `floats` fills."""
    return [f"c{i}" for i in range(columns)]


def counts(rows: int) -> pa.Table:
    """Return columns of integers below 1,000."""
    return pa.table({f"c{i}": _RNG.integers(0, 1_000, rows).astype(np.int32) for i in range(10)})


def nullable(rows: int) -> pa.Table:
    """Return columns of integers, half of which are null."""

    def column() -> pa.Array:
        values = _RNG.integers(0, 1 << 20, rows).astype(np.int32)
        return pa.array(values, mask=_RNG.random(rows) < 0.5)

    return pa.table({f"c{i}": column() for i in range(10)})


def decimals(rows: int, kind: pa.DataType, bits: int) -> pa.Table:
    """Return columns of decimals of so many bits."""

    def column() -> pa.Array:
        low = _RNG.integers(-(1 << bits), 1 << bits, rows)
        words = pa.py_buffer(np.stack([low, low >> 63], 1))
        return pa.Array.from_buffers(kind, rows, [None, words])

    return pa.table({f"c{i}": column() for i in range(4)})


def strings(rows: int, length: int, distinct: int | None = None) -> pa.Table:
    """Return columns of strings of letters."""
    some = distinct or rows
    letters = pa.py_buffer(_RNG.integers(97, 123, some * length, np.uint8))
    offsets = pa.py_buffer(np.arange(some + 1, dtype=np.int32) * length)
    column = pa.Array.from_buffers(pa.string(), some, [None, offsets, letters])
    columns = 1 if length > 1_000 else 4
    picks = [_RNG.integers(0, some, rows) if distinct else _RNG.permutation(rows)] * columns
    return pa.table({f"c{i}": column.take(pa.array(pick)) for i, pick in enumerate(picks)})


def offsets_of(rows: int, mean: int) -> pa.Array:
    """Return the offsets of lists of up to twice the mean."""
    lengths = _RNG.integers(0, 2 * mean + 1, rows)
    return pa.array(np.append(0, np.cumsum(lengths)).astype(np.int32))


def lists(rows: int, mean: int, inner: int = 0) -> pa.Table:
    """Return a column of lists of floats, or of lists of lists."""
    offsets = offsets_of(rows, mean)
    size = offsets[-1].as_py()
    if inner:
        values: pa.Array = lists(size, inner)["c0"].combine_chunks()
    else:
        values = pa.array(_RNG.random(size, np.float32))
    return pa.table({"c0": pa.ListArray.from_arrays(offsets, values)})


def maps(rows: int) -> pa.Table:
    """Return a column of maps of strings to integers."""
    offsets = offsets_of(rows, 3)
    size = offsets[-1].as_py()
    keys = strings(size, 4, 100)["c0"].combine_chunks()
    return pa.table({"c0": pa.MapArray.from_arrays(offsets, keys, pa.array(np.arange(size)))})


def structs(rows: int) -> pa.Table:
    """Return a column of lists of structs."""
    offsets = offsets_of(rows, 3)
    columns = [pa.array(_RNG.random(offsets[-1].as_py(), np.float32)) for _ in range(3)]
    values = pa.StructArray.from_arrays(columns, ["x", "y", "z"])
    return pa.table({"c0": pa.ListArray.from_arrays(offsets, values)})


SHAPES = {
    "plain": Shape(lambda: floats(250_000, 10), 4),
    "40 of 40 columns": Shape(lambda: floats(128_000, 40), 8, 500),
    "40 of 200 columns": Shape(lambda: floats(128_000, 40, 160), 8, 500, read_of(40)),
    "5 of 1000 columns": Shape(lambda: floats(128_000, 5, 995), 4, 500, read_of(5)),
    "2 of 10000 columns": Shape(lambda: floats(20, 2, 9_998), 20, read=read_of(2)),
    "own columns": Shape(lambda: floats(100, 2), 1_000, read=read_of(2), own=True),
    "2000 files": Shape(lambda: floats(100, 4), 2_000),
    "groups of 10 rows": Shape(lambda: floats(400_000, 4), 1, 10),
    "decimals of 18": Shape(lambda: decimals(400_000, pa.decimal128(18, 4), 55)),
    "decimals of 38": Shape(lambda: decimals(400_000, pa.decimal128(38, 0), 60)),
    "short strings": Shape(lambda: strings(400_000, 8), write={"use_dictionary": False}),
    "few strings": Shape(lambda: strings(400_000, 8, 1_000)),
    "strings of 10 KB": Shape(lambda: strings(4_000, 10_000)),
    "short lists": Shape(lambda: lists(800_000, 3)),
    "lists in one group": Shape(lambda: lists(800_000, 3), group=1 << 20),
    "lists of lists": Shape(lambda: lists(300_000, 3, 3)),
    "maps": Shape(lambda: maps(400_000)),
    "lists of structs": Shape(lambda: structs(400_000)),
    "half null": Shape(
        lambda: nullable(1_000_000), options={"batch_size": _BATCH_ROWS, "nulls": "zero"}
    ),
    "zstd": Shape(lambda: counts(1_000_000), write={"compression": "zstd"}),
    "snappy": Shape(lambda: counts(1_000_000), write={"compression": "snappy"}),
    "uncompressed": Shape(lambda: counts(1_000_000), write={"compression": "none"}),
    "pages of 256 B": Shape(
        lambda: floats(400_000, 4),
        write={"data_page_size": 256, "write_batch_size": 64, "use_dictionary": False},
    ),
    "100000 listed": Shape(
        lambda: floats(1_000_000, 2).append_column("key", pa.array(_LISTED)),
        read=read_of(2),
        listed=_LISTED[::10].tolist(),
    ),
    "batches of 1 row": Shape(
        lambda: floats(50_000, 4), options={"batch_size": 1}, peers=("pyarrow",)
    ),
    "canonical_ranks": Shape(
        lambda: floats(250_000, 10),
        4,
        options={"global_batch_size": _BATCH_ROWS, "canonical_ranks": 64},
        peers=(),
    ),
    "take of 32 lists": Shape(lambda: lists(100_000, 50), 4, takes=True),
    "a rank of 512": Shape(
        lambda: floats(250_000, 10),
        4,
        2_000,
        options={"batch_size": _BATCH_ROWS, "rank": 200, "world_size": 512},
        peers=(),
    ),
    "from a store": Shape(lambda: floats(64_000, 10), 16, 16_000, stored=True, peers=("pyarrow",)),
}


class Reading:
    """Passes over the files of a shape, by each loader.

    Args:
        shape: the shape.
        directory: directory of the files.
        url: address of the store that has the files; "" = they are read from the directory.
    """

    def __init__(self, shape: Shape, directory: str, url: str) -> None:
        self._shape = shape
        self._directory = directory
        self._url = url
        self._sums: list[float] = []

    def dataset(self, *, shuffle: bool) -> FastParquetDataset:
        """Return the dataset."""
        shape, options = self._shape, dict(self._shape.options)
        if self._url:
            options["storage_options"] = {"endpoint_url": self._url, "token": "anon"}
        return FastParquetDataset(
            "gs://bucket/train/" if self._url else self._directory,
            columns=shape.read,
            filters=None if shape.listed is None else [("key", "in", shape.listed)],
            shuffle=shuffle,
            **options,
        )

    def epoch(self, dataset: FastParquetDataset, *, shuffle: bool) -> Iterable[Any]:
        """Return the batches of an epoch, or what calls of `take` return."""
        if not self._shape.takes:
            return dataset
        return (dataset.take(rows) for rows in self._picks(dataset.num_rows, shuffle=shuffle))

    def expected(self, dataset: FastParquetDataset, *, shuffle: bool) -> list[float]:
        """Return the sums of what pyarrow reads."""
        if self._sums:
            return self._sums
        table = self._arrow().to_table(self._shape.read, filter=self._condition())
        if self._shape.takes:
            table = table.take(self._picks(len(table), shuffle=shuffle).ravel())
        if "rank" in self._shape.options:
            rows = dataset.rows_of(range(len(dataset)), self._shape.options["rank"])
            table = table.take(rows["file"] * (len(table) // self._shape.files) + rows["row"])
        columns = (table[name].combine_chunks() for name in table.column_names)
        sums = [len(table), *(total for column in columns for total in sums_of_arrow(column))]
        if not self._shape.takes and "rank" not in self._shape.options:
            self._sums = sums  # the same in any order
        return sums

    def pyarrow(self) -> None:
        """Read the rows with pyarrow."""
        dataset, read = self._arrow(), self._shape.read
        if self._shape.takes:
            for rows in self._picks(dataset.count_rows(), shuffle=True):
                dataset.take(rows, columns=read)
            return
        size = self._shape.options.get("batch_size", _BATCH_ROWS)
        for batch in dataset.to_batches(columns=read, filter=self._condition(), batch_size=size):
            for column in batch.columns:
                if pa.types.is_decimal(column.type):
                    column.cast(pa.float64())
                elif self._fills_nulls:
                    column.fill_null(0)

    def polars(self) -> None:
        """Read the rows with polars."""
        import polars as pl

        differ: Any = {}
        if self._shape.own:
            differ = {"missing_columns": "insert", "extra_columns": "ignore"}
        scan = pl.scan_parquet(f"{self._directory}/*.parquet", **differ)
        read = pl.all() if self._shape.read is None else pl.col(self._shape.read)
        if self._shape.takes:
            rows = scan.select(pl.len()).collect().item()
            for picks in self._picks(rows, shuffle=True):
                scan.select(read.gather(picks.tolist())).collect()
            return
        if self._shape.listed is not None:
            scan = scan.filter(pl.col("key").is_in(self._shape.listed))
        rows = scan.select(read).with_columns(pl.selectors.decimal().cast(pl.Float64))
        (rows.fill_null(0) if self._fills_nulls else rows).collect()

    @property
    def _fills_nulls(self) -> bool:
        return self._shape.options.get("nulls") == "zero"

    def _arrow(self) -> Any:
        if not self._url:
            return pads.dataset(self._directory, format="parquet")
        from pyarrow.fs import GcsFileSystem

        scheme, _, place = self._url.partition("://")
        store = GcsFileSystem(anonymous=True, scheme=scheme, endpoint_override=place)
        return pads.dataset("bucket/train", filesystem=store, format="parquet")

    def _condition(self) -> Any:
        listed = self._shape.listed
        return None if listed is None else pc.field("key").isin(listed)

    @staticmethod
    def _picks(rows: int, *, shuffle: bool) -> Any:
        picks = np.random.default_rng(2).integers(0, rows, (_TAKES, _TAKEN))
        return picks if shuffle else np.sort(picks, None).reshape(picks.shape)


def sums_of_arrow(column: pa.Array) -> Iterator[float]:
    """Yield the sum of each leaf, of strings the sum of lengths."""
    if pa.types.is_struct(column.type):
        for child in column.flatten():
            yield from sums_of_arrow(child)
    elif pa.types.is_map(column.type):
        for child in (column.keys, column.items):
            yield from sums_of_arrow(child)
    elif pa.types.is_list(column.type):
        yield from sums_of_arrow(column.flatten())
    elif pa.types.is_string(column.type):
        yield pc.sum(pc.binary_length(column)).as_py()
    else:
        yield pc.sum(column.cast(pa.float64())).as_py()


def sums_of(batches: Iterable[Mapping[str, Any]]) -> list[float]:
    """Return the number of rows, and the sum of each leaf, of strings the sum of lengths."""
    totals: dict[str, float] = {}
    rows = 0
    for batch in batches:
        for name, value in batch.items():
            count = len(value)
            while isinstance(value, Ragged) and value.kind is None:
                value = value.values
            text = isinstance(value, Ragged)
            total = value.offsets[-1] - value.offsets[0] if text else value.double().sum()
            totals[name] = totals.get(name, 0.0) + float(total)
        rows += count
    return [rows, *totals.values()]


def measure(shape: Shape, reading: Reading) -> None:
    """Print each figure as soon as it is known.

    Raises:
        SystemExit: an epoch delivered other values than pyarrow reads.
    """

    def say(name: str, value: float) -> None:
        print(json.dumps([name, value]), flush=True)

    for mode in _MODES:
        shuffle = mode == "shuffled"
        start = time.perf_counter()
        with reading.dataset(shuffle=shuffle) as dataset:
            say(f"{mode} construct", time.perf_counter() - start)
            start = time.perf_counter()
            batches = iter(reading.epoch(dataset, shuffle=shuffle))
            next(batches)
            say(f"{mode} batch", time.perf_counter() - start)
            for _ in batches:
                pass
            say(f"{mode} first", time.perf_counter() - start)
            passes = (
                seconds_of_pass(reading.epoch(dataset, shuffle=shuffle)) for _ in range(_PASSES - 1)
            )
            say(f"{mode} later", statistics.median(passes))
            units = _TAKES * _TAKEN
            if not shape.takes:
                units = len(dataset) + dataset.stats().deliver.bytes // _PASSES // _UNIT_BYTES
            say("units", units)
            got = sums_of(reading.epoch(dataset, shuffle=shuffle))
            expected = reading.expected(dataset, shuffle=shuffle)
            if not np.allclose(got, expected, rtol=1e-9):
                raise SystemExit(f"Expected sums {expected}, got {got}")
    for peer in shape.peers:
        read = getattr(reading, peer)
        try:
            seconds = seconds_of_run(read)
            say(peer, seconds if seconds > _SLOW_S else min(seconds, seconds_of_run(read)))
        except Exception as error:  # noqa: BLE001 - the peer has no figure, and the reason is told
            print(f"{peer} fails: {error}", file=sys.stderr)


def seconds_of_run(read: Callable[[], None]) -> float:
    """Return the seconds of a call."""
    start = time.perf_counter()
    read()
    return time.perf_counter() - start


def figures_of(name: str, directory: Path, seconds: float) -> dict[str, float]:
    """Return what a child process measured in the time that it had, by name; {} if it failed."""
    shape, files = SHAPES[name], directory / "files"
    files.mkdir()
    shape.save(files)
    chunks = 0 if shape.takes else shape.chunks(files)
    environment = {**os.environ, "FASTLOAD_CACHE_DIR": str(directory / "home")}
    with serve(str(files), 0.001) if shape.stored else contextlib.nullcontext() as store:
        command = [sys.executable, __file__, "--one", name, str(files), store.url if store else ""]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as child:  # noqa: S603 - our own
            late = False
            try:
                out, _ = child.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                late = True
                child.kill()
                out, _ = child.communicate()
    if child.returncode and not late:
        return {}
    figures: dict[str, float] = dict(json.loads(line) for line in out.splitlines())
    return {**figures, "late": late, "units": chunks + figures.get("units", 0)}


def line_of(
    name: str, figures: Mapping[str, float], plain: Mapping[str, float], limit: float
) -> str:
    """Return the line of a shape."""
    shape = SHAPES[name]
    lacking = f"> {limit:.0f}" if figures["late"] else "-"

    def cell(value: float | None, form: str, width: int = 8) -> str:
        return f"{lacking if value is None else format(value, form):>{width}}"

    line = f"{name:20}{figures['units']:9,.0f}"
    for mode in _MODES:
        line += "".join(cell(figures.get(f"{mode} {step}"), ".3f", 10) for step in _STEPS)
    later = [figures.get(f"{mode} later") for mode in _MODES]
    known = [(mode, s) for mode, s in zip(_MODES, later, strict=True) if s is not None]
    micros = {mode: s / figures["units"] * 1e6 for mode, s in known}
    line += "".join(cell(micros.get(mode), ".1f") for mode in _MODES)
    reached = len(known) == len(_MODES)
    worst = None
    if reached and not shape.takes and "shuffled later" in plain:
        of_plain = {mode: plain[f"{mode} later"] / plain["units"] * 1e6 for mode in _MODES}
        worst = max(micros[mode] / of_plain[mode] for mode in _MODES)
    line += f"{'-':>8}" if shape.takes else cell(worst, ".2f")
    shares = {p: later[0] / figures[p] for p in _PEERS if later[0] is not None and p in figures}
    for peer in _PEERS:
        line += cell(shares.get(peer), ".2f") if peer in shape.peers else f"{'-':>8}"
    is_slow = (worst is not None and worst > _MOST) or any(s > 1 for s in shares.values())
    is_short = reached and max(s for _, s in known) < _SHORT_S
    return line + (" !" if not reached or (is_slow and not is_short) else "")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="names of lines, with commas")
    parser.add_argument("--seconds", type=float, default=40.0, help="limit of a line")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        name, files, url = arguments.one
        measure(SHAPES[name], Reading(SHAPES[name], files, url))
        return
    only = arguments.only.split(",") if arguments.only else list(SHAPES)
    if unknown := set(only) - set(SHAPES):
        parser.error(f"Expected names of {', '.join(SHAPES)}; got {', '.join(unknown)}")
    print(f"{'':29}{'in order':>40}{'shuffled':>40}{'us a unit':>16}{'over':>24}")
    titles = "".join(f"{step:>10}" for step in _STEPS)
    ends = "".join(f"{title:>8}" for title in ("order", "shuf.", "plain", *_PEERS))
    print(f"{'':20}{'units':>9}{titles}{titles}{ends}")
    plain: dict[str, float] = {}
    failed = False
    for name in dict.fromkeys(["plain", *only]):
        with tempfile.TemporaryDirectory() as directory:
            figures = figures_of(name, Path(directory), arguments.seconds)
        if not figures:
            print(f"{name:20}failed", flush=True)
            failed = True
            continue
        plain = plain or figures
        print(line_of(name, figures, plain, arguments.seconds), flush=True)
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
