"""Ray Train on a real cluster: a worker is killed in mid-epoch, and Ray resumes the run."""

from __future__ import annotations

import json
import tempfile
import uuid

import pytest

from fastload import FastParquetDataset
from launching import require, run_script
from support.sample_files import write_sample

require("ray")
pytestmark = pytest.mark.slow

ROWS = 503
WORLD = 2
BATCH = 25
STEPS = 11
TIMEOUT_S = 240  # Ray starts a dozen processes
KILLED = 5  # the step in which a worker was killed


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("rows") / "sample.parquet", ROWS, 64)


@pytest.fixture(scope="module")
def run(path, tmp_path_factory):
    """The directory of a run whose rank 1 was killed in step 5."""
    directory = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        # Of this cluster alone; else Ray keeps one in the home directory.
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", uuid.uuid4().hex)
        patch.setenv("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.2")
        # Ray's sockets need a short path.
        with tempfile.TemporaryDirectory(
            prefix="ray", dir="/tmp", ignore_cleanup_errors=True
        ) as cluster:
            run_script("ray_train_run.py", path, directory, cluster, timeout_s=TIMEOUT_S)
    return directory


@pytest.fixture(scope="module")
def attempts(run):
    """The lines of each rank before the kill, and after Ray has resumed the run."""

    def lines_of(name):
        files = [run / f"{name}-{rank}.jsonl" for rank in range(WORLD)]
        return [[json.loads(line) for line in file.read_text().splitlines()] for file in files]

    return lines_of("first"), lines_of("resumed")


@pytest.fixture(scope="module")
def saved(attempts):
    """The step of the checkpoint that Ray has resumed from.

    Ray reads reports some time after the workers wrote them, so the checkpoint may be an older one.
    """
    return attempts[1][0][0]["step"] - 1


def test_a_worker_was_killed_and_the_run_ended(run, attempts, saved):
    first, resumed = attempts
    assert [line["step"] for line in first[1]] == list(range(1, KILLED + 1))
    assert saved in {2, 4}
    for lines in resumed:
        assert [line["step"] for line in lines] == list(range(saved + 1, STEPS + 1))
    assert json.loads((run / "result.json").read_text()) == {"step": STEPS - 1}


def test_no_row_is_lost_or_trained_on_twice(attempts, saved):
    """The rows before the checkpoint and the rows after the checkpoint are an epoch."""
    first, resumed = attempts
    before = [row for lines in first for line in lines[:saved] for row in line["rows"]]
    after = [row for lines in resumed for line in lines for row in line["rows"]]
    assert len(before) == len(set(before)) == saved * WORLD * BATCH
    # The rank that is one row short repeats a row.
    assert len(before) + len(after) == ROWS + 1
    assert {*before, *after} == set(range(ROWS))


def test_steps_are_those_of_a_run_that_was_not_killed(attempts, saved, path):
    for rank, (first, resumed) in enumerate(zip(*attempts, strict=True)):
        with FastParquetDataset(
            path,
            columns=["id", "price"],
            batch_size=BATCH,
            shuffle=True,
            rank=rank,
            world_size=WORLD,
        ) as dataset:
            whole = [batch["id"].tolist() for batch in dataset]
        assert [line["rows"] for line in first[:saved] + resumed] == whole
