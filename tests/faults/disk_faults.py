"""One question: how does a pass over local files end when the disk fails it?

    python tests/faults/disk_faults.py [--modes inline,threads,fork] [--faults "I/O error",...]

Each fault strikes at each moment of a pass, in each way to read. The pass heals, with the values
that it has without the fault, or ends in the error that is expected, which names its place. Then
the disk fails what fastload keeps: there every pass heals, with one warning at most. Prints a
table, and exits with 1 if an ending is not as expected. System calls fail by a library that the
program compiles and preloads into itself.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import faulthandler
import hashlib
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from torch.utils.data import DataLoader

from fastload import Cache, FastParquetDataset

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from support.stored_dataset import served
from support.stores import GcsServer

SHIM = Path(__file__).with_name("failing_calls.c")
FILES, GROUPS, GROUP_ROWS = 3, 4, 2000
MOMENTS = ("footer", "first read", "mid-epoch", "last read")
MODES = ("inline", "threads", "fork")
LIMIT_S = 20.0
HEALED = "healed"
ALWAYS = -1


@dataclass(frozen=True)
class Case:
    """What strikes, and how the pass ends.

    call: "open", "read" or "write", which fails with `error`; "" = `change` is called instead.
    times: how often, ALWAYS = from then on.
    ends: by moment, where it is not `ending`.
    moments: when it strikes.
    """

    ending: str
    call: str = ""
    error: int = 0
    times: int = 1
    change: Callable[[Path], None] | None = None
    ends: tuple[tuple[str, str], ...] = ()
    moments: tuple[str, ...] = MOMENTS

    def at(self, moment: str) -> str:
        return dict(self.ends).get(moment, self.ending)


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 3)


def replace(path: Path) -> None:
    """By another file of as many bytes."""
    data = path.read_bytes()
    new = path.with_suffix(".new")
    new.write_bytes(data[::-1])
    os.replace(new, path)


def remove(path: Path) -> None:
    path.unlink()


STORAGE, CHANGED, CORRUPT = "StorageError", "SourceChangedError", "CorruptFileError"

CASES = {
    "interrupted": Case(HEALED, "read", errno.EINTR, 2),
    "half of the bytes": Case(HEALED, "read", 0, ALWAYS),
    "I/O error": Case(STORAGE, "read", errno.EIO, ALWAYS),
    "I/O error once": Case(STORAGE, "read", errno.EIO),
    "stale handle": Case(STORAGE, "read", errno.ESTALE, ALWAYS),
    "no descriptors": Case(STORAGE, "open", errno.EMFILE, ALWAYS),
    "not permitted": Case(STORAGE, "open", errno.EACCES, ALWAYS),
    "truncated": Case(CHANGED, change=truncate, ends=(("footer", CORRUPT),)),
    "replaced": Case(CHANGED, change=replace, ends=(("footer", CORRUPT),)),
    # Before the footers are read, there is a file less in the directory.
    "removed": Case(CHANGED, change=remove, moments=MOMENTS[1:]),
}

KEPT = {
    "full disk": errno.ENOSPC,
    "no more quota": errno.EDQUOT,
    "read-only": errno.EROFS,
    "I/O error": errno.EIO,
    "no descriptors": errno.EMFILE,
}


class Shim:
    """The preloaded library."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        self._set, self._struck = library.set_fault, library.struck
        self._set.argtypes = [ctypes.c_char_p, ctypes.c_char_p, *[ctypes.c_long] * 3]
        self._struck.restype = ctypes.c_long

    def set(self, call: str, part: str, error: int, after: int = 0, times: int = ALWAYS) -> None:
        self._set(call.encode(), part.encode(), error, after, times)

    def clear(self) -> None:
        self._set(b"", b"", 0, 0, 0)

    @property
    def struck(self) -> int:
        return self._struck()


def write_files(directory: Path) -> list[Path]:
    random = np.random.default_rng(0)
    paths = []
    for number in range(FILES):
        rows = GROUPS * GROUP_ROWS
        table = pa.table(
            {
                "a": random.integers(0, 1 << 60, rows),
                "b": [f"word {k}" for k in random.integers(0, 10**6, rows)],
            }
        )
        paths.append(directory / f"part-{number}.parquet")
        pq.write_table(table, paths[-1], row_group_size=GROUP_ROWS, use_dictionary=False)
    return paths


