"""However a pass ends, its processes end: in seconds, with nothing left and nothing said."""

import json
import os
import signal
import time

import pytest

import endings
from support.sample_files import write_sample
from support.session import Session

# Each ending has a deadline of its own; this is for a process that can't keep to it.
TIMEOUT_S = 150
ENDS_WITHIN_S = 15  # of them, on a machine that does other things too

ROWS = [
    (None, 0, False),
    *(
        (context, workers, persistent)
        for context in ("fork", "spawn", "forkserver")
        for workers in (1, 2)
        for persistent in (False, True)
        # Other processes than forks import torch, so two rows have to do for them.
        if context == "fork" or persistent == (workers == 2)
    ),
]
CONTEXTS = ["fork", "spawn", "forkserver"]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("matrix") / "sample.parquet", endings.ROWS)


def program(path, context, workers, *, persistent, endless=False):
    """The endings of one row of the table, in a session of their own."""
    arguments = map(str, (path, context, workers, persistent, endless))
    return Session([endings.__file__, *arguments], forked=True)


def cells_of(out, ended):
    """By ending, the seconds that it took or what went wrong."""
    cells = dict.fromkeys(endings.ENDINGS, "not reached")
    for line in out.splitlines():
        said = json.loads(line)
        name = said["ending"]
        if "since" in said:
            cells[name] = ended - said["since"]
        elif "seconds" in said:
            cells[name] = said["seconds"]
        else:
            cells[name] = said.get("wrong", "hangs")
    return cells


@pytest.mark.parametrize(("context", "workers", "persistent"), ROWS)
def test_every_ending(path, context, workers, persistent, record_property):
    with program(path, context, workers, persistent=persistent) as session:
        out, err = session.output(TIMEOUT_S)
        cells = cells_of(out, time.monotonic())
        code, left = session.process.returncode, session.left()
    last = "live iterator"
    if isinstance(cells[last], float) and code != endings.EXIT_CODE:
        cells[last] = f"exit code {code}"
    if isinstance(cells[last], float) and (left or err):
        cells[last] = f"left {left}" if left else "noise"
    row = (context or "", workers, "persistent" if persistent else "")
    record_property("endings", (row, cells))
    assert all(isinstance(cell, float) for cell in cells.values()), f"{cells}\n{err}"
    assert max(cells.values()) < ENDS_WITHIN_S, cells
    assert (err, left) == ("", [])


@pytest.mark.parametrize("context", CONTEXTS)
def test_ctrl_c_that_nobody_catches(path, context):
    workers = 2
    with program(path, context, workers, persistent=True, endless=True) as session:
        # They send in turns: with this many batches, each of them has begun.
        assert all(session.process.stdout.readline() for _ in range(workers))
        time.sleep(0.3)
        os.killpg(session.process.pid, signal.SIGINT)
        pressed = time.monotonic()
        _, err = session.output(TIMEOUT_S)
        assert time.monotonic() - pressed < ENDS_WITHIN_S, err
        assert session.process.returncode == -signal.SIGINT
        assert err.count("Traceback") == 1, err
        assert err.endswith("KeyboardInterrupt\n"), err
        assert session.left() == []
