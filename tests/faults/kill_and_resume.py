"""Kills training runs at random instants, and has each go on from the last state it saved.

    python tests/faults/kill_and_resume.py [--kills 300] [--seed 0]

A trainer writes, after each batch, the batch's rows and the state in one step to a journal. It, a
worker process of its, or a reader that fills the same cache is killed; another trainer goes on
where the journal ends. Whatever was killed when: of each epoch that is over the journal has every
row exactly once, and of the one that runs no row twice. Runs take turns in how they read: on
threads, by two worker processes, and through a cache of a store.
"""

import argparse
import faulthandler
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from torch.utils.data import DataLoader

from fastload import IO, Cache, FastParquetDataset

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from support.stored_dataset import served

FILES, GROUPS, GROUP_ROWS = 3, 4, 500
ROWS = FILES * GROUPS * GROUP_ROWS
BATCH = 40
KINDS = ("threads", "workers", "cache")
KILLED_BY_HAND = -signal.SIGKILL
WAITS_S = 60


def write_files(directory):
    directory.mkdir()
    for number in range(FILES):
        first = number * GROUPS * GROUP_ROWS
        table = pa.table({"id": np.arange(first, first + GROUPS * GROUP_ROWS)})
        pq.write_table(table, directory / f"part-{number}.parquet", row_group_size=GROUP_ROWS)
    return directory


def last_state(journal):
    """Of the last whole line; what follows it, cut off by a kill, is removed."""
    data = journal.read_bytes() if journal.exists() else b""
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.truncate(journal, whole)
    if not whole:
        return None
    return json.loads(data[:whole].splitlines()[-1])["state"]


