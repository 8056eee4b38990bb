"""Programs at random against an oracle: files, options, workers, resumes and damage from one seed.

    python tests/life/programs.py --programs 5000 --seed 1

The plan's own functions give the order of rows; pyarrow gives the values. A program that fails
is made smaller, feature by feature, and its command is printed.
"""

import argparse
import faulthandler
import multiprocessing
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from itertools import islice
from pathlib import Path

from drawing import FILTERS, STEPS, drawn, drawn_seeds
from oracle import Oracle
from torch.utils.data import DataLoader

import fastload
from fastload import CorruptFileError, FastParquetDataset
from fastload.plan.position import advance
from fastload.plan.substitution import NothingReadableError
from support.plan_definition import epoch_rows

TIMEOUT_S = 120
# What stands for each feature in a program without the feature.
WITHOUT = {
    "columns": {},
    "filters": None,
    "split": None,
    "limit": None,
    "shuffle": False,
    "uneven": "wrap",
    "drop_last": False,
    "provenance": False,
    "preprocess": (),
    "augment": False,
    "cache": False,
    "damage": (),
    "persistent": False,
    "stateful": None,
    "mixed": False,
    "rows": False,
    "threads": 0,
    "epoch": 0,
    "write": {},
}


class Life:
    """The passes of a program, checked against its oracle."""

    def __init__(self, program, directory):
        self.program = program
        self.directory = directory
        self.oracle = Oracle(program, directory)

    def dataset(self, rank, world, **more):
        p = self.program
        steps = [STEPS[name] for name in p["preprocess"]]
        return FastParquetDataset(
            self.oracle.paths,
            **{
                "columns": self.oracle.columns,
                "batch_size": None if p["rows"] else p["batch_size"],
                "filters": FILTERS[p["filters"]]() if p["filters"] else None,
                "split": p["split"],
                "limit": p["limit"],
                "shuffle": p["shuffle"],
                "shuffle_window": p["window"],
                "seed": p["order"],
                "drop_last": p["drop_last"],
                "rank": rank,
                "world_size": world,
                "uneven": p["uneven"],
                "preprocess": steps or None,
                "augment": drawn_seeds if p["augment"] else None,
                "cache": self.directory / "cache" if p["cache"] else None,
                "threads": p["threads"],
                "memory_budget": "256MB",
                "on_error": "skip" if p["damage"] else "raise",
                "provenance": p["provenance"],
                **more,
            },
        )

    def loader(self, dataset, workers):
        if not workers:
            return dataset
        return DataLoader(
            dataset,
            batch_size=None,
            num_workers=workers,
            persistent_workers=self.program["persistent"],
            multiprocessing_context=self.program["start"],
            timeout=TIMEOUT_S,
        )

    def run(self):
        """Run the epoch over its legs, then the passes that follow."""
        p = self.program
        if p["mixed"]:
            self._run_mixed()
        if p["stateful"] is not None and not p["rows"]:
            self._run_stateful(p["stateful"])
        state, progress, delivered = None, (), []
        for world, workers, steps in p["legs"]:
            shape = (world, 0 if p["rows"] else workers)
            try:
                ranks = [self._run_rank(state, progress, shape, k, steps) for k in range(world)]
            except NothingReadableError:
                return
            delivered += [row for rows, _, _ in ranks for row in rows]
            _, batches, state = max(ranks, key=lambda rank: rank[1])
            if steps is not None:
                progress = advance(progress, world, max(1, shape[1]), batches)
        self._check_epoch(delivered)

    def _run_rank(self, state, progress, shape, rank, steps):
        """Run a leg of a rank; return its rows, the number of its batches, and the state then."""
        (world, workers), epoch = shape, self.program["epoch"]
        want = self.oracle.expected(epoch, progress, world, rank, workers)
        own = {k for ids, _ in want for k in ids}
        if progress and progress[-1].continues(world, workers):
            # The leg goes on, and rows that the rank has delivered in it stand in, too.
            own |= self.oracle.own(epoch, progress[:-1], world, rank, workers)
        with self.dataset(rank, world) as dataset:
            if state is not None:
                dataset.load_state_dict(state)
            dataset.set_epoch(epoch)
            done = sum(leg.delivered for leg in progress)
            assert len(dataset) == done + len(want), f"len {len(dataset)}"
            before = dataset.state_dict()
            batches, after = self._taken(dataset, workers, steps, own)
            self.oracle.check(batches, want[:steps], epoch, own)
            if steps is None and rank == world - 1 and self.program["seed"] % 3 == 0:
                self._next_epoch(dataset, world, rank, workers)
        rows = [row for pair in want[:steps] for row in zip(*pair, strict=True)]
        return rows, len(batches), after or before

    def _taken(self, dataset, workers, steps, own):
        """Take batches, and the state after the last; None if there is none."""
        batches, after = [], None
        try:
            for batch in islice(iter(self.loader(dataset, workers)), steps):
                if self.program["rows"]:
                    batches.append(batch)
                    after = dataset.state_dict()
                else:
                    after = dataset.state_dict(after=batch)
                    batches.append(batch.clone())
        except CorruptFileError as error:
            if "to replace unreadable" in str(error) and own <= self.oracle.lost:
                raise NothingReadableError from error
            raise
        return batches, after

    def _next_epoch(self, dataset, world, rank, workers):
        """Without set_epoch the next pass is the next epoch."""
        epoch = self.program["epoch"] + 1
        want = self.oracle.expected(epoch, (), world, rank, workers)
        own = {k for ids, _ in want for k in ids}
        batches, _ = self._taken(dataset, workers, None, own)
        self.oracle.check(batches, want, epoch, own)

    def _check_epoch(self, delivered):
        """Each row of the epoch comes once, but for what `uneven` and drop_last say."""
        p = self.program
        whole = Counter(
            self.oracle.ids(epoch_rows(self.oracle.groups, self.oracle.options, p["epoch"]))
        )
        real = Counter(k for k, mark in delivered if mark)
        worlds = sum(world for world, *_ in p["legs"])
        assert set(real) <= set(whole)
        again = sum((real - whole).values())
        assert again <= (worlds if p["uneven"] == "wrap" else 0), f"{again} rows came twice"
        allowed = worlds if p["uneven"] == "drop" else 0
        allowed += worlds * p["batch_size"] if p["drop_last"] else 0
        if p["uneven"] != "keep":  # its ranks end at different steps
            assert sum((whole - real).values()) <= allowed, "rows are missing"

    def _run_stateful(self, workers):
        from torchdata.stateful_dataloader import StatefulDataLoader

        epoch = self.program["epoch"]
        want = self.oracle.expected(epoch, (), 1, 0, workers)
        own = {k for ids, _ in want for k in ids}
        if own & self.oracle.lost and own <= self.oracle.lost:
            return

        def loader(dataset):
            return StatefulDataLoader(
                dataset, batch_size=None, num_workers=workers, timeout=TIMEOUT_S * bool(workers)
            )

        after = self.program["seed"] % (len(want) + 1)
        with self.dataset(0, 1) as first, self.dataset(0, 1) as second:
            first.set_epoch(epoch)
            running = loader(first)
            batches = [batch.clone() for batch in islice(iter(running), after)]
            state = running.state_dict()
            resumed = loader(second)
            resumed.load_state_dict(state)
            if 0 < after < len(want):
                batches += [batch.clone() for batch in resumed]
                self.oracle.check(batches, want, epoch, own)

    def _run_mixed(self):
        p = self.program
        if p["rows"] or p["uneven"] == "keep":
            return
        want = self.oracle.expected(0, (), 1, 0, 0)
        own = {k for ids, _ in want for k in ids}
        if not want or own & self.oracle.lost:
            return
        sources = {name: self.dataset(0, 1) for name in ("one", "other")}
        with fastload.mix(sources, seed=p["seed"], stop="all") as mixed:
            batches = [(batch.source, batch.clone()) for batch in mixed]
            assert len(batches) == len(mixed) == 2 * len(want)
        for name in sources:
            self.oracle.check([b for source, b in batches if source == name], want, 0, own)


