"""Prepares and evicts rows in several processes, which are killed again and again.

    python tests/faults/prepared_kills.py [--kills 200] [--processes 3]

The cache holds a part of what the processes ask for. What a process reads it compares with what the
rows should be. At the end all that is left is whole, the sum of bytes is looked at, and whatever
the killed ones held is taken over.
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
from fastload.plan import parts as plan_parts
from fastload.runtime.disk.cache import PREPARED
from fastload.runtime.disk.entries import used_bytes
from fastload.runtime.disk.entry_file import EntryFile
from fastload.tools.cli.cache_report import verify
from killing import kill_again_and_again, run_command

ROWS = 64_000
GROUP_ROWS = 4_000
VARIANTS = 4
# The rows of one variant and a half: they make room for each other.
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
    """Returns how many parts were left."""
    plan_parts._PART_BYTES = ROWS  # of each row group a part
    directory = Path(directory)
    path = directory / "a.parquet"
    pq.write_table(pa.table({"i": np.arange(ROWS)}), path, row_group_size=GROUP_ROWS)
    cache = Cache(directory / "cache", max_bytes=MOST_BYTES)
    fills = partial(fill, path, cache)
    kill_again_and_again(fills, directory / "wrong", kills, processes, (0.01, 0.15))
    return check(cache)


def check(cache):
    directory = cache.path / PREPARED
    assert used_bytes(directory) <= MOST_BYTES
    found = verify(cache, progress=False)
    assert not found["damaged"], found
    for part in directory.rglob(".*.part"):
        path = part.with_name(part.name[1 : -len(".part")])
        claim = EntryFile.claim(str(path))
        assert claim is not None or path.exists(), "what a killed process held is not given up"
        if claim is not None:
            claim.close()
    return found["checked"]


if __name__ == "__main__":
    run_command(run, "parts")