def doubled(block) -> dict[str, np.ndarray]:
    return {"c": block["a"] * 2}


def digest(batches) -> list[str]:
    return [
        hashlib.sha256(
            batch["a"].numpy().tobytes() + b"".join(t.encode() for t in batch["b"].tolist())
        ).hexdigest()
        for batch in batches
    ]


class Stage:
    """Files in a directory of their own for each pass."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        (directory / "sound").mkdir()
        self.sound = write_files(directory / "sound")
        self.shim = Shim()
        self._passes = 0
        self._expected: dict[str, list[str]] = {}

    def dataset(self, path: Path, mode: str, **options) -> FastParquetDataset:
        threads = {"inline": 0, "threads": 2, "fork": 1}[mode]
        return FastParquetDataset(
            path, batch_size=500, threads=threads, memory_budget="16MB", **options
        )

    def read(self, dataset: FastParquetDataset, mode: str, at_half=None) -> list[str]:
        workers = 2 if mode == "fork" else 0
        context = {"multiprocessing_context": "fork"} if workers else {}
        loader = DataLoader(
            dataset, batch_size=None, num_workers=workers, timeout=LIMIT_S if workers else 0,
            **context,
        )  # fmt: skip
        batches = iter(loader)
        found = []
        try:
            for number, batch in enumerate(batches):
                found += digest([batch])
                if at_half is not None and number == 1:
                    at_half()
        finally:
            if workers:
                batches._shutdown_workers()
        return found

    def expected(self, mode: str) -> list[str]:
        if mode not in self._expected:
            with self.dataset(self._directory / "sound", mode) as dataset:
                self._expected[mode] = self.read(dataset, mode)
        return self._expected[mode]

    def copy(self) -> Path:
        self._passes += 1
        place = self._directory / f"pass-{self._passes}"
        shutil.copytree(self._directory / "sound", place)
        return place

    def run(self, case: Case, moment: str, mode: str) -> tuple[str, float, str]:
        """How the pass ended, after how many seconds, and the error's message."""
        expected = self.expected(mode)
        place = self.copy()
        # Workers read each their half; the last file is read by the second one alone.
        victim = place / f"part-{FILES - 1 if moment in ('last read', 'mid-epoch') else 0}.parquet"
        after = 1 if moment == "last read" and case.call == "read" else 0

        def strike() -> None:
            if case.change is not None:
                case.change(victim)
            else:
                self.shim.set(case.call, str(victim), case.error, after, case.times)

        began = time.monotonic()
        try:
            if moment == "footer":
                strike()
            with self.dataset(place, mode) as dataset:
                if moment in ("first read", "last read") or (moment != "footer" and mode == "fork"):
                    strike()
                at_half = strike if moment == "mid-epoch" and mode != "fork" else None
                found = self.read(dataset, mode, at_half)
            ended = HEALED if found == expected else "other values"
            message = ""
        except Exception as error:  # noqa: BLE001 - the table says which
            ended, message = type(error).__name__, str(error)
        finally:
            self.shim.clear()
            shutil.rmtree(place)
        named = re.findall(r"^fastload\.errors\.(\w+): (.*)$", message, re.MULTILINE)
        if named:
            message = named[-1][1]
        return ended, time.monotonic() - began, message

    def run_kept(self, call: str, error: int, **options) -> tuple[str, int]:
        """How a pass ended whose caches fail, and how many warnings there were."""
        home = self._new_home()
        opened = partial(self.dataset, self._directory / "sound", "threads", **options)
        return self._run_warned(opened, call, home, error)

    def run_prepared(self, call: str, error: int) -> tuple[str, int]:
        """The same of prepared rows."""
        self._new_home()
        cache = self._directory / f"prepared-{self._passes}"
        opened = partial(
            self.dataset, self._directory / "sound", "threads", preprocess=doubled, cache=cache
        )
        return self._run_warned(opened, call, cache, error)

    def run_raw(self, server: GcsServer, call: str, error: int) -> tuple[str, int]:
        """The same of the bytes of remote files."""
        self._new_home()
        cache = self._directory / f"raw-{self._passes}"
        opened = partial(
            FastParquetDataset, "gs://bucket/train/", storage_options=server.options,
            batch_size=500, threads=2, cache=Cache(cache), memory_budget="16MB",
        )  # fmt: skip
        return self._run_warned(opened, call, cache, error)

    def _new_home(self) -> Path:
        """An empty home of what fastload keeps."""
        self._passes += 1
        home = self._directory / f"home-{self._passes}"
        os.environ["FASTLOAD_CACHE_DIR"] = str(home)
        return home

    def _run_warned(
        self, opened: Callable[[], FastParquetDataset], call: str, directory: Path, error: int
    ) -> tuple[str, int]:
        """How a pass ended while a call fails in a directory, and how many warnings there were."""
        expected = self.expected("threads")
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            self.shim.set(call, str(directory), error)
            try:
                with opened() as dataset:
                    found = self.read(dataset, "threads")
                ended = HEALED if found == expected else "other values"
            except Exception as raised:  # noqa: BLE001 - the table says which
                ended = f"{type(raised).__name__}: {raised}"
            finally:
                self.shim.clear()
        return ended, len(told)