def run(program):
    """Run a program; return what went wrong, or None."""
    with tempfile.TemporaryDirectory() as directory, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            Life(program, Path(directory)).run()
        except Exception:  # noqa: BLE001 - whatever it is
            return traceback.format_exc(limit=-6)
    return None


def smaller(program):
    """Leave features out of a program that fails; return their names."""
    out = []
    for name, nothing in WITHOUT.items():
        if program[name] != nothing and run({**program, name: nothing}):
            program = {**program, name: nothing}
            out.append(name)
    if len(program["legs"]) > 1 and run({**program, "legs": program["legs"][-1:]}):
        out.append("legs")
    return out


def without(program, names):
    program = {**program, **{name: WITHOUT[name] for name in names if name != "legs"}}
    return {**program, "legs": program["legs"][-1:]} if "legs" in names else program


def fails(seed, left_out=()):
    """Run the program of a seed; return the message of a failure, or None."""
    program = without(drawn(seed), left_out)
    message = run(program)
    if message is None:
        return None
    less = [*left_out, *smaller(program)]
    command = f"python tests/life/programs.py --seed {seed} --programs 1"
    command += f" --without {','.join(less)}" if less else ""
    return f"{message}\n{program}\n\n{command}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without", default="", help="features to leave out, with commas")
    arguments = parser.parse_args()
    faulthandler.enable()
    multiprocessing.set_forkserver_preload(["__main__", "torch", "fastload"])
    names = [name for name in arguments.without.split(",") if name]
    failed, began = 0, time.monotonic()
    for seed in range(arguments.seed, arguments.seed + arguments.programs):
        message = fails(seed, names)
        if message is not None:
            failed += 1
            print(f"=== program {seed} failed\n{message}", flush=True)
    seconds = time.monotonic() - began
    print(f"{arguments.programs} programs in {seconds:.0f} s, {failed} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
