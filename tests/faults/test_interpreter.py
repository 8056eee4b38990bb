"""The edges of Python itself: interpreters, copies, collections, names and tracebacks."""

import copy
import gc
import pickle
import subprocess
import sys
import sysconfig
import threading
import traceback

import pytest
import torch
from torch.utils.data import DataLoader

import fastload
from fastload import (
    IO,
    Batch,
    Cache,
    Codes,
    Column,
    DataWait,
    Delta,
    DevicePrefetcher,
    FastParquetDataset,
    Fixed,
    Hash,
    Iceberg,
    Image,
    Pack,
    Pad,
    Ragged,
    Stack,
    TokenBudget,
    kernel,
    mix,
    per_row,
)
from fastload.runtime.native import check_interpreter
from support.sample_files import ids_of, write_sample

ROWS = 1000


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("interpreter") / "sample.parquet", ROWS)


@pytest.fixture
def dataset(path):
    with FastParquetDataset(path, batch_size=100, shuffle=True, threads=2) as opened:
        yield opened


def test_a_subinterpreter_is_refused():
    script = """
try:
    import _interpreters
except ImportError:
    import _xxsubinterpreters as _interpreters
one = _interpreters.create()
try:
    error = _interpreters.run_string(one, "import fastload")
except Exception as raised:
    error = raised
print(error)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Expected the main interpreter, got a subinterpreter" in done.stdout + done.stderr


def test_a_python_without_the_lock_is_refused(monkeypatch):
    check_interpreter()
    monkeypatch.setattr(sysconfig, "get_config_var", {"Py_GIL_DISABLED": 1}.get)
    with pytest.raises(ImportError, match="got a free-threaded build"):
        check_interpreter()


COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda dataset: pickle.loads(pickle.dumps(dataset)),
}


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_stands_alone(path, dataset, how):
    """It goes on where the original is, and neither moves or closes the other."""
    with FastParquetDataset(path, batch_size=100, shuffle=True, threads=0) as plain:
        epochs = [ids_of(plain) for _ in range(3)]
    running = iter(dataset)
    first = ids_of([next(running)])
    with COPIES[how](dataset) as other:
        assert ids_of(other) == epochs[1]
        assert ids_of(other) == epochs[2]
        assert first + ids_of(running) == epochs[0]
    assert ids_of(dataset) == epochs[1]


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_of_a_mix_stands_alone(path, how):
    def mixed():
        sources = {name: FastParquetDataset(path, batch_size=50, shuffle=True) for name in "ab"}
        return mix(sources, weights={"a": 2, "b": 1})

    with mixed() as plain:
        epochs = [ids_of(plain) for _ in range(3)]
    with mixed() as original:
        running = iter(original)
        first = ids_of([next(running)])
        with COPIES[how](original) as other:
            assert ids_of(other) == epochs[1]
            assert ids_of(other) == epochs[2]
            assert first + ids_of(running) == epochs[0]
        assert ids_of(original) == epochs[1]


def test_collections_at_any_time(path):
    """Cycles of what a pass is made of are collected while it runs, in whatever thread."""
    thresholds = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    ended = threading.Event()

    def collect():
        while not ended.is_set():
            gc.collect()

    thread = threading.Thread(target=collect)
    thread.start()
    try:
        for threads in (0, 2):
            steps = [per_row(len, "name", "length", threads=1), lambda block: block]
            dataset = FastParquetDataset(path, batch_size=50, threads=threads, preprocess=steps)
            dataset._me = dataset
            kept = iter(dataset)
            dataset._running = kept
            assert len(ids_of(next(kept) for _ in range(3))) == 150
            del dataset, kept
        with FastParquetDataset(path, batch_size=50, threads=2) as dataset:
            assert ids_of(dataset) == list(range(ROWS))
    finally:
        ended.set()
        thread.join()
        gc.set_threshold(*thresholds)
    gc.collect()


def test_everything_public_has_a_name_of_its_own(path, dataset, tmp_path):
    @kernel(inputs=["price"], outputs={"twice": torch.float32})
    def twice(price, out):
        for i in range(len(price)):
            out[i] = 2 * price[i]

    def length(row):
        return len(row["name"])

    shown = [
        IO(), Cache(tmp_path), Column("a", fill=0), Stack(["a", "b"]), Pad("a", 3), Fixed("a", 3),
        Hash("a", 10), Codes("a", ["x", "y"]), Image("a", 8), dataset, dataset.schema,
        dataset.schema["id"], dataset.stats(), mix({"only": dataset}),
        DevicePrefetcher(DataLoader(dataset, batch_size=None), "cpu"),
        per_row(length, "name", "length"), twice, next(iter(dataset)), Batch({"a": torch.ones(1)}),
        Ragged(torch.arange(3), torch.tensor([0, 3])), iter(dataset),
        DataWait([]), Pack("a", 8), TokenBudget("a", 8), Delta("table"), Iceberg("a.b"),
    ]  # fmt: skip
    for item in shown:
        text = repr(item)
        assert " object at 0x" not in text, text
        assert len(text) < 2000, text
    named = {type(item).__name__ for item in shown}
    classes = {name for name in fastload.__all__ if isinstance(getattr(fastload, name), type)}
    classes.remove("kernel")  # a decorator
    raised = {name for name in classes if issubclass(getattr(fastload, name), Exception)}
    assert classes - raised <= named
    for name in sorted(raised):
        assert repr(getattr(fastload, name)("why")) == f"{name}('why')"


def of_the_user(batch, seeds=None):
    raise ZeroDivisionError("of the user")


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("argument", ["preprocess", "augment"])
def test_the_whole_traceback_of_a_callable(path, argument, workers):
    """The line that raised, and where in the run that was."""
    options = {argument: of_the_user, "batch_size": 100, "threads": 2}
    with FastParquetDataset(path, **options) as dataset:
        loader = DataLoader(dataset, batch_size=None, num_workers=workers)
        with pytest.raises(ZeroDivisionError) as caught:
            next(iter(loader))
    told = "".join(traceback.format_exception(caught.value))
    assert 'raise ZeroDivisionError("of the user")' in told
    assert "in of_the_user" in told
    if sys.version_info >= (3, 11):
        assert f"in {argument} step `of_the_user`" in told
        assert "after 0 batches of epoch 0" in told
