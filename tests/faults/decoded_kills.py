"""Fills and evicts a small cache of blocks in several processes, which are killed again and again.

    python tests/faults/decoded_kills.py [--kills 200] [--processes 3]

What a process reads of the cache it compares with what the rows should be. At the end all blocks
that are left are compared with their checksums, and whatever the killed ones held is taken over.
"""

import os
import random
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fastload import Cache, FastParquetDataset
from fastload.engine.cache.entry_writer import EntryWriter
from fastload.engine.cache.store import BlockStore
from fastload.runtime._core import check_block
from fastload.runtime.disk.cache import DECODED
from fastload.runtime.disk.entries import entries_of, used_bytes
from killing import kill_again_and_again, run_command

ROWS = 64_000
GROUP_ROWS = 4_000
VARIANTS = 4
# One variant's blocks and a half: they make room for each other.
MOST_BYTES = int(1.5 * ROWS * 24)


def steps_of(variant):
    def step(block):
        wide = "float64" if variant % 2 else "int64"
        return {"y": block["i"] * (variant + 2), "s": block["i"].astype(wide)}

    return step


def fill(path, cache, wrong, seed):
    """Until it is killed."""
    warnings.simplefilter("ignore")
    choice = random.Random(seed)
    while True:
        variant = choice.randrange(VARIANTS)
        shuffle = bool(choice.randrange(2))
        with FastParquetDataset(
            path, preprocess=steps_of(variant), cache=cache, shuffle=shuffle,
            shuffle_window=10_000, batch_size=1000, threads=2, seed=seed,
        ) as dataset:  # fmt: skip
            for _ in range(2):
                total = 0
                for batch in dataset:
                    i = batch["i"]
                    total += int(i.sum())
                    if not ((batch["y"] == i * (variant + 2)).all() and (batch["s"] == i).all()):
                        (wrong / f"{os.getpid()}").write_text(f"{variant}: other values")
                if total != ROWS * (ROWS - 1) // 2:
                    (wrong / f"{os.getpid()}").write_text(f"{variant}: {total}")


def run(directory, kills, processes):
    """Returns how many blocks were left."""
    directory = Path(directory)
    path = directory / "a.parquet"
    pq.write_table(pa.table({"i": np.arange(ROWS)}), path, row_group_size=GROUP_ROWS)
    cache = Cache(directory / "cache", max_bytes=MOST_BYTES)
    fills = partial(fill, path, cache)
    kill_again_and_again(fills, directory / "wrong", kills, processes, (0.01, 0.15))
    return check(cache)


def check(cache):
    directory = cache.path / DECODED
    entries = list(entries_of(directory))
    for entry in entries:
        assert check_block(entry.path, f"{entry.object}/{entry.name}")
    assert used_bytes(directory) <= MOST_BYTES
    store = BlockStore(cache)
    for part in directory.rglob(".*.part"):
        name = str(part.relative_to(directory).with_name(part.name[1 : -len(".part")]))
        if not store.touch_if_exists(name):
            lock = EntryWriter.lock(store, name)
            assert lock is not None, "what a killed process held is not given up"
            with lock:
                pass
    return len(entries)


if __name__ == "__main__":
    run_command(run, "blocks")
