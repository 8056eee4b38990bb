"""A consumer that catches an error and goes on loses no row, and none comes twice."""

import ctypes
import signal
import sys
import threading
import time
import warnings
from operator import methodcaller

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastload import FastParquetDataset, mix
from fastload.batch.assembler import Assembler
from fastload.batch.pinned_memory import PinnedMemory
from fastload.dataset.passes.feed import Feed
from fastload.engine.engine import Engine
from fastload.plan.mix import mix_plan
from support.sample_files import ids_of, write_sample

ROWS = 20_000
LARGE = 500_000


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("interrupted") / "sample.parquet", ROWS, 1000)


def failing(monkeypatch, owner, name, number, error):
    """Let call `number` of a function of a class or module raise an error."""
    method, calls = getattr(owner, name), []

    def called(*arguments, **options):
        calls.append(name)
        if len(calls) == number:
            raise error
        return method(*arguments, **options)

    monkeypatch.setattr(owner, name, called)


def next_with_ctrl_c(scan):
    """Ask a scan for a batch that is ready, with a signal that Python has not looked at yet."""
    while not scan.ready:
        time.sleep(0.001)
    # Both are called from C: between two lines of Python, Python would look at the signal.
    calls = (ctypes.pythonapi.PyErr_SetInterrupt, scan.next)
    return list(map(methodcaller("__call__"), calls))[-1]


@pytest.fixture
def ctrl_c(monkeypatch):
    """Return a function that lets Ctrl-C come together with batch `number`, and returns a list.

    The list has each scan that was interrupted.
    """

    def at(number):
        next_of, calls, scans = Engine.next_of, [], []

        def called(engine, scan):
            calls.append(scan)
            if len(calls) != number:
                return next_of(engine, scan)
            scans.append(scan)
            return next_with_ctrl_c(scan)

        monkeypatch.setattr(Engine, "next_of", called)
        return scans

    return at


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    path = tmp_path_factory.mktemp("interrupted") / "large.parquet"
    numbers = np.arange(LARGE)
    pq.write_table(pa.table({"id": numbers, "x": numbers.astype("f4")}), path)
    return path


def test_a_warning_as_an_error_loses_no_batch(large):
    options = {"memory_budget": "6MB", "threads": 1, "prefetch": 0}
    with FastParquetDataset(large, batch_size=1000, **options) as dataset:
        running, kept, raised = iter(dataset), [], 0
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            while True:
                try:
                    kept.append(next(running))
                except UserWarning:
                    raised += 1
                except StopIteration:
                    break
        assert raised == 1
        assert ids_of(kept) == list(range(LARGE))


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("number", [1, 7, 20])
def test_ctrl_c_together_with_a_batch_loses_no_batch(path, ctrl_c, number, shuffle):
    options = {"batch_size": ROWS // 20, "shuffle": shuffle, "shuffle_window": ROWS // 5}
    with FastParquetDataset(path, **options) as dataset:
        whole = ids_of(dataset)
        dataset.set_epoch(0)
        scans = ctrl_c(number)
        running = iter(dataset)
        got = [next(running) for _ in range(number - 1)]
        with pytest.raises(KeyboardInterrupt):
            next(running)
        assert scans[0].ready
        assert not scans[0].waits
        got += running
        assert ids_of(got) == whole


@pytest.mark.parametrize("by_thread", [False, True])
def test_a_batch_that_comes_with_ctrl_c_is_freed_when_the_dataset_is_closed(
    path, ctrl_c, by_thread
):
    """A handler of Ctrl-C closes the dataset while next() looks at the signal."""
    with FastParquetDataset(path, batch_size=100) as dataset:
        scans = ctrl_c(1)
        running = iter(dataset)
        pipeline = dataset._engine.pipeline

        def closes(*_):
            if by_thread:
                closing = threading.Thread(target=dataset.close)
                closing.start()
                closing.join()
            dataset.close()
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGINT, closes)
        try:
            with pytest.raises(KeyboardInterrupt):
                next(running)
        finally:
            signal.signal(signal.SIGINT, before)
        assert not scans[0].ready
        assert pipeline.lent_bytes == 0
        with pytest.raises(RuntimeError, match="closed"):
            scans[0].next()


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_a_pass_that_fails_to_begin_is_begun_again(path, monkeypatch, error):
    with FastParquetDataset(path, batch_size=100) as dataset:
        running = iter(dataset)
        next(running)
        state = dataset.state_dict()
        dataset.load_state_dict(state)
        failing(monkeypatch, Feed, "__init__", 1, error)
        with pytest.raises(error):
            iter(dataset)
        assert dataset.state_dict() == state
        assert ids_of(dataset) == list(range(100, ROWS))


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize(
    ("owner", "name", "number"),
    [(Feed, "__init__", 3), (mix_plan, "SourceShare", 4)],
)
def test_a_mix_leaves_out_no_repetition(path, tmp_path, monkeypatch, owner, name, number, error):
    few = write_sample(tmp_path / "few.parquet", 1000, 100)

    def mixed():
        options = {"batch_size": 100, "shuffle": True, "shuffle_window": 500}
        sources = {name: FastParquetDataset(p, **options) for name, p in (("a", few), ("b", path))}
        return mix(sources, weights=[1, 1], stop="repeat")

    with mixed() as dataset:
        whole = [batch["id"].tolist() for batch in dataset]
    with mixed() as dataset:
        running, got = iter(dataset), []
        failing(monkeypatch, owner, name, number, error)
        while True:
            try:
                got.append(next(running)["id"].tolist())
            except error:
                continue
            except StopIteration:
                break
    assert got == whole


