"""Runs a script as several ranks that cannot outlive the test."""

import importlib.util
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
    # An import would take seconds, and memory that makes each later fork slower.
    if importlib.util.find_spec(package) is None:
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


def run_script(script, *arguments, torchrun=None, timeout_s=TIMEOUT_S):
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
        out, _ = process.communicate(timeout=timeout_s)
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


def steps_of_ranks(reports):
    """Return the tokens of each step over all ranks, sorted."""
    runs = [report["tokens"] for report in reports]
    return [sorted(token for batch in step for token in batch) for step in zip(*runs, strict=True)]


def expect_packed_runs(ranks, lengths, start=1000):
    """Check a run of two epochs of packed rows, and the run that resumes after its fourth step.

    Each epoch has every token once, in as many steps of every rank.

    Args:
        ranks: of each rank, both runs: `steps` of an epoch, `tokens` of each step, and `weights`.
        lengths: tokens of each document.
        start: number of the first token.
    """
    reports = [report["packed"] for report in ranks]
    steps = reports[0]["steps"]
    assert steps > 4
    assert [report["steps"] for report in reports] == [steps] * len(reports)
    assert [len(report["tokens"]) for report in reports] == [2 * steps] * len(reports)
    run = steps_of_ranks(reports)
    epochs = [[token for step in run[e * steps :][:steps] for token in step] for e in range(2)]
    for epoch in epochs:
        assert sorted(epoch) == list(range(start, start + sum(lengths)))
    assert epochs[0] != epochs[1]
    for report in ranks:
        whole, resumed = report["packed"], report["packed, in mid-epoch"]
        assert resumed["tokens"] == whole["tokens"][4:]
        assert resumed["weights"] == whole["weights"] == reports[0]["weights"]
