"""One question: how near does reading from an object store come to a client that drops the bytes?

    python benchmarks/bench_store.py [--files N] [--rows N] [--latency-ms X] [--connections N]
        [--repeats N] [--litdata-files N] [--directory DIR] [--host ADDRESS --within COMMAND]

A server in a process of its own answers each request after the latency. Three of forty columns of a
click-log table are read in order. A line for each reader has the seconds of one pass (the mean of
the repeats, with warm connections; a pass longer than 2 s is timed once), million rows per second,
requests, opened connections, bytes on the wire over bytes of the projected column chunks, and the
share of the ideal client's rate. The ideal client is obstore with the same coalesced ranges and as
many requests in flight, which drops the bytes. fastload's rate is that of bytes, because the bytes
read ahead for the next pass differ from run to run; the rates of the other readers are those of
rows. All readers must return the same sums of the columns as tensors, which is checked before any
timing. LitData, which makes each row a Python object, reads only the first files. A reader that is
not installed is left out, with a message.

Then each goal is printed beside the result, for both transports:

- requests and bytes of a dataset's first pass without footers, as the server counted them, over
  those of the coalesced plan and of the column chunks
- rounds of requests that wait for each other until the first batch, including making the dataset:
  without kept footers, and at the next start
- the trainer's thread: the speed of pure Python in steps of about 25 ms, after the batches that the
  loader yields in that time, while one thread of the core loads, over its speed while another
  process loads the same at the same pace, without this process's GIL; the CPUs that loading and the
  server used meanwhile; and the share of the steps in which the thread neither ran nor waited for
  a CPU, as a thread does that waits for the GIL

Over a network: `--latency-ms 0 --host ADDRESS --within "ip netns exec NAME"` runs the server in
that network namespace, for instance at the other end of a simulated link with its own latency.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import numpy as np
import pyarrow.dataset as pads
import pyarrow.parquet as pq
from support.click_log_store import (
    BATCH_SIZE,
    COLUMNS,
    Plan,
    Seen,
    Store,
    plan,
    serve,
    write_click_log,
)
from support.core_results import Figure

from support import store_readers as readers
from support import trainer_thread

if TYPE_CHECKING:
    from collections.abc import Iterator

TRANSPORTS = ("native", "fsspec")
_SLOW_S = 2.0
_THREAD_REPEATS = 9
_PACED = Path(__file__).with_name("paced_loading.py")


@dataclass(frozen=True, slots=True)
class Table:
    """The files that a reader reads, and the expected results.

    Attributes:
        files: paths of the files.
        plan: the reads that a pass needs.
        rows: number of rows.
        sums: sum of the values of each column.
    """

    files: list[Path]
    plan: Plan
    rows: int
    sums: dict[str, int]

    @classmethod
    def of(cls, files: list[Path]) -> Table:
        """Read the files locally, and return the table."""
        local = pads.dataset([str(file) for file in files]).to_table(columns=COLUMNS)
        sums = {c: int(np.sum(local[c].to_numpy(), dtype=np.int64)) for c in COLUMNS}
        return cls(files, plan(files), sum(pq.read_metadata(f).num_rows for f in files), sums)


@dataclass(frozen=True, slots=True)
class Pass:
    """A mean pass over a table: seconds, and the counts of the server."""

    seconds: float
    seen: Seen


def measure(store: Store, name: str, run: readers.Reader, table: Table, repeats: int) -> Pass:
    """Return the mean of successive passes, after a pass whose results are checked.

    From its second pass on, fastload reads the beginning of the next one while one ends: two go
    before, so that as much is read ahead for the first one measured as behind the last.
    """
    start = time.perf_counter()
    checked(name, run(), table)
    if time.perf_counter() - start > _SLOW_S:
        repeats = 1
    else:
        run()
    store.seen(forget=True)
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    seconds = (time.perf_counter() - start) / repeats
    seen = store.seen()
    requests, size, opened = (n // repeats for n in (seen.requests, seen.bytes, seen.opened))
    return Pass(seconds, Seen(requests, size, opened, seen.rounds))


def checked(name: str, got: dict[str, int] | None, table: Table) -> None:
    """End the benchmark if a reader returned wrong sums; None = the reader drops the bytes."""
    if got is not None and got != table.sums:
        raise SystemExit(f"Expected the sums {table.sums}, got {got} - from {name}")


def compare_readers(store: Store, table: Table, some: Table, arguments: argparse.Namespace) -> None:
    """Print the table of readers.

    Args:
        store: the store.
        table: the files that all readers but LitData read.
        some: the files that LitData reads.
        arguments: arguments of the command line.
    """
    connections, repeats = arguments.connections, arguments.repeats
    print(f"{table.plan.bytes / 1e6:.1f} MB of columns, {len(table.plan.requests)} ranges")
    print(f"{'':32}{'seconds':>8}{'M rows/s':>9}{'requests':>9}{'opened':>7}", end="")
    print(f"{'bytes':>7}{'of ideal':>9}")
    drop = readers.Ideal(store, table.plan.requests, connections)
    ideal = measure(store, "ideal", drop, table, repeats)
    best = table.plan.bytes / ideal.seconds
    _line("ideal", ideal, table, 1.0)
    for transport in TRANSPORTS:
        with readers.fastload(store, transport, connections) as dataset:
            run = functools.partial(readers.sums, dataset)
            found = measure(store, transport, run, table, repeats)
        share = found.seen.bytes / found.seconds / best
        _line(f"fastload {transport}", found, table, share)
    for name, packages, make, read in (
        ("pyarrow.dataset, GcsFileSystem", (), readers.arrow_gcs, table),
        ("pyarrow.dataset, gcsfs", ("gcsfs",), readers.arrow_gcsfs, table),
        ("HF datasets, streaming", ("datasets", "gcsfs"), readers.huggingface, table),
        (
            f"LitData, {len(some.files)} of the files",
            ("litdata", "polars", "google-cloud-storage"),
            lambda store: readers.litdata(store, some.files[0].parent),
            some,
        ),
    ):
        if sentence := readers.missing(packages):
            print(f"{name:32}{sentence}")
            continue
        found = measure(store, name, make(store), read, repeats)
        _line(name, found, read, read.plan.bytes / found.seconds / best)


def _line(name: str, found: Pass, table: Table, share: float) -> None:
    seen = found.seen
    print(
        f"{name:32}{found.seconds:8.3f}{table.rows / found.seconds / 1e6:9.2f}{seen.requests:9}"
        f"{seen.opened:7}{seen.bytes / table.plan.bytes:7.3f}{share:9.3f}",
        flush=True,
    )


def count(store: Store, transport: str, table: Table, connections: int) -> list[Figure]:
    """Return requests and bytes of a first pass that reads nothing ahead."""
    with _nothing_kept(), readers.fastload(store, transport, connections) as dataset:
        store.seen(forget=True)
        checked(transport, readers.sums(dataset), table)
        seen = store.seen()
    planned = len(table.plan.requests)
    requests = {"requests": float(seen.requests), "planned": float(planned)}
    sizes = {"bytes": float(seen.bytes), "of_columns": float(table.plan.bytes)}
    return [
        Figure("plan", "requests", transport, seen.requests / planned, 1.2, True, requests),
        Figure("plan", "bytes", transport, seen.bytes / table.plan.bytes, 1.02, True, sizes),
    ]


def rounds(store: Store, transport: str, connections: int) -> list[Figure]:
    """Return the rounds of requests until a dataset is made and has yielded its first batch.

    The dataset has only one batch, because reading ahead for a next batch would count.
    """
    figures = []
    with _nothing_kept():
        for row, goal in (("rounds, cold", 3), ("rounds, again", 2)):
            store.seen(forget=True)
            start = time.perf_counter()
            with readers.fastload(store, transport, connections, limit=BATCH_SIZE) as dataset:
                next(iter(dataset))
                details = {"seconds": time.perf_counter() - start}
                found = store.seen().rounds
            figures.append(Figure("first batch", row, transport, found, goal, True, details))
    return figures


@contextlib.contextmanager
def _nothing_kept() -> Iterator[None]:
    """Hide cached footers of other runs inside a with block."""
    with (
        tempfile.TemporaryDirectory() as home,
        mock.patch.dict(os.environ, FASTLOAD_CACHE_DIR=home),
    ):
        yield


def thread(store: Store, transport: str, connections: int) -> Figure:
    """Return the share of its speed that the trainer's thread keeps while data is loaded."""
    with readers.fastload(store, transport, connections, threads=1) as dataset:
        paced = [sys.executable, str(_PACED), store.url, transport, str(connections)]
        kept = trainer_thread.compare(lambda: dataset, paced, store.pid, _THREAD_REPEATS)
    details = {
        "loops_per_s": kept.loading.loops_per_s,
        "beside_another_process_per_s": kept.elsewhere.loops_per_s,
        "waits_for_gil": kept.loading.gil_share,
        "waits_beside_another_process": kept.elsewhere.gil_share,
        "cpus_of_others": kept.loading.cpus,
        "cpus_beside_another_process": kept.elsewhere.cpus,
    }
    return Figure("thread", "trainer's thread", transport, kept.share, 0.9, False, details)