def _step(block):
    return block


# A step that Ctrl-C ends is not called again: an error is raised in place of its batch.
_STEPPED = ("_take", "next", "_next", "__next__", "_mark_after")


def opened(kind, path, other):
    options = {"batch_size": 100, "threads": 0, "columns": ["id"]}
    if kind == "mix":
        options["provenance"] = True
        sources = {
            name: FastParquetDataset(p, **options) for name, p in (("a", path), ("b", other))
        }
        return mix(sources, weights=[1, 1], stop="all")
    extra = {
        "skip": {"on_error": "skip"},
        "steps": {"preprocess": _step},
        "pinned": {"pin_memory": True},
        "nested": {"columns": ["id", "name"]},
    }
    return FastParquetDataset(path, **{**options, **extra.get(kind, {})})


def taken_with_an_interrupt(dataset, number, names):
    """Return the ids of a pass, and True if Ctrl-C came in step `number` of the second next().

    A step is a place where Python looks at signals: the start of a function of fastload, or the
    end of a call of a C function.
    """
    running, seen = iter(dataset), 0
    got = [next(running)]

    def look(frame, event, argument):
        nonlocal seen
        code = frame.f_code
        if event not in ("call", "c_return") or "fastload/" not in code.co_filename:
            return
        if names and code.co_name not in names:
            return
        # The core looks at signals itself before it lends a batch.
        if event == "c_return" and argument.__name__ == "next" and code.co_name == "next_of":
            return
        seen += 1
        if seen == number:
            raise KeyboardInterrupt

    interrupted, before = False, sys.getprofile()
    sys.setprofile(look)
    try:
        following = next(running)
    except KeyboardInterrupt:
        interrupted = True
    else:
        got.append(following)
    finally:
        sys.setprofile(before)
    got += running
    return [row for one in got for row in one["id"].reshape(-1).tolist()], interrupted


@pytest.mark.filterwarnings("ignore:Expected .* bytes of pinned memory")
@pytest.mark.parametrize("kind", ["plain", "nested", "rows", "skip", "steps", "pinned", "mix"])
def test_ctrl_c_anywhere_in_next_loses_no_batch(tmp_path, kind):
    path = write_sample(tmp_path / "sample.parquet", 500, 100)
    other = write_sample(tmp_path / "other.parquet", 300, 100)
    names = _STEPPED if kind == "steps" else ()
    with opened(kind, path, other) as dataset:
        whole = [row for one in dataset for row in one["id"].reshape(-1).tolist()]
        number, interrupted = 0, True
        while interrupted:
            number += 1
            dataset.set_epoch(0)
            got, interrupted = taken_with_an_interrupt(dataset, number, names)
            assert got == whole, number
    assert number > (2 if kind == "rows" else 5)


@pytest.mark.filterwarnings("ignore:Expected .* bytes of pinned memory")
@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_ctrl_c_while_memory_is_allocated_is_raised_and_loses_no_batch(path, monkeypatch, number):
    failing(monkeypatch, PinnedMemory, "__call__", number, KeyboardInterrupt)
    got, raised = [], 0
    with FastParquetDataset(path, batch_size=1000, threads=0, pin_memory=True) as dataset:
        running = iter(dataset)
        while True:
            try:
                got.append(next(running))
            except KeyboardInterrupt:
                raised += 1
            except StopIteration:
                break
        assert raised == 1
        assert ids_of(got) == list(range(ROWS))


@pytest.mark.parametrize("stage", ["preprocess", "augment"])
def test_ctrl_c_in_a_step_is_raised_once_and_ends_the_pass(path, stage):
    calls = []

    def step(values, seeds=None):  # augment gives seeds
        calls.append(True)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return values

    with FastParquetDataset(path, batch_size=1000, threads=0, **{stage: step}) as dataset:
        running = iter(dataset)
        got = [next(running), next(running)]
        with pytest.raises(KeyboardInterrupt):
            next(running)
        for _ in range(2):
            with pytest.raises(RuntimeError, match=r"KeyboardInterrupt in a step ended this pass"):
                next(running)
        dataset.load_state_dict(dataset.state_dict())
        got += dataset
        assert ids_of(got) == list(range(ROWS))


def test_an_error_while_the_tensors_are_made_loses_no_batch(path, monkeypatch):
    with FastParquetDataset(path, batch_size=1000) as dataset:
        running = iter(dataset)
        got = [next(running)]
        failing(monkeypatch, Assembler, "__call__", 1, MemoryError)
        with pytest.raises(MemoryError):
            next(running)
        got += running
        assert ids_of(got) == list(range(ROWS))


def test_a_batch_whose_tensors_were_not_made_is_freed_when_the_dataset_is_closed(path, monkeypatch):
    with FastParquetDataset(path, batch_size=1000) as dataset:
        running = iter(dataset)
        pipeline = dataset._engines.of_process(1).pipeline
        failing(monkeypatch, Assembler, "__call__", 1, KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt):
            next(running)
        assert pipeline.lent_bytes > 0
        dataset.close()
        assert pipeline.lent_bytes == 0