class Run:
    """A training run of one kind, as long as it takes.

    Args:
        kind: how it reads.
        place: a directory of its own.
        source: of the files.
        options: of the dataset.
    """

    def __init__(self, kind, place, source, **options):
        place.mkdir()
        self.kind = kind
        self.journal = place / "journal"
        self._source = source
        self._options = {"batch_size": BATCH, "shuffle": True, "shuffle_window": 900, **options}
        self._workers = 2 if kind == "workers" else 0
        self.kills = 0

    def _dataset(self):
        return FastParquetDataset(self._source, threads=1, memory_budget="64MB", **self._options)

    def train(self):
        """Until it is killed; in a process of its own."""
        state = last_state(self.journal)
        with self._dataset() as dataset:
            if state is not None:
                dataset.load_state_dict(state)
            journal = os.open(self.journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            while True:
                for batch in DataLoader(dataset, batch_size=None, num_workers=self._workers):
                    state = dataset.state_dict(after=batch)
                    line = json.dumps({"ids": batch["id"].tolist(), "state": state}) + "\n"
                    os.write(journal, line.encode())

    def read(self):
        """Fills the cache, from a seed of its own, until it is killed."""
        with self._dataset() as dataset:
            while True:
                for batch in dataset:
                    assert len(batch["id"]) <= BATCH

    def check(self):
        """What the journal has so far; returns the epochs that are over."""
        epochs = {}
        for line in self.journal.read_bytes().split(b"\n")[:-1]:
            record = json.loads(line)
            epochs.setdefault(record["state"]["epoch"], []).extend(record["ids"])
        assert list(epochs) == list(range(len(epochs))), f"epochs {list(epochs)}"
        for epoch, ids in epochs.items():
            twice = [row for row, count in Counter(ids).items() if count > 1]
            assert not twice, f"{self.kind}: rows {twice[:5]} twice in epoch {epoch}"
            over = epoch + 1 in epochs
            assert not over or len(ids) == ROWS, f"{self.kind}: {len(ids)} rows in epoch {epoch}"
            assert set(ids) <= set(range(ROWS))
        return max(0, len(epochs) - 1)


def begin(work, log):
    """A process of its own, and of its own group, that does the work until it is killed."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        try:
            # What a worker that was killed has the others say is not of interest.
            silent = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silent, 2)
            # Should it hang, it says where.
            told = os.open(log, os.O_WRONLY | os.O_APPEND)
            faulthandler.dump_traceback_later(WAITS_S - 5, file=told)
            work()
        except BaseException:  # noqa: BLE001 - the parent reads it
            with open(log, "a") as file:
                file.write(traceback.format_exc() + "\n---\n")
            # At once, while the traceback holds the DataLoader's iterator: torch raises for a
            # killed worker in a handler of signals, at times where a queue has just been locked,
            # and the iterator's end would wait for that queue for ever.
            os._exit(1)
        os._exit(0)
    return child


def children_of(process):
    try:
        text = Path(f"/proc/{process}/task/{process}/children").read_text()
    except OSError:
        return []
    return [int(child) for child in text.split()]


def ended(process, log):
    """Its exit code, waited for."""
    deadline = time.monotonic() + WAITS_S
    while time.monotonic() < deadline:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.killpg(process, signal.SIGKILL)
    raise AssertionError(f"process {process} hangs: {log.read_text()}")


def wait_for_growth(journal, before, process):
    """Until a batch more is in the journal, so that each trainer gets somewhere."""
    deadline = time.monotonic() + WAITS_S
    while time.monotonic() < deadline:
        if journal.exists() and journal.stat().st_size > before:
            return
        if os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return
        time.sleep(0.001)
    raise AssertionError("no batch within a minute")


def ends_by_itself(trainer, journal):
    """Whether a trainer misses its worker; one that had done its work is not missed."""
    before = journal.read_bytes().count(b"\n")
    deadline = time.monotonic() + WAITS_S
    while time.monotonic() < deadline:
        if os.waitid(os.P_PID, trainer, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return True
        if journal.read_bytes().count(b"\n") > before + 2 * ROWS // BATCH:
            return False
        time.sleep(0.01)
    return True  # to be found hanging


def kill_once(run, reader, choice, log):
    """A trainer goes on, something is killed; returns what."""
    before = run.journal.stat().st_size if run.journal.exists() else 0
    trainer = begin(run.train, log)
    # Some are killed before their first batch.
    if choice.random() < 0.8:
        wait_for_growth(run.journal, before, trainer)
    time.sleep(choice.random() ** 2 * 0.25)
    victim = "trainer"
    if run.kind == "workers" and choice.random() < 0.5:
        workers = children_of(trainer)
        if workers:
            os.kill(choice.choice(workers), signal.SIGKILL)
            victim = "worker"
    if reader is not None and choice.random() < 0.5:
        os.kill(reader, signal.SIGKILL)
        ended(reader, log)
        victim = "reader"
        time.sleep(0.02)
    if victim != "worker":
        os.kill(trainer, signal.SIGKILL)
    elif not ends_by_itself(trainer, run.journal):
        os.kill(trainer, signal.SIGKILL)
        victim = "worker at its end"
    code = ended(trainer, log)
    expected = (KILLED_BY_HAND,) if victim != "worker" else (1, KILLED_BY_HAND)
    assert code in expected, f"a trainer ended with {code}: {log.read_text()}"
    # Orphans see that their parent is gone, but not at once.
    for orphan in () if victim == "worker" else children_of(trainer):
        os.kill(orphan, signal.SIGKILL)
    run.kills += 1
    return victim


def serve(directory, ready):
    """In a process of its own: threads are no company for forks."""
    with served(sorted(directory.iterdir())) as server:
        os.write(ready, json.dumps(server.options).encode())
        signal.pause()


def serving(directory, log):
    """Returns (process, storage_options)."""
    ear, ready = os.pipe()
    server = begin(lambda: serve(directory, ready), log)
    options = json.loads(os.read(ear, 4096))
    os.close(ear)
    os.close(ready)
    return server, options


def run_all(place, kills, seed):
    """Returns the runs and how many of what was killed."""
    choice = random.Random(seed)
    files = write_files(place / "files")
    os.environ["FASTLOAD_CACHE_DIR"] = str(place / "home")
    log = place / "log"
    log.touch()
    server, options = serving(files, log)
    remote = {
        "source": "gs://bucket/train/*.parquet",
        "storage_options": options,
        "io": IO(transport="fsspec", timeout_s=10),
        "cache": Cache(place / "cache", max_bytes=64 << 10),
    }
    runs = [Run(kind, place / kind, files) for kind in KINDS[:2]]
    runs.append(Run(KINDS[2], place / KINDS[2], **remote))
    filler = Run("filler", place / "filler", seed=1, **remote)
    killed = Counter()
    reader = begin(filler.read, log)
    try:
        for kill in range(kills):
            run = runs[kill % len(runs)]
            cached = run.kind == "cache"
            victim = kill_once(run, reader if cached else None, choice, log)
            killed[victim] += 1
            if victim == "reader":
                reader = begin(filler.read, log)
            run.check()
    finally:
        for process in (reader, server):
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
    return runs, killed


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        runs, killed = run_all(Path(place), options.kills, options.seed)
        print(f"{'run':10}{'kills':>8}{'epochs over':>14}{'batches':>10}")
        for run in runs:
            batches = run.journal.read_bytes().count(b"\n")
            print(f"{run.kind:10}{run.kills:8}{run.check():14}{batches:10}")
    told = ", ".join(f"{count} x {what}" for what, count in sorted(killed.items()))
    seconds = time.monotonic() - began
    print(f"killed: {told}, in {seconds:.0f} s; every row once in each epoch that is over")


if __name__ == "__main__":
    main()
