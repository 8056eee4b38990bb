"""A cache on a disk that takes decoded rows slowly, or not at all: nothing waits for the disk."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastload.runtime._core import check_block
from fastload.runtime.disk.cache import DECODED
from fastload.runtime.disk.entries import entries_of

GROUPS, GROUP_ROWS = 24, 65_536
ROWS = GROUPS * GROUP_ROWS
HEAD = """
    import faulthandler, os, sys, threading
    from fastload import FastParquetDataset
    from fastload.engine.cache.write_behind import WriteBehind

    faulthandler.dump_traceback_later(100, exit=True)  # shows what hangs
    most_held = [0]
    put = WriteBehind.put

    def noted(self, *arguments):
        put(self, *arguments)
        held = self._queue.held_bytes
        assert held <= self.most_bytes, (held, self.most_bytes)
        most_held[0] = max(held, most_held[0])

    WriteBehind.put = noted

    def dataset(**options):
        return FastParquetDataset(sys.argv[1], cache=sys.argv[2], batch_size=4096, threads=2,
                                  memory_budget="48MB", **options)

    def read_all(ds):
        return sum(int(b["x"].sum()) for b in ds)
"""


# Forks for each program, or each would import torch for seconds. A fork ends as a program does.
FORKS = """
import json, os, sys
import fastload.dataset.dataset

for line in sys.stdin:
    program, arguments, ms, out, err = json.loads(line)
    child = os.fork()
    if child == 0:
        os.environ["SLOW_WRITES_MS"] = ms
        for name, number in ((out, 1), (err, 2)):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.argv[1:] = arguments
        exec(program, {"__name__": "__main__"})
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("no compiler for a library to preload")
    directory = tmp_path_factory.mktemp("slow")
    library = directory / "slow_writes.so"
    source = Path(__file__).with_name("slow_writes.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    table = pa.table({"x": np.arange(ROWS), "y": np.arange(ROWS) * 7})
    pq.write_table(table, directory / "a.parquet", row_group_size=GROUP_ROWS)

    out, err = directory / "out", directory / "err"
    with subprocess.Popen(
        [sys.executable, "-c", FORKS],
        env={**os.environ, "LD_PRELOAD": str(library)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as forks:

        def run(program, cache, ms):
            text = textwrap.dedent(HEAD) + textwrap.dedent(program)
            arguments = [str(directory / "a.parquet"), str(cache)]
            print(json.dumps([text, arguments, str(ms), str(out), str(err)]), file=forks.stdin)
            forks.stdin.flush()
            code = forks.stdout.readline()
            assert code == "0\n", err.read_text()
            return out.read_text().split()

        yield run
        forks.stdin.close()


def check_entries(cache):
    """Return the number of entries, all of which are whole; nothing else is left."""
    entries = list(entries_of(cache / DECODED))
    assert all(check_block(entry.path, f"{entry.object}/{entry.name}") for entry in entries)
    assert not list(cache.rglob("*.part"))
    return len(entries)


@pytest.mark.parametrize("options", ["", "shuffle=True, shuffle_window=100_000"])
def test_a_slow_disk_drops_blocks_and_the_next_passes_try_again(slow, tmp_path, options):
    program = f"""
        with dataset({options}) as ds:
            assert read_all(ds) == {ROWS * (ROWS - 1) // 2}
            print(ds.stats().uncached_row_groups)
        assert most_held[0] > 0
        """
    (dropped,) = map(int, slow(program, tmp_path, 150))
    assert dropped > 0
    kept = check_entries(tmp_path)
    if not options:
        # A shuffled pass may drop the rows that one window made, and keep those of the next window.
        assert dropped < GROUPS
        assert kept <= GROUPS - dropped
    again = f"""
        with dataset({options}) as ds:
            dropped = -1
            while dropped < ds.stats().uncached_row_groups:
                dropped = ds.stats().uncached_row_groups
                assert read_all(ds) == {ROWS * (ROWS - 1) // 2}
        """
    # The writer has the lowest priority. On a busy machine, close() ends before all is written.
    for _ in range(5):
        slow(again, tmp_path, 0)
        if check_entries(tmp_path) == GROUPS:
            return
    pytest.fail(f"{check_entries(tmp_path)} of {GROUPS} row groups are kept after five programs")


def test_closing_while_blocks_are_written(slow, tmp_path):
    """The blocks that wait are written; the end of the process leaves none half-written."""
    program = """
        ds = dataset()
        batches = iter(ds)
        next(batches)
        if sys.argv[2].endswith("closed"):
            ds.close()
        """
    for end in ("closed", "open"):
        slow(program, tmp_path / end, 30)
        assert 0 < check_entries(tmp_path / end) < GROUPS


def test_a_write_that_hangs_is_not_waited_for(slow, tmp_path):
    """Each write takes longer than the test's limit."""
    program = """
        with dataset() as ds:
            batches = iter(ds)
            next(batches)
        print("closed")
        """
    assert slow(program, tmp_path, 600_000) == ["closed"]
    assert not list(entries_of(tmp_path / DECODED))


def test_ctrl_c_does_not_wait_for_a_write_that_hangs(slow, tmp_path):
    program = """
        import signal
        try:
            for batch in dataset():
                os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            print("interrupted")
        """
    assert slow(program, tmp_path, 600_000) == ["interrupted"]


def test_a_fork_while_blocks_are_written(slow, tmp_path):
    """The child leaves the parent's writes alone, and reads by itself."""
    program = f"""
        ds = dataset()
        batches = iter(ds)
        first = next(batches)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with dataset() as own:
                    code = 0 if read_all(own) == {ROWS * (ROWS - 1) // 2} else 2
            finally:
                os._exit(code)
        total = int(first["x"].sum()) + sum(int(b["x"].sum()) for b in batches)
        assert total == {ROWS * (ROWS - 1) // 2}
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        ds.close()
        """
    slow(program, tmp_path, 5)
    check_entries(tmp_path)


def test_workers_write_what_they_have_in_memory(slow, tmp_path):
    program = f"""
        from torch.utils.data import DataLoader
        ds = dataset()
        rows = sum(int(b["x"].sum()) for b in DataLoader(ds, batch_size=None, num_workers=2))
        assert rows == {ROWS * (ROWS - 1) // 2}
        """
    slow(program, tmp_path, 1)
    assert check_entries(tmp_path) > 0
