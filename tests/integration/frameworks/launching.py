"""Runs a script as several ranks that cannot outlive the test."""

import importlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TIMEOUT_S = 120


def require(package):
    """Skips the module without the package, except in CI."""
    try:
        importlib.import_module(package)
    except ImportError:
        advice = f"{package} is not installed: pip install '.[test]'"
        if os.environ.get("CI") == "true":
            pytest.fail(f"{advice} (CI runs every test)")
        pytest.skip(advice, allow_module_level=True)


def end(process):
    """Ends a launcher, which ends its ranks if it is given the time."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run_script(script, *arguments, torchrun=None):
    """What a script prints that ends well and in time; with torchrun as so many ranks."""
    launcher = []
    if torchrun is not None:
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={torchrun}"]
    process = subprocess.Popen(
        [sys.executable, *launcher, str(HERE / script), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
        start_new_session=True,
    )
    try:
        out, _ = process.communicate(timeout=TIMEOUT_S)
    finally:
        if process.poll() is None:
            end(process)
    assert process.returncode == 0, out
    return out


def reports_of(directory, world):
    """What each rank wrote."""
    files = [directory / f"rank-{rank}.json" for rank in range(world)]
    return [json.loads(file.read_text()) for file in files]


def rows_of(ranks, what):
    """The rows of all batches that the ranks report there, sorted."""
    return sorted(row for report in ranks for batch in report[what] for row in batch)