def is_as_expected(case: Case, moment: str, ended: str, seconds: float, message: str) -> bool:
    """The right ending, in time, with its place in the error."""
    if ended != case.at(moment) or seconds > LIMIT_S:
        return False
    return ended == HEALED or "part-" in message


def print_passes(stage: Stage, modes: list[str], faults: list[str]) -> int:
    wrong = []
    for mode in modes:
        print(f"\n{mode}\n{'':20}" + "".join(f"{moment:>24}" for moment in MOMENTS))
        for name in faults:
            cells = []
            for moment in MOMENTS:
                if moment not in CASES[name].moments:
                    cells.append("")
                    continue
                faulthandler.dump_traceback_later(3 * LIMIT_S, exit=True)
                ended, seconds, message = stage.run(CASES[name], moment, mode)
                right = is_as_expected(CASES[name], moment, ended, seconds, message)
                if not right:
                    wrong.append((name, moment, mode, ended, message))
                cells.append(f"{'' if right else '! '}{ended} {seconds:.1f}")
            print(f"{name:20}" + "".join(f"{cell:>24}" for cell in cells), flush=True)
    for case in wrong:
        print("unexpected:", *case)
    return len(wrong)


def print_kept(stage: Stage) -> int:
    wrong = 0
    columns = ("footers", "filtered rows", "prepared rows", "bytes of remote files")
    print(f"\nwhat is kept\n{'':20}" + "".join(f"{c:>30}" for c in columns))
    with served(stage.sound) as server:
        for name, error in KEPT.items():
            call = "open" if error in (errno.EROFS, errno.EMFILE) else "write"
            cells = []
            for run in (
                partial(stage.run_kept, call, error),
                partial(stage.run_kept, call, error, filters=[("a", ">", 0)]),
                partial(stage.run_prepared, call, error),
                partial(stage.run_raw, server, call, error),
            ):
                faulthandler.dump_traceback_later(3 * LIMIT_S, exit=True)
                ended, warned = run()
                right = ended == HEALED and warned <= 2
                wrong += not right
                cells.append(f"{'' if right else '! '}{ended}, {warned} warnings")
            print(f"{name:20}" + "".join(f"{cell:>30}" for cell in cells), flush=True)
    return wrong


def preloaded(arguments: list[str]) -> None:
    """Begins this program anew with the library, unless it is there."""
    if "FASTLOAD_FAILING_CALLS" in os.environ:
        return
    directory = tempfile.mkdtemp(prefix="fastload-faults-")
    library = f"{directory}/failing_calls.so"
    compiler = os.environ.get("CC", "cc").split()
    subprocess.run([*compiler, "-shared", "-fPIC", "-O1", "-o", library, SHIM, "-ldl"], check=True)
    environment = {**os.environ, "LD_PRELOAD": library, "FASTLOAD_FAILING_CALLS": library}
    try:
        done = subprocess.run([sys.executable, __file__, *arguments], env=environment, check=False)
    finally:
        shutil.rmtree(directory)
    sys.exit(done.returncode)


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--faults", default=",".join(CASES))
    arguments = parser.parse_args()
    preloaded(sys.argv[1:])
    # Workers of this many passes leave no core files.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as directory:
        os.environ["FASTLOAD_CACHE_DIR"] = f"{directory}/home"
        stage = Stage(Path(directory))
        wrong = print_passes(stage, arguments.modes.split(","), arguments.faults.split(","))
        wrong += print_kept(stage)
    faulthandler.cancel_dump_traceback_later()
    print(f"\n{wrong} of the endings are not as expected")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
