"""A dataset with steps of preprocess= and augment=, and the expected batches."""

import gc
import threading
import time

import numpy as np
import torch

from fastload import FastParquetDataset, per_row
from fastload.dataset.passes.feed import Feed
from fastload.plan.permutation import stream_key

ROWS = 500
TIMEOUT_S = 60


def until(condition):
    """Waits until a condition holds; fails if it does not come to hold."""
    end = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def wait_for_decoding(monkeypatch):
    """Has steps find the next batch decoded each time that they look ahead.

    Steps begin the next batch only if the batch is decoded; on a busy machine it may not be.
    """

    def ready(feed):
        until(lambda: not feed._scan.waits)
        return room.fget(feed)

    room = Feed.ready
    monkeypatch.setattr(Feed, "ready", property(ready))


def dataset_of(path, preprocess=None, augment=None, **options):
    options = {"batch_size": 40, "threads": 1, "memory_budget": "64MB", **options}
    return FastParquetDataset(path, preprocess=preprocess, augment=augment, **options)


def twice(block):
    """Add, replace and remove outputs."""
    block["twice"] = 2 * block["id"]
    del block["label"]
    return {"price": block["price"].astype(np.float64)}


def describe(name, number):
    return name.upper(), [number] * (number % 3)


DESCRIBE = per_row(describe, ["name", "id"], {"NAME": None, "list": "ragged"}, threads=2)
STEPS = [twice, DESCRIBE]


def draw(batch, seeds):
    batch["noise"] = (seeds >> np.uint64(11)) * 2.0**-53
    return {"seed": seeds}


def check(batch, seed=0, epoch=0):
    """Check that a batch holds the results of STEPS and `draw` on rows of the sample file."""
    ids = batch["id"].tolist()
    names = [f"row {k}" for k in ids]
    assert batch["twice"].tolist() == [2 * k for k in ids]
    assert batch["price"].dtype == torch.float64
    assert batch["name"].tolist() == names
    assert batch["NAME"].tolist() == [name.upper() for name in names]
    assert batch["list"].tolist() == [[k] * (k % 3) for k in ids]
    seeds = [stream_key(seed, epoch, 3, 0, 0, k) for k in ids]
    assert batch["seed"].numpy().tolist() == seeds
    assert batch["noise"].tolist() == [(s >> 11) * 2.0**-53 for s in seeds]


def threads_of_steps():
    gc.collect()  # those of datasets that other tests have dropped
    return [one for one in threading.enumerate() if one.name.startswith("fastload-steps")]
