"""Settings that every test shares."""

import gc
import multiprocessing
import os
import sys
from itertools import chain, groupby
from pathlib import Path

import pytest

from support.data_files import DIRECTORY, VARIABLE

# Or each worker of a fork server imports torch, for more than a second.
multiprocessing.set_forkserver_preload(["__main__", "torch", "fastload"])


# In the programs that tests start, too: Python 3.12 and later warn of a fork beside threads.
_FORKS = "ignore:This process:DeprecationWarning"
os.environ["PYTHONWARNINGS"] = ",".join(filter(None, [os.environ.get("PYTHONWARNINGS"), _FORKS]))

# xdist sets this in its workers. Commands that print to a pipe then wrap their sentences.
os.environ.pop("COLUMNS", None)

# Files in these directories hold short tests, but for those of the tools.
SHORT = ("conformance", "documentation", "unit")


def pytest_collection_modifyitems(items):
    """Deal the files so that each worker begins with long tests and ends with short ones.

    Each worker gets an equal part of the list, and takes tests from other workers at the end.
    """
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    shares, short = [[] for _ in range(workers)], []
    files = groupby(items, key=lambda item: item.path)
    for path, tests in files:
        _, *folders, _ = path.relative_to(Path(__file__).parent.parent).parts
        if folders[0] in SHORT and "tools" not in folders:
            short += tests
        else:
            min(shares, key=len).extend(tests)
    size = -(-len(items) // workers)
    for share in shares:
        room = max(0, size - len(share))
        share += short[:room]
        del short[:room]
    items[:] = chain.from_iterable([*shares, short])


def pytest_collection_finish():
    """Freeze the collected tests, so that the garbage collector skips them, in forks too."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish():
    """Unfreeze the tests, so that the interpreter frees them at its end."""
    gc.unfreeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Skip a test marked `cuda` where there is no CUDA device."""
    if item.get_closest_marker("cuda") is None:
        return
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")


@pytest.fixture
def often_switched():
    """Let threads of Python take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The directory of Parquet files from other writers; tests/README.md lists them."""
    if (DIRECTORY / "real").is_dir():
        return DIRECTORY
    advice = (
        f"no Parquet files at {DIRECTORY}: set {VARIABLE} to a directory with the files that "
        "tests/README.md lists"
    )
    if os.environ.get("CI") == "true":
        pytest.fail(f"{advice} (CI runs every test)")
    pytest.skip(advice)


@pytest.fixture(autouse=True, scope="session")
def cache_home(tmp_path_factory):
    """What fastload keeps between runs stays out of the user's cache directory."""
    directory = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FASTLOAD_CACHE_DIR", str(directory))
        yield directory


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """The files of the stored dataset, as most tests of stores read it."""
    from support.stored_dataset import write_files

    return write_files(tmp_path_factory.mktemp("stored"))


@pytest.fixture(scope="module")
def shared_server(paths):
    """A server of Google Cloud Storage that holds the files at gs://bucket/train/."""
    from support.stored_dataset import served

    with served(paths) as server:
        yield server


@pytest.fixture
def server(shared_server, tmp_path_factory, monkeypatch):
    """The shared server, prompt and without faults; fastload has kept nothing of its files."""
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(tmp_path_factory.mktemp("home")))
    shared_server.reset()
    yield shared_server
    shared_server.latency_s = 0.0
    shared_server.bytes_per_s = None
    shared_server.fault = lambda request: None
