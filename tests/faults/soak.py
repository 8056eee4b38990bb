"""One question: does anything grow over hundreds of epochs?

    python tests/faults/soak.py [--epochs 500] [--seconds 600]

Epochs of one process take turns: whole ones, abandoned ones, ones out of order, ones resumed in
the middle, ones read by workers that live on, by workers of one epoch, and through a cache too
small for what is read. After each, what malloc has given out, resident memory, file descriptors,
threads, shared memory and worker processes are counted. Prints them, and the line fitted through
those after the first third; exits with 1 where that line climbs by more than it may until the end
of the run.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import itertools
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from torch.utils.data import DataLoader

from fastload import IO, Cache, FastParquetDataset

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from support.stored_dataset import served

FILES, GROUPS, GROUP_ROWS = 3, 4, 4000
ROWS = FILES * GROUPS * GROUP_ROWS
# By what the fitted line may climb in a run. A leak is what malloc has given out; no leak of a
# batch (150 KB) in every tenth epoch would stay below that. Resident memory climbs besides for
# hundreds of epochs, as threads come and go and each fills another of malloc's arenas.
MOST_GROWTH = {
    "in use MB": 2.0,
    "resident MB": 40.0,
    "descriptors": 0.5,
    "threads": 0.5,
    "shared MB": 0.5,
    "children": 0.5,
}


def write_files(directory):
    random = np.random.default_rng(0)
    paths = []
    for number in range(FILES):
        first = number * GROUPS * GROUP_ROWS
        rows = GROUPS * GROUP_ROWS
        table = pa.table(
            {
                "id": np.arange(first, first + rows),
                "price": random.random(rows),
                "text": [f"row {k}" for k in random.integers(0, 10**6, rows)],
                "items": [[k] * (k % 4) for k in random.integers(0, 99, rows)],
            }
        )
        paths.append(directory / f"part-{number}.parquet")
        pq.write_table(table, paths[-1], row_group_size=GROUP_ROWS)
    return paths


class MallocInfo(ctypes.Structure):
    """What mallinfo2 returns, over all arenas."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd",
            "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    )  # fmt: skip


LIBC = ctypes.CDLL(None)
LIBC.mallinfo2.restype = MallocInfo


def counted():
    """What this process holds now."""
    gc.collect()
    status = dict(
        line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines()
    )
    shared, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().split("\n"):
        if line.startswith("Rss:"):
            shared += int(line.split()[1]) * inside
        elif "-" in line.split(" ", 1)[0]:
            inside = "memfd:" in line or "/dev/shm/" in line
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    malloc = LIBC.mallinfo2()
    return {
        "in use MB": (malloc.uordblks + malloc.hblkhd) / (1 << 20),
        "resident MB": int(status["VmRSS"].split()[0]) / 1024,
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": int(status["Threads"]),
        "shared MB": shared / 1024,
        "children": len(children),
    }


class Epochs:
    """The kinds of epochs, each of which reads what it should."""

    def __init__(self, paths, server, cache):
        self._paths = paths
        self._number = 0
        self._local = self._dataset(paths)
        self._stays = self._dataset(paths)
        self._loader = DataLoader(
            self._stays, batch_size=None, num_workers=2, persistent_workers=True
        )
        self._remote = self._dataset(
            "gs://bucket/train/*.parquet",
            storage_options=server.options,
            io=IO(transport="fsspec", timeout_s=10),
            cache=Cache(cache, max_bytes=200 << 10),
        )
        self.kinds = {
            "whole": self.whole,
            "abandoned": self.abandoned,
            "out of order": self.out_of_order,
            "resumed": self.resumed,
            "workers that live on": self.workers_that_live_on,
            "workers of one epoch": self.workers_of_one_epoch,
            "abandoned workers": self.abandoned_workers,
            "through a cache": self.through_a_cache,
            "a dataset of its own": self.a_dataset_of_its_own,
        }

    @staticmethod
    def _dataset(source, **options):
        return FastParquetDataset(
            source, batch_size=500, shuffle=True, shuffle_window=6000, threads=2,
            memory_budget="64MB", **options,
        )  # fmt: skip

    def close(self):
        for dataset in (self._local, self._remote, self._stays):
            dataset.close()
        del self._loader

    @staticmethod
    def _check(batches):
        rows = np.concatenate([batch["id"].numpy() for batch in batches])
        assert (np.sort(rows) == np.arange(ROWS)).all(), "not every row once"

    def whole(self):
        self._check(self._local)

    def abandoned(self):
        for taken in (1, 7, 40):
            assert len(list(itertools.islice(self._local, taken))) == taken

    def out_of_order(self):
        self._number += 1
        self._local.set_epoch(self._number * 7919 % 1000)
        self._check(self._local)

    def resumed(self):
        first = list(itertools.islice(self._local, 30))
        self._local.load_state_dict(self._local.state_dict())
        self._check([*first, *self._local])

    def workers_that_live_on(self):
        self._check(self._loader)

    def workers_of_one_epoch(self):
        self._check(DataLoader(self._local, batch_size=None, num_workers=2))

    def abandoned_workers(self):
        batches = iter(DataLoader(self._local, batch_size=None, num_workers=1))
        next(batches)
        del batches

    def through_a_cache(self):
        self._check(self._remote)

    def a_dataset_of_its_own(self):
        with self._dataset(self._paths) as dataset:
            self._check(dataset)


def fitted(values):
    """By how much the line of least squares climbs from the first to the last."""
    if len(values) < 2:
        return 0.0
    slope = np.polynomial.polynomial.polyfit(np.arange(len(values)), values, 1)[1]
    return float(slope * (len(values) - 1))


def run(directory, epochs, seconds):
    """Returns what was counted after each epoch."""
    paths = write_files(directory)
    os.environ["FASTLOAD_CACHE_DIR"] = str(directory / "home")
    ended = time.monotonic() + seconds
    counts = []
    with served(paths) as server, warnings.catch_warnings():
        # This process has the server's threads; neither they nor torch's are used by workers.
        warnings.filterwarnings("ignore", ".*multi-threaded.*fork", DeprecationWarning)
        kinds = Epochs(paths, server, directory / "cache")
        for kind in itertools.cycle(kinds.kinds.values()):
            if len(counts) == epochs or time.monotonic() > ended:
                break
            kind()
            server.requests.clear()
            counts.append(counted())
        kinds.close()
    return counts


def report(counts):
    """Prints a line for each quantity; returns whether all are flat."""
    kinds = 9
    flat = True
    steady = counts[len(counts) // 3 :]
    print(
        f"{len(counts)} epochs\n{'':14}{'first':>9}{'third':>9}{'last':>9}{'climbs':>9}{'may':>7}"
    )
    for name, most in MOST_GROWTH.items():
        values = [count[name] for count in steady]
        # Kinds differ in what they hold: whole turns are compared.
        turns = [np.median(values[i : i + kinds]) for i in range(0, len(values) - kinds + 1, kinds)]
        climbs = fitted(turns)
        flat = flat and climbs <= most
        first = counts[0][name]
        print(f"{name:14}{first:9.1f}{values[0]:9.1f}{values[-1]:9.1f}{climbs:9.2f}{most:7.1f}")
    return flat


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        flat = report(run(Path(directory), options.epochs, options.seconds))
    print("flat" if flat else "something grows")
    sys.exit(not flat)


if __name__ == "__main__":
    main()