def _print_goal(figure: Figure) -> None:
    bound = "at most" if figure.most else "at least"
    verdict = "short" if figure.short else "reached"
    details = ", ".join(f"{name} {value:.9g}" for name, value in figure.details.items())
    print(
        f"{figure.row:18}{figure.mode:8}{figure.value:7.3f} {bound:8} {figure.goal:.2f}  "
        f"{verdict:9}{details}",
        flush=True,
    )


@contextlib.contextmanager
def click_log(arguments: argparse.Namespace) -> Iterator[Path]:
    """Yield the directory of the files; write the files unless the directory has some."""
    with contextlib.ExitStack() as stack:
        directory = arguments.directory
        if directory is None:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        directory.mkdir(parents=True, exist_ok=True)
        if not any(directory.iterdir()):
            write_click_log(directory, arguments.files, arguments.rows)
        yield directory


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=32)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--latency-ms", type=float, default=30.0)
    parser.add_argument("--host", default="127.0.0.1", help="the server's address")
    parser.add_argument("--within", default="", help="command that runs the server, if any")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--directory", type=Path, help="keeps the files for the next run")
    parser.add_argument("--litdata-files", type=int, default=1)
    arguments = parser.parse_args()
    readers.prepare()
    with click_log(arguments) as directory, tempfile.TemporaryDirectory() as first:
        files = sorted(directory.iterdir())
        for file in files[: arguments.litdata_files]:
            (Path(first) / file.name).symlink_to(file.resolve())
        table, some = Table.of(files), Table.of(sorted(Path(first).iterdir()))
        host, within = arguments.host, arguments.within.split()
        with serve(str(directory), arguments.latency_ms / 1000, host, within) as store:
            compare_readers(store, table, some, arguments)
            print()
            for transport in TRANSPORTS:
                for figure in count(store, transport, table, arguments.connections):
                    _print_goal(figure)
                if arguments.latency_ms:  # else requests of one round don't overlap
                    for figure in rounds(store, transport, arguments.connections):
                        _print_goal(figure)
                _print_goal(thread(store, transport, arguments.connections))


if __name__ == "__main__":
    main()
