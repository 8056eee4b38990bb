"""One question: what do many files cost before the first batch, in seconds and in memory?

    python benchmarks/bench_scale.py [--files N,N,...] [--row-groups N] [--columns N] [--read N]

A simulated store lists N objects, all the same real file of `--row-groups` row groups of 100 rows
of `--columns` columns, of which `--read` are read, and answers at once. Everything else is
fastload's own code, as a user calls it, with each size in a process of its own. `cold` makes a
dataset (shuffled, the middle rank of `--world` ranks) that reads and keeps all footers; `warm`
makes a dataset that finds the kept footers. Then come len(), state_dict(), the plan of the epoch
and the first batch. Memory is the peak of resident memory of the whole process so far, torch and
the store's file included. `network` is the time that a store and a network add to `cold`, footers /
concurrency x latency, for 30 ms and 64 requests in flight. The rows of the first batch, and the
number of batches, are checked.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_GROUP_ROWS = 100
_BAR = 40


class SimulatedFileSystem(fsspec.AbstractFileSystem):
    """A filesystem of `files` objects with the same bytes."""

    protocol = "simulated"
    files = 0
    data = b""

    def find(self, *_: Any, **__: Any) -> dict[str, dict[str, Any]]:
        """Return all objects."""
        size, name = len(self.data), "part-{:06}.parquet".format
        paths = (f"bucket/train/{name(i)}" for i in range(self.files))
        return {p: {"name": p, "size": size, "type": "file", "mtime": 1} for p in paths}

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Return the info of an object or of the directory."""
        if path.endswith(".parquet"):
            return {"name": path, "size": len(self.data), "type": "file", "mtime": 1}
        return {"name": path, "size": 0, "type": "directory"}

    def cat_file(self, path: str, start: int, end: int, **_: Any) -> bytes:  # noqa: ARG002
        """Return a range of an object."""
        return self.data[start:end]


def one_file(row_groups: int, wide: int) -> tuple[bytes, pa.Table]:
    """Return the bytes of a Parquet file of `wide` columns, and its table."""
    rng = np.random.default_rng(0)
    rows = row_groups * _GROUP_ROWS
    columns: dict[str, Any] = {
        "label": rng.integers(0, 2, rows).astype(np.int8),
        "price": rng.normal(size=rows),
        "user": rng.integers(0, 1 << 40, rows),
    }
    table = pa.table(columns | {f"c{i}": columns["price"].astype("f4") for i in range(3, wide)})
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=_GROUP_ROWS)
    return sink.getvalue(), table


def peak_bytes() -> int:
    """Return the largest resident memory of this process so far."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def measure(
    files: int, row_groups: int, wide: int, read: int, world: int, start: str
) -> dict[str, float]:
    """Return the seconds of each step by name, and the peak of memory."""
    from fastload import FastParquetDataset

    fsspec.register_implementation("simulated", SimulatedFileSystem)
    SimulatedFileSystem.files = files
    SimulatedFileSystem.data, table = one_file(row_groups, wide)
    users = set(table["user"].to_pylist())
    found: dict[str, float] = {"base": peak_bytes() / 1e6}

    def timed(name: str, work: Any) -> Any:
        begin = time.perf_counter()
        result = work()
        found[name] = time.perf_counter() - begin
        return result

    def make() -> FastParquetDataset:
        return FastParquetDataset(
            "simulated://bucket/train/",
            columns=["label", "user", *(f"c{3 + i}" for i in range(read - 2))],
            shuffle=True,
            rank=world // 2,
            world_size=world,
            batch_size=4096,
            threads=2,
        )

    dataset = timed(start, make)
    batches = timed("len", lambda: len(dataset))
    expected = files * row_groups * _GROUP_ROWS
    assert abs(batches * 4096 * world - expected) < 2 * 4096 * world
    state = timed("state", lambda: json.dumps(dataset.state_dict()))
    found["state_bytes"] = len(state)
    iterator = timed("plan", lambda: iter(dataset))
    found["planned"] = peak_bytes() / 1e6
    batch = timed("batch", lambda: next(iterator))
    assert set(batch["user"].tolist()) <= users
    found["peak"] = peak_bytes() / 1e6
    dataset.close()
    return found


def _run(*what: int | str, home: str) -> dict[str, float]:
    command = [sys.executable, __file__, "--one", json.dumps(what)]
    environment = {**os.environ, "FASTLOAD_CACHE_DIR": home}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)  # noqa: S603 - our own
    result: dict[str, float] = json.loads(done.stdout)
    return result


def main() -> None:
    """Print the table and the plot."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", default="1000,10000,100000")
    parser.add_argument("--row-groups", type=int, default=100)
    parser.add_argument("--columns", type=int, default=3)
    parser.add_argument("--read", type=int, default=2)
    parser.add_argument("--world", type=int, default=8)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(*json.loads(arguments.one))))
        return
    groups, wide, world = arguments.row_groups, arguments.columns, arguments.world
    print(
        f"{groups} row groups of {wide} columns a file, {arguments.read} read, "
        f"rank {world // 2} of {world}, shuffled; seconds and MB"
    )
    names = ["cold", "network", "MB", "warm", "len", "state B", "plan", "MB", "batch", "MB"]
    print(f"{'files':>8}" + "".join(f"{name:>9}" for name in names))
    bars = []
    for files in map(int, arguments.files.split(",")):
        with tempfile.TemporaryDirectory() as home:
            what = (files, groups, wide, arguments.read, world)
            cold = _run(*what, "cold", home=home)
            warm = _run(*what, "warm", home=home)
        network = files / 64 * 0.03
        print(
            f"{files:8}{cold['cold']:9.2f}{network:9.1f}{cold['planned']:9.0f}{warm['warm']:9.2f}"
            f"{warm['len']:9.3f}{warm['state_bytes']:9.0f}{warm['plan']:9.2f}"
            f"{warm['planned']:9.0f}{warm['batch']:9.2f}{warm['peak']:9.0f}",
            flush=True,
        )
        ready = warm["warm"] + warm["len"] + warm["state"] + warm["plan"]
        bars.append((files, ready, warm["planned"] - warm["base"]))
    for title, column, unit in (("warm to planned", 1, "s"), ("memory above torch's", 2, "MB")):
        print(f"\n{title}")
        most = max(bar[column] for bar in bars)
        for bar in bars:
            drawn = "#" * max(1, round(_BAR * bar[column] / max(most, 1e-9)))
            print(f"{bar[0]:8} {drawn} {bar[column]:.1f} {unit}")


if __name__ == "__main__":
    main()
