"""One question: how does a pass end when the system refuses it memory?

    python tests/faults/memory_faults.py [--modes inline,threads,fork] [--rooms 0,1,4,...]

Each pass is one of a process of its own. Whoever reads, that process or its two workers, may map no
more than so many MiB of address space (RLIMIT_AS) once it has read two batches. The pass ends with
every row once, or in an error, within its time; it does not crash, and the same process reads all
of it once the limit is lifted. Prints a table, and exits with 1 if an ending is not as expected.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from torch.utils.data import DataLoader

from fastload import Batch, FastParquetDataset

ROWS, GROUP_ROWS = 200_000, 20_000
BATCH = 5000
MODES = ("inline", "threads", "fork")
ROOMS_MB = (0, 4, 16, 64)
LIMIT_S = 120
HEALED = "healed"
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


class Limit:
    """A collate_fn that limits the process that it runs in, from the third batch on."""

    def __init__(self, room_mb: float) -> None:
        self._room_mb = room_mb
        self._batches = 0

    def __call__(self, batch: Batch) -> Batch:
        self._batches += 1
        if self._batches == 3:
            limit(self._room_mb)
        return batch


class Pass:
    """A pass over the file, in this process or by two workers."""

    def __init__(self, path: str, mode: str) -> None:
        threads = {"inline": 0, "threads": 2, "fork": 1}[mode]
        self._workers = 2 if mode == "fork" else 0
        self.dataset = FastParquetDataset(
            path, batch_size=BATCH, threads=threads, shuffle=True, shuffle_window=30_000,
            memory_budget="128MB",
        )  # fmt: skip

    def read(self, room_mb: float | None) -> None:
        """All of it; with a limit from the third batch on."""
        options = {}
        if self._workers:
            options = {"multiprocessing_context": "fork", "timeout": LIMIT_S}
        if room_mb is not None:
            options["collate_fn"] = Limit(room_mb)
        loader = DataLoader(self.dataset, batch_size=None, num_workers=self._workers, **options)
        seen = np.zeros(ROWS, int)
        for batch in loader:
            ids = batch["id"].numpy()
            seen[ids] += 1
        assert (seen == 1).all(), "not every row once"


def run_one(path: str, mode: str, room_mb: float) -> None:
    """Prints how the pass ended, as JSON: the error's name and message."""
    faulthandler.enable()
    one = Pass(path, mode)
    ended, message = HEALED, ""
    try:
        one.read(room_mb)
    except Exception as error:  # noqa: BLE001 - the table says which
        ended, message = type(error).__name__, str(error)
    lift()
    one.dataset.close()
    Pass(path, mode).read(None)
    print(json.dumps([ended, message]))


def run(path: Path, mode: str, room_mb: float) -> tuple[str, float, str]:
    """How the pass ended, after how many seconds, and the error's message."""
    began = time.monotonic()
    command = [sys.executable, __file__, "--one", str(path), mode, str(room_mb)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return "hangs", time.monotonic() - began, ""
    seconds = time.monotonic() - began
    if done.returncode:
        return f"exit code {done.returncode}", seconds, done.stderr
    ended, message = json.loads(done.stdout.splitlines()[-1])
    return ended, seconds, message


def is_as_expected(room_mb: float, ended: str) -> bool:
    """Without any room, what the later rows take is refused."""
    return ended == "MemoryError" if room_mb == 0 else ended in (HEALED, *REFUSED)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--rooms", default=",".join(map(str, ROOMS_MB)))
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        path, mode, room_mb = arguments.one
        run_one(path, mode, float(room_mb))
        return
    modes = arguments.modes.split(",")
    wrong = []
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "sample.parquet"
        write_file(path)
        print(f"{'room':>10}" + "".join(f"{mode:>24}" for mode in modes))
        for room_mb in map(float, arguments.rooms.split(",")):
            cells = []
            for mode in modes:
                ended, seconds, message = run(path, mode, room_mb)
                right = is_as_expected(room_mb, ended)
                if not right:
                    wrong.append((room_mb, mode, ended, message))
                cells.append(f"{'' if right else '! '}{ended} {seconds:.1f}")
            print(f"{room_mb:7g} MB" + "".join(f"{cell:>24}" for cell in cells), flush=True)
    for case in wrong:
        print("unexpected:", *case)
    print(f"\n{len(wrong)} of the endings are not as expected")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
