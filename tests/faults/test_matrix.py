"""However a pass ends, its processes end: in seconds, with nothing left and nothing said."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import endings
from support.sample_files import write_sample
from support.shared_memory import own_files

# Each ending has a deadline of its own; this is for a process that can't keep to it.
TIMEOUT_S = 150
ENDS_WITHIN_S = 15  # of them, on a machine that does other things too
LEFT_S = 5  # the system may take as long to end processes and remove files

ROWS = [
    (None, 0, False),
    *(
        (context, workers, persistent)
        for context in ("fork", "spawn", "forkserver")
        for workers in (1, 2)
        for persistent in (False, True)
    ),
]
CONTEXTS = ["fork", "spawn", "forkserver"]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("matrix") / "sample.parquet", endings.ROWS)


class Program:
    """The endings of one row of the table, in a session of their own.

    Its group is killed at the end, whatever is left of it.
    """

    def __init__(self, path, context, workers, *, persistent, endless=False):
        self.shm = set(Path("/dev/shm").iterdir())
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-W", "ignore:This DataLoader will create", endings.__file__),
                *map(str, (path, context, workers, persistent, endless)),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in self.living():
            os.kill(pid, signal.SIGKILL)
        self.process.communicate()

    def output(self):
        """What it wrote until the last of its processes ended; None if that was too late."""
        try:
            return self.process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            for pid in self.living():
                os.kill(pid, signal.SIGKILL)
            return self.process.communicate()

    def living(self):
        """Processes of the session that have not ended."""
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self.has(pid)]

    def has(self, pid):
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return False
        state, _, _, session, *_ = stat.rsplit(")", 1)[1].split()
        return state != "Z" and int(session) == self.process.pid

    def left(self):
        """Return the processes of the program, and its files in /dev/shm, that outlive it."""
        deadline = time.monotonic() + LEFT_S
        while True:
            living = self.living()
            files = own_files(set(Path("/dev/shm").iterdir()) - self.shm, self.process.pid, living)
            left = [*map(str, living), *map(str, files)]
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.1)


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
    with Program(path, context, workers, persistent=persistent) as program:
        out, err = program.output()
        cells = cells_of(out, time.monotonic())
        code, left = program.process.returncode, program.left()
    last = "live iterator"
    if isinstance(cells[last], float) and code != endings.EXIT_CODE:
        cells[last] = f"exit code {code}"
    if isinstance(cells[last], float) and (left or err):
        cells[last] = "left something" if left else "noise"
    row = (context or "", workers, "persistent" if persistent else "")
    record_property("endings", (row, cells))
    assert all(isinstance(cell, float) for cell in cells.values()), f"{cells}\n{err}"
    assert max(cells.values()) < ENDS_WITHIN_S, cells
    assert (err, left) == ("", [])


@pytest.mark.parametrize("context", CONTEXTS)
def test_ctrl_c_that_nobody_catches(path, context):
    workers = 2
    with Program(path, context, workers, persistent=True, endless=True) as program:
        # They send in turns: with this many batches, each of them has begun.
        assert all(program.process.stdout.readline() for _ in range(workers))
        time.sleep(0.3)
        os.killpg(program.process.pid, signal.SIGINT)
        pressed = time.monotonic()
        _, err = program.output()
        assert time.monotonic() - pressed < ENDS_WITHIN_S
        assert program.process.returncode == -signal.SIGINT
        assert err.count("Traceback") == 1, err
        assert err.endswith("KeyboardInterrupt\n"), err
        assert program.left() == []
