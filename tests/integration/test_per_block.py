"""per_block: functions that take the blocks of several batches at a time."""

import contextlib
import ctypes
import gc
import threading
import time
from functools import partial
from itertools import islice

import numba
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from fastload import Cache, CorruptFileError, FastParquetDataset, per_block, per_row
from fastload.testing import assert_resumes_exactly
from support.every_output import assert_same_outputs
from support.sample_files import ids_of, write_sample
from support.stepped_dataset import TIMEOUT_S, until, wait_for_decoding

ROWS = 500


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("blocks") / "a.parquet", ROWS, 70)


def dataset_of(path, preprocess, **options):
    options = {"batch_size": 40, "threads": 1, "memory_budget": "64MB", **options}
    return FastParquetDataset(path, preprocess=preprocess, **options)


def twice(block):
    time.sleep(0.002 * (block["id"][0] % 3))  # later blocks are done before earlier ones
    block["twice"] = 2 * block["id"]
    return {"price": block["price"] / 2}


def thrice(block):
    return {"thrice": block["twice"] + block["id"]}


STEPS = [
    per_block(twice, threads=2),
    per_row(str.upper, "name", "NAME", threads=2),
    per_block(thrice, threads=1),
]


def check(batches):
    for batch in batches:
        assert torch.equal(batch["twice"], 2 * batch["id"])
        assert torch.equal(batch["thrice"], 3 * batch["id"])
        assert batch["NAME"].tolist() == [f"ROW {k}" for k in batch["id"].tolist()]


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_come_in_order_and_whole(path, workers):
    with dataset_of(path, None) as dataset:
        loader = DataLoader(dataset, batch_size=None, num_workers=workers)
        expected = [batch.clone() for batch in loader]
    with dataset_of(path, STEPS) as dataset:
        loader = DataLoader(dataset, batch_size=None, num_workers=workers)
        for _epoch in range(2):
            batches = list(loader)
            assert [batch["id"].tolist() for batch in batches] == [
                batch["id"].tolist() for batch in expected
            ]
            for batch, whole in zip(batches, expected, strict=True):
                assert torch.equal(batch["price"], whole["price"] / 2)
            check(batches)
            assert list(batches[0]) == list(dataset.schema)


def test_runs_resume(path):
    make = partial(dataset_of, path, STEPS, shuffle=True, shuffle_window=100)
    assert_resumes_exactly(make, after=[1, 7])


usleep = ctypes.CDLL(None).usleep
usleep.argtypes, usleep.restype = [ctypes.c_uint], ctypes.c_int


@numba.njit(nogil=True)
def meets(state, own, other):
    """Without the interpreter's lock, until the other one is here too."""
    state[own] = 1
    for _ in range(1000 * TIMEOUT_S):
        if state[other]:
            return True
        usleep(1000)
    return False


def test_functions_of_numba_run_at_the_same_time(path, monkeypatch):
    wait_for_decoding(monkeypatch)
    state = np.zeros((7, 2), np.int8)
    turns = iter(range(14))

    def fn(block):
        pair, own = divmod(next(turns), 2)
        met = meets(state[pair], own, 1 - own)
        return {"met": np.full(len(block["id"]), met)}

    meets(np.ones(2, np.int8), 0, 1)  # compiled
    with dataset_of(path, per_block(fn, threads=2), batch_size=36) as dataset:
        assert all(batch["met"].all() for batch in dataset)


@pytest.mark.parametrize(("threads", "prefetch"), [(0, 4), (1, 4), (3, 4), (3, 2), (3, 0)])
def test_so_many_blocks_are_ahead_and_no_more(path, threads, prefetch, monkeypatch):
    wait_for_decoding(monkeypatch)
    called = []

    def fn(block):
        called.append((int(block["id"][0]), threading.get_ident()))
        return block

    step = per_block(fn, threads=threads)
    with dataset_of(path, step, prefetch=prefetch) as dataset:
        iterator = iter(dataset)
        first = next(iterator)
        next(iterator)
        most = 2 + min(threads, prefetch)
        until(lambda: len(called) >= most)
        time.sleep(0.05)
        assert sorted(row for row, _ in called) == [40 * k for k in range(most)]
        here = {thread for _, thread in called} == {threading.get_ident()}
        assert here == (not threads)
        assert first.rows == 40
        iterator.close()


