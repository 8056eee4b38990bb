"""One question: how does a pass end when the system refuses it memory?

    python tests/faults/memory_faults.py [--modes inline,threads,fork] [--rooms 0,1,4,...]

Each pass is one of a process of its own. Whoever reads, that process or its two workers, gets no
more than so many MiB of memory once it has read two batches. Where address space is limited
(RLIMIT_AS), the pass ends with every row once, or in an error, within its time; it does not crash,
and the same process reads all of it once the limit is lifted. In a control group of such a size, as
containers are, the system kills who goes over it: a worker's end is an error in the process that
trains, and the next process reads all of it. Prints a table of each, and exits with 1 if an ending
is not as expected.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from torch.utils.data import DataLoader

from fastload import Batch, FastParquetDataset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ROWS, GROUP_ROWS = 200_000, 20_000
BATCH = 5000
# With this seed, windows of many large rows come after the third batch of each worker.
SEED = 1
MODES = ("inline", "threads", "fork")
ROOMS_MB = (0, 4, 16, 64)
LIMIT_S = 120
GROUPS_MB = (8, 32, 64, 512)
ENOUGH_MB = 512
HEALED = "healed"
KILLED = "killed"
# Of fastload, or of what torch asks for in this process.
REFUSED = ("MemoryError", "StorageError", "RuntimeError")


def write_file(path: Path) -> None:
    """The last third of the rows takes four times as much memory."""
    random = np.random.default_rng(0)
    lengths = np.where(np.arange(ROWS) < ROWS * 2 // 3, 16, 64)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    table = pa.table(
        {
            "id": np.arange(ROWS),
            "text": [f"some words of row {k}" for k in random.integers(0, 10**6, ROWS)],
            "items": pa.ListArray.from_arrays(offsets, random.random(offsets[-1])),
        }
    )
    pq.write_table(table, path, row_group_size=GROUP_ROWS, use_dictionary=False)


def mapped_bytes() -> int:
    """Address space of this process."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def limit(room_mb: float) -> None:
    """This process may map so many MiB more."""
    most = mapped_bytes() + int(room_mb * (1 << 20))
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))


def lift() -> None:
    """It may map what it likes."""
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)


def _made_group(most_bytes: int) -> Path | None:
    groups = Path("/sys/fs/cgroup")
    for parent, most in ((groups / "memory", "memory.limit_in_bytes"), (groups, "memory.max")):
        group = parent / f"fastload-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / most).write_text(str(most_bytes))
        except OSError:  # without a limit of memory
            group.rmdir()
            continue
        return group
    return None


@contextlib.contextmanager
def control_group(room_mb: float) -> Iterator[Path | None]:
    """A control group whose processes may take so many MiB together; None: none can be made."""
    group = _made_group(int(room_mb * (1 << 20)))
    try:
        yield group
    finally:
        if group is not None:
            group.rmdir()


class Limit:
    """A collate_fn that limits the process that it runs in, from the third batch on.

    group: that it joins then; None = its address space is limited.
    """

    def __init__(self, room_mb: float, group: str | None) -> None:
        self._room_mb = room_mb
        self._group = group
        self._batches = 0

    def __call__(self, batch: Batch) -> Batch:
        self._batches += 1
        if self._batches == 3 and self._group is None:
            limit(self._room_mb)
        elif self._batches == 3:
            Path(self._group, "cgroup.procs").write_text(str(os.getpid()))
        return batch


class Pass:
    """A pass over the file, in this process or by two workers."""

    def __init__(self, path: str, mode: str) -> None:
        threads = {"inline": 0, "threads": 2, "fork": 1}[mode]
        self._workers = 2 if mode == "fork" else 0
        self.dataset = FastParquetDataset(
            path, batch_size=BATCH, threads=threads, shuffle=True, shuffle_window=30_000,
            memory_budget="128MB", seed=SEED,
        )  # fmt: skip

    def read(self, limit: Limit | None) -> None:
        """All of it."""
        options = {}
        if self._workers:
            options = {"multiprocessing_context": "fork", "timeout": LIMIT_S}
        if limit is not None:
            options["collate_fn"] = limit
        loader = DataLoader(self.dataset, batch_size=None, num_workers=self._workers, **options)
        seen = np.zeros(ROWS, int)
        for batch in loader:
            ids = batch["id"].numpy()
            seen[ids] += 1
        assert (seen == 1).all(), "not every row once"


