"""One question: how does a pass over an object store end when the network fails it?

    python tests/faults/store_faults.py [--modes fork,forkserver,threads] [--faults 429,...]

Each fault strikes at each moment of a pass, for each transport, read by this process or by two
workers. The pass heals, with the values that it has without the fault, or ends in the error that
is expected, which names its place; in any case within LIMIT_S seconds. Prints a table of the
outcomes and of the seconds that they took, and exits with 1 if one is not as expected.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import multiprocessing
import os
import re
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from torch.utils.data import DataLoader

from fastload import IO, FastParquetDataset
from fastload.errors import FastloadError

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from support.stores import Fault, GcsServer

MOMENTS = ("listing", "footer", "first row group", "mid-epoch", "last request")
TRANSPORTS = ("fsspec", "native")
# This process reads natively last: workers that are forked from it later could not.
MODES = ("fork", "forkserver", "threads")
TIMEOUT_S = 1.0
LIMIT_S = 20.0
RETRIES = 2
FILES, GROUPS, GROUP_ROWS = 3, 3, 500
BUCKET = "bucket"

CHANGES = ("change", "change unheeded")

HEALED = "healed"
STORAGE, CHANGED, CORRUPT = "StorageError", "SourceChangedError", "CorruptFileError"
NOT_FOUND = "SourceNotFoundError"


@dataclass(frozen=True)
class Case:
    """What strikes: once, or from then on; and how the pass ends, unless the moment says more."""

    fault: Fault | str
    ends: str = HEALED
    again: bool = False
    but: tuple[tuple[str, str], ...] = ()

    def ending(self, moment: str) -> str:
        return dict(self.but).get(moment, self.ends)


CASES = {
    "429": Case(Fault(429)),
    "503": Case(Fault(503)),
    "503 for ever": Case(Fault(503), STORAGE, again=True),
    "reset": Case(Fault("reset")),
    "reset in mid-body": Case(Fault("reset", after=300)),
    "short body": Case(Fault("short", after=300)),
    "over-long body": Case(Fault("long")),
    "stall": Case(Fault("stall")),
    "stalled body": Case(Fault("stall", after=300)),
    "stall for ever": Case(Fault("stall"), STORAGE, again=True),
    # A listing that can't be read is asked for again; footers have no checksum, but a signature.
    "wrong bytes": Case(Fault("flip"), CORRUPT, again=True, but=(("listing", STORAGE),)),
    # A body of the right length, a range elsewhere, or another page, once.
    "one bad body": Case(Fault("zeros")),
    "shifted range": Case(Fault("shift")),
    "odd 200": Case(Fault("page")),
    # A listing tells of the new one.
    "changed generation": Case("change", CHANGED, but=(("listing", HEALED),)),
    "change not heeded": Case("change unheeded", CHANGED, but=(("listing", HEALED),)),
    "403": Case(Fault(403), STORAGE, again=True),
    "404": Case(Fault(404), CHANGED, again=True, but=(("listing", NOT_FOUND),)),
    "redirect": Case("redirect"),
    "no such host": Case("nowhere", STORAGE, again=True),
}


class Stage:
    """The server that faults strike, and another one with the same objects."""

    def __init__(self, directory: Path) -> None:
        self.server = GcsServer()
        self.other = GcsServer()
        self.files = {}
        for number in range(FILES):
            path = directory / f"part-{number}.parquet"
            _write(path, number)
            self.files[f"train/{path.name}"] = path.read_bytes()
        for name, data in self.files.items():
            self.server.put(BUCKET, name, data)
        self.other._buckets = self.server._buckets
        self._known: dict[bool, tuple[list[str], int]] = {}

    def close(self) -> None:
        self.server.close()
        self.other.close()

    def run(self, name: str, moment: str, transport: str, mode: str) -> tuple[str, float, str]:
        """How a pass ends, in how many seconds, and the message of its error."""
        expected, requests = self._expected(mode)
        strike = Strike(self, CASES[name], moment, requests)
        self.server.fault = strike
        self.server.reset()
        self.other.reset()
        start = time.monotonic()
        try:
            got = self._read(transport, mode, strike)
        except FastloadError as error:
            ended, message = type(error).__name__, _own_message(str(error))
        else:
            ended, message = HEALED if got == expected else "wrong values", ""
        finally:
            self.server.fault = lambda request: None
        seconds = time.monotonic() - start
        if not strike.struck:
            ended = "never struck"
        return ended, seconds, message

    def _expected(self, mode: str) -> tuple[list[str], int]:
        """The batches without a fault, and the number of requests for data."""
        workers = mode != "threads"
        if workers not in self._known:
            watch = self.server.fault = Strike(self, Case("nothing"), "never", 0)
            batches = self._read("fsspec", "fork" if workers else mode, watch)
            self._known[workers] = batches, len(watch.data)
        return self._known[workers]

    def _read(self, transport: str, mode: str, strike: Strike) -> list[str]:
        """Of each batch, what it holds. Footers that another run has read are not found."""
        with (
            tempfile.TemporaryDirectory() as kept,
            mock.patch.dict(os.environ, FASTLOAD_CACHE_DIR=kept),
        ):
            return self._batches(transport, mode, strike)

    def _batches(self, transport: str, mode: str, strike: Strike) -> list[str]:
        io = IO(
            transport=transport, retries=RETRIES, timeout_s=TIMEOUT_S, concurrency=4,
            hole_bytes=0, verify_crc=True,
        )  # fmt: skip
        options = {"storage_options": self.server.options, "io": io, "batch_size": GROUP_ROWS}
        with FastParquetDataset(
            f"gs://{BUCKET}/train/*.parquet", columns=["a", "b"], **options
        ) as dataset:
            strike.made()
            if mode == "threads":
                return [_digest(batch) for batch in dataset]
            context = multiprocessing.get_context(mode)
            if mode == "forkserver":
                context.set_forkserver_preload(["fastload"])
            loader = DataLoader(
                dataset, batch_size=None, num_workers=2, multiprocessing_context=context,
                timeout=LIMIT_S,
            )  # fmt: skip
            batches = iter(loader)
            try:
                return [_digest(batch) for batch in batches]
            finally:
                # Else an error's traceback keeps it, and the next workers are forked with it.
                batches._shutdown_workers()


class Strike:
    """Asked by the server for each request: the fault, at its moment."""

    def __init__(self, stage: Stage, case: Case, moment: str, requests: int) -> None:
        self._stage = stage
        self._case = case
        self._moment = moment
        self._made = False
        self._requests = requests
        self.data: list[tuple[str, str | None]] = []
        self._target: tuple[str, str | None] | None = None
        self.struck = False

    def made(self) -> None:
        """The dataset is there, and no more than that."""
        self._made = True
        if self._case.fault in CHANGES and self._moment == "footer":
            self._change("train/part-1.parquet")

    def __call__(self, request):
        unheeded = Fault("unconditional") if self._case.fault == "change unheeded" else None
        key = (request.path, request.range)
        if self._target is None and self._is_moment(request, key):
            self._target = key
        if key != self._target or (self.struck and not self._case.again):
            return unheeded
        if self._case.fault in CHANGES:
            if self._moment != "footer":
                self._change("train/" + (request.path.partition("train/")[2] or "part-1.parquet"))
            return unheeded
        self.struck = True
        if self._case.fault == "redirect":
            return Fault(307, headers={"Location": self._stage.other.url + request.target})
        if self._case.fault == "nowhere":
            nowhere = "http://no-such-host.invalid"
            return Fault(307, headers={"Location": nowhere + request.target})
        return self._case.fault

    def _is_moment(self, request, key) -> bool:
        if request.range is None:
            return self._moment == "listing" and not self._made
        if not self._made:
            return self._moment == "footer"
        if key not in self.data:
            self.data.append(key)
        half = self._requests // 2
        numbers = {"first row group": 1, "mid-epoch": half, "last request": self._requests}
        return len(self.data) == numbers.get(self._moment)

    def _change(self, name: str) -> None:
        self.struck = True
        self._stage.server.put(BUCKET, name, self._stage.files[name])


def _write(path: Path, seed: int) -> None:
    """Columns a and b, each larger than a fault's `after`, with a column before each of them.

    So no request holds two column chunks, whatever is asked for at the same time.
    """
    random = np.random.default_rng(seed)
    rows = GROUPS * GROUP_ROWS
    table = pa.table({name: random.integers(0, 1 << 60, rows) for name in "xayb"})
    pq.write_table(
        table, path, row_group_size=GROUP_ROWS, compression="none", use_dictionary=False,
        write_page_checksum=True,
    )  # fmt: skip


def _digest(batch) -> str:
    return hashlib.sha256(b"".join(batch[name].numpy().tobytes() for name in "ab")).hexdigest()


def _own_message(text: str) -> str:
    """Of an error that a worker raised, the last line: without the traceback."""
    found = re.findall(r"^fastload\.errors\.\w+: (.*)$", text, re.MULTILINE)
    return found[-1] if found else text


def is_as_expected(name: str, moment: str, ended: str, seconds: float, message: str) -> bool:
    """The right ending, in time, with its place in the error."""
    if ended != CASES[name].ending(moment) or seconds > LIMIT_S:
        return False
    return ended == HEALED or f" - at gs://{BUCKET}/train/" in message


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--transports", default=",".join(TRANSPORTS))
    parser.add_argument("--faults", default=",".join(CASES))
    parser.add_argument("--moments", default=",".join(MOMENTS))
    arguments = parser.parse_args()
    moments = arguments.moments.split(",")
    unexpected = []
    with tempfile.TemporaryDirectory() as directory:
        stage = Stage(Path(directory))
        for mode in sorted(arguments.modes.split(","), key=MODES.index):
            for transport in arguments.transports.split(","):
                print(f"\n{transport}, {mode}")
                print(f"{'':20}" + "".join(f"{moment:>24}" for moment in moments))
                for name in arguments.faults.split(","):
                    cells = []
                    for moment in moments:
                        faulthandler.dump_traceback_later(3 * LIMIT_S, exit=True)
                        ended, seconds, message = stage.run(name, moment, transport, mode)
                        right = is_as_expected(name, moment, ended, seconds, message)
                        if not right:
                            unexpected.append((name, moment, transport, mode, ended, message))
                        cells.append(f"{'' if right else '! '}{ended} {seconds:.1f}")
                    print(f"{name:20}" + "".join(f"{cell:>24}" for cell in cells), flush=True)
        faulthandler.cancel_dump_traceback_later()
        stage.close()
    for case in unexpected:
        print("unexpected:", *case)
    print(f"\n{len(unexpected)} of the endings are not as expected")
    sys.exit(bool(unexpected))


if __name__ == "__main__":
    main()