def test_an_error_comes_in_its_turn(path):
    def fail(block):
        if 205 in block["id"]:
            raise KeyError("no such thing")
        return block

    with dataset_of(path, per_block(fail, threads=2)) as dataset:
        iterator = iter(dataset)
        assert ids_of(islice(iterator, 5)) == list(range(200))
        with pytest.raises(KeyError, match="no such thing") as caught:
            next(iterator)
        notes = getattr(caught.value, "__notes__", None)
        assert notes in (None, [f"in per_block step `{fail.__qualname__}`",
                                "after 5 batches of epoch 0"])  # fmt: skip
        with pytest.raises(RuntimeError, match="KeyError ended this pass"):
            next(iterator)
    for returned, match in (
        (lambda block: {"id": block["id"][1:]}, "Expected 40 rows in output `id` of per_block"),
        (lambda block: None, "to return the block or a mapping"),
    ):
        with (
            dataset_of(path, per_block(returned, threads=1)) as dataset,
            pytest.raises((ValueError, TypeError), match=match),
        ):
            next(iter(dataset))


def test_closing_does_not_wait_for_blocks_that_are_not_begun(path):
    begun, free, called = threading.Event(), threading.Event(), []

    def fn(block):
        called.append(block["id"][0])
        begun.set()
        assert free.wait(TIMEOUT_S)
        return block

    dataset = dataset_of(path, per_block(fn, threads=1))

    def consume():
        # A pass that is closed before it is asked for a batch is over.
        with contextlib.suppress(RuntimeError, CorruptFileError, StopIteration):
            next(iter(dataset))

    running = threading.Thread(target=consume)
    running.start()
    assert begun.wait(TIMEOUT_S)
    closing = threading.Thread(target=dataset.close)
    closing.start()
    running.join(0.1)
    free.set()
    for thread in (closing, running):
        thread.join(TIMEOUT_S)
        assert not thread.is_alive()
    gc.collect()
    assert called == [0]
    assert not [t for t in threading.enumerate() if t.name.startswith("fastload-steps")]


def test_a_key_of_the_cache_stands_for_one_function(path, tmp_path):
    def double(block):
        return {"y": 2 * block["id"]}

    def triple(block):
        return {"y": 3 * block["id"]}

    cache = Cache(tmp_path, key="1")
    for fn, factor in ((double, 2), (triple, 3)):
        with dataset_of(path, per_block(fn), cache=cache) as dataset:
            batch = next(iter(dataset))
            assert torch.equal(batch["y"], factor * batch["id"])


def test_prepared_rows_are_those_of_the_steps(path, tmp_path):
    with dataset_of(path, STEPS) as plain, dataset_of(path, STEPS, cache=tmp_path) as kept:
        for _ in range(2):
            assert_same_outputs(kept, plain)


def test_what_is_no_step_is_refused(path):
    for arguments, error, match in (
        ((3,), TypeError, "fn of per_block to be callable, got 3"),
        ((twice, 1.5), TypeError, "threads of per_block as int, got 1.5"),
        ((twice, -1), ValueError, "threads of per_block to be at least 0, got -1"),
    ):
        with pytest.raises(error, match=match):
            per_block(*arguments)
    for preprocess, augment, how in (
        (meets, None, "preprocess as fn"),
        (per_block(meets), None, "per_block as fn"),
        (None, meets, "augment as fn"),
    ):
        match = rf"a function of Python for {how}.*got `meets`, .*by fastload.kernel\("
        with pytest.raises(TypeError, match=match):
            dataset_of(path, preprocess, augment=augment)
    with pytest.raises(TypeError, match=r"fn\(batch, seeds\) in augment, got per_block\(twice\)"):
        dataset_of(path, None, augment=per_block(twice))