def run_one(path: str, mode: str, room_mb: float, group: str | None) -> None:
    """Prints how the pass ended, as JSON: the error's name and message."""
    faulthandler.enable()
    one = Pass(path, mode)
    ended, message = HEALED, ""
    try:
        one.read(Limit(room_mb, group))
    except Exception as error:  # noqa: BLE001 - the table says which
        ended, message = type(error).__name__, str(error)
    lift()
    one.dataset.close()
    Pass(path, mode).read(None)
    print(json.dumps([ended, message]))


def run(path: Path, mode: str, room_mb: float, group: Path | None = None) -> tuple[str, float, str]:
    """How the pass ended, after how many seconds, and the error's message."""
    began = time.monotonic()
    command = [sys.executable, __file__, "--one", str(path), mode, str(room_mb)]
    command += [] if group is None else [str(group)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return "hangs", time.monotonic() - began, ""
    seconds = time.monotonic() - began
    if done.returncode == -signal.SIGKILL and group is not None:
        Pass(str(path), mode).read(None)
        return KILLED, seconds, ""
    if done.returncode:
        return f"exit code {done.returncode}", seconds, done.stderr
    ended, message = json.loads(done.stdout.splitlines()[-1])
    return ended, seconds, message


def is_as_expected(room_mb: float, ended: str) -> bool:
    """Without any room, what the later rows take is refused."""
    return ended == "MemoryError" if room_mb == 0 else ended in (HEALED, *REFUSED)


def is_as_expected_in_group(mode: str, room_mb: float, ended: str) -> bool:
    """All that a pass takes is a few hundred MB; who trains outlives a worker."""
    if room_mb >= ENOUGH_MB:
        return ended == HEALED
    return ended in (HEALED, "RuntimeError" if mode == "fork" else KILLED)


def _limited(path: Path, mode: str, room_mb: float) -> tuple[bool, str, float, str]:
    ended, seconds, message = run(path, mode, room_mb)
    return is_as_expected(room_mb, ended), ended, seconds, message


def _grouped(path: Path, mode: str, room_mb: float) -> tuple[bool, str, float, str]:
    with control_group(room_mb) as group:
        ended, seconds, message = run(path, mode, room_mb, group)
    return is_as_expected_in_group(mode, room_mb, ended), ended, seconds, message


def table(
    title: str,
    modes: Sequence[str],
    rooms_mb: Sequence[float],
    ending: Callable[[str, float], tuple[bool, str, float, str]],
) -> list[object]:
    """Prints how passes end, and returns those that don't as expected."""
    wrong: list[object] = []
    print(f"{title:14}" + "".join(f"{mode:>24}" for mode in modes))
    for room_mb in rooms_mb:
        cells = []
        for mode in modes:
            right, ended, seconds, message = ending(mode, room_mb)
            if not right:
                wrong.append((title, room_mb, mode, ended, message))
            cells.append(f"{'' if right else '! '}{ended} {seconds:.1f}")
        print(f"{room_mb:11g} MB" + "".join(f"{cell:>24}" for cell in cells), flush=True)
    return wrong


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--rooms", default=",".join(map(str, ROOMS_MB)))
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        path, mode, room_mb, *group = arguments.one
        run_one(path, mode, float(room_mb), *(group or [None]))
        return
    modes = arguments.modes.split(",")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "sample.parquet"
        write_file(path)
        rooms = [float(room) for room in arguments.rooms.split(",")]
        wrong = table("address space", modes, rooms, partial(_limited, path))
        with control_group(1) as group:
            can = group is not None
        if can:
            wrong += table("control group", modes, GROUPS_MB, partial(_grouped, path))
        else:
            print("control groups: none can be made here, left out")
    for case in wrong:
        print("unexpected:", *case)
    print(f"\n{len(wrong)} of the endings are not as expected")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
