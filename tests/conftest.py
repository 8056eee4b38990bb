"""Settings that every test shares."""

import multiprocessing
import os
from pathlib import Path

import pytest

from support.data_files import DIRECTORY, VARIABLE

# Or each worker of a fork server imports torch, for more than a second.
multiprocessing.set_forkserver_preload(["__main__", "torch", "fastload"])


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
