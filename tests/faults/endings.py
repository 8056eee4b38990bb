"""Ends passes of a DataLoader in one way after the other, and says how each went.

A program of its own, which test_matrix.py runs. It prints a line of JSON when an ending begins,
and one when it is over.
"""

import contextlib
import faulthandler
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from pathlib import Path

import torch
from torch.utils.data import DataLoader

from fastload import FastParquetDataset

ROWS, BATCH = 2000, 100
HALF = ROWS // BATCH // 2
DEADLINE_S = 60
EXIT_CODE = 3  # of the ending that leaves the process
KEPT = []  # until the interpreter ends


class Pause:
    """A collate_fn that waits while a file is there."""

    def __init__(self, path):
        self.path = path

    def __call__(self, batch):
        while os.path.exists(self.path):
            time.sleep(0.02)
        return batch


def with_much_more(batch):
    """What takes a while to send."""
    batch["ones"] = torch.ones(20_000_000)
    return batch


def dataset_of(path, threads=2):
    return FastParquetDataset(
        path, batch_size=BATCH, shuffle=True, shuffle_window=ROWS // 4, threads=threads
    )


def expected_ids(path, workers, epochs):
    """The ids of the batches of each epoch in the order in which workers deliver them."""
    with dataset_of(path, threads=0) as dataset:
        passes = [[batch["id"].tolist() for batch in dataset] for _ in range(epochs)]
    share = ROWS // BATCH // max(1, workers)
    turns = [worker * share + k for k in range(share) for worker in range(max(1, workers))]
    return [[batches[k] for k in turns] for batches in passes]


class Consumer:
    """Runs passes, an epoch each, of a dataset behind one DataLoader after the other."""

    def __init__(self, path, context, workers, *, persistent):
        self.pause = Pause(f"{path}.{os.getpid()}.pause")
        self.options = {"num_workers": workers, "collate_fn": self.pause}
        if workers:
            self.options |= {"multiprocessing_context": context, "persistent_workers": persistent}
        self.persistent = persistent
        self.dataset = dataset_of(path)
        self.expected = iter(expected_ids(path, workers, len(ENDINGS)))
        self.renew()

    def renew(self):
        self.loader = DataLoader(self.dataset, batch_size=None, **self.options)

    def consume(self, at_half):
        """One pass, which ends early if `at_half` raises or returns True in the middle."""
        expected, self.delivered = next(self.expected), 0
        for batch in self.loader:
            ids = batch["id"].tolist()
            assert ids == expected[self.delivered], f"wrong rows in batch {self.delivered}"
            assert batch["name"].tolist() == [f"row {k}" for k in ids], "wrong text"
            self.delivered += 1
            if self.delivered == HALF:
                self.workers = multiprocessing.active_children()
                self.since = time.monotonic()
                if at_half():
                    break

    def check_workers(self, *, live_on):
        """Those of the pass that ended have ended well, or live on."""
        for worker in self.workers:
            if live_on:
                assert worker.is_alive(), "a worker that should live on is gone"
                continue
            worker.join(DEADLINE_S)
            assert worker.exitcode == 0, f"a worker's exit code is {worker.exitcode}"


def full_epoch(consumer):
    begun = time.monotonic()
    consumer.consume(lambda: False)
    consumer.since = begun
    assert consumer.delivered == 2 * HALF, f"{consumer.delivered} batches"
    consumer.check_workers(live_on=consumer.persistent)


def abandoned(consumer):
    consumer.consume(lambda: True)
    consumer.check_workers(live_on=consumer.persistent)


def exception(consumer):
    def fail():
        raise LookupError

    with contextlib.suppress(LookupError):
        consumer.consume(fail)
    consumer.check_workers(live_on=consumer.persistent)


def ctrl_c(consumer):
    """To the whole group of processes, while the consumer waits for workers."""

    def press():
        consumer.since = time.monotonic()
        os.killpg(0, signal.SIGINT)

    def press_soon():
        Path(consumer.pause.path).touch()
        threading.Timer(0.3, press).start()

    try:
        consumer.consume(press_soon)
    except KeyboardInterrupt:
        pass
    else:
        raise AssertionError("not interrupted")
    finally:
        Path(consumer.pause.path).unlink()
    consumer.loader = None
    consumer.check_workers(live_on=False)
    consumer.renew()


def live_iterator(consumer):
    running = iter(consumer.loader)
    KEPT.append(running)
    expected = next(consumer.expected)
    assert [next(running)["id"].tolist() for _ in range(HALF)] == expected[:HALF], "wrong rows"
    say("live iterator", since=time.monotonic())
    sys.exit(EXIT_CODE)


ENDINGS = {
    "full epoch": full_epoch,
    "abandoned": abandoned,
    "exception": exception,
    "Ctrl-C": ctrl_c,
    "live iterator": live_iterator,
}


def say(ending, **about):
    print(json.dumps({"ending": ending, **about}), flush=True)


def run_endings(consumer):
    for name, end in ENDINGS.items():
        say(name)
        faulthandler.dump_traceback_later(DEADLINE_S, exit=True)
        try:
            end(consumer)
            say(name, seconds=time.monotonic() - consumer.since)
        except Exception as error:
            say(name, wrong=f"{type(error).__name__}: {error}")
            raise


def run_passes(consumer):
    """Until Ctrl-C, which nobody catches."""
    faulthandler.dump_traceback_later(DEADLINE_S, exit=True)
    while True:
        for batch in consumer.loader:
            if int(batch["id"][0]) >= 0:
                say("passes run")


def main(path, context, workers, persistent, endless):
    warnings.filterwarnings("ignore", "This DataLoader will create")
    # A shell that runs the tests in the background has its children ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if context == "forkserver":
        multiprocessing.get_context(context).set_forkserver_preload(["fastload"])
    consumer = Consumer(path, context, int(workers), persistent=persistent == "True")
    run = run_passes if endless == "True" else run_endings
    run(consumer)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from support.shared_memory import name_semaphores

    name_semaphores()
    main(*sys.argv[1:])
