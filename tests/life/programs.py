"""Programs at random against an oracle: files, options, workers, resumes and damage from one seed.

    python tests/life/programs.py --programs 5000 --seed 1

Batches say where their rows come from, and pyarrow gives the values of these rows. Programs run in
forks of one process, so that one that crashes or hangs ends alone. A program that fails is made
smaller, feature by feature, and its command is printed.
"""

import argparse
import faulthandler
import json
import os
import sys
import tempfile
import time
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from pathlib import Path
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "properties"))

from drawing import FILTERS, NAMES, STEPS, WITHOUT, drawn, drawn_seeds, without
from oracle import Oracle, UnreadError
from pyarrow.fs import LocalFileSystem
from torch.utils.data import DataLoader

import fastload
from fastload import CorruptFileError, FastParquetDataset
from fastload.plan import parts
from fastload.plan.position import Leg
from fastload.plan.substitution import NothingReadableError
from fastload.source import footers
from support.forked import run_forked

# Arguments of a dataset that a program holds as they are.
AS_DRAWN = ["split", "limit", "offset", "shuffle", "drop_last", "uneven", "nulls", "threads"]
TIMEOUT_S = 60
LIMIT_S = 180  # of a program
TOGETHER = 100  # programs of a process
IMPORTS = ["hypothesis", "numba", "pyarrow.compute", "pyarrow.fs", "pyarrow.parquet"]


class Life:
    """The passes of a program, checked against its oracle."""

    def __init__(self, program, directory):
        self.program = program
        self.directory = directory
        self.oracle = Oracle(program, directory / "files")
        self.largest = 0

    def dataset(self, rank, world):
        p = self.program
        steps = [STEPS[name] for name in p["preprocess"]]
        return FastParquetDataset(
            self.oracle.source,
            columns=self.oracle.columns,
            filters=FILTERS[p["filters"]]() if p["filters"] else None,
            shuffle_window=p["window"],
            seed=p["order"],
            rank=rank,
            world_size=world,
            preprocess=steps or None,
            augment=drawn_seeds if p["augment"] else None,
            cache=self.directory / "cache" if p["cache"] else None,
            filesystem=LocalFileSystem() if p["store"] else None,
            memory_budget=p["memory"],
            prefetch=p["prefetch"],
            on_error="skip" if p["damage"] else "raise",
            weights=self.oracle.weights,
            provenance=True,
            **{name: p[name] for name in AS_DRAWN},
            **p["form"],
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
        if p["mixed"] and p["uneven"] != "keep" and not self.oracle.lost:
            self._run_mixed()
        if p["stateful"] is not None and not self.oracle.lost:
            self._run_stateful(p["stateful"])
        state, delivered = None, []
        for number, (world, workers, steps) in enumerate(p["legs"], 1):
            try:
                last = number == len(p["legs"])
                ranks = [
                    self._run_rank(state, world, workers, k, steps, last) for k in range(world)
                ]
            except NothingReadableError:
                return
            delivered += chain.from_iterable(rows for rows, *_ in ranks)
            *_, state = max(ranks, key=lambda rank: rank[1])
        self.oracle.check_epoch(delivered, p["epoch"], self.largest)

    def _run_rank(self, state, world, workers, rank, steps, last):
        """Run a leg of a rank; return what it delivers, the number of batches, and the state."""
        epoch = self.program["epoch"]
        with self.dataset(rank, world) as dataset:
            if state is not None:
                dataset.load_state_dict(state)
            dataset.set_epoch(epoch)
            before = dataset.state_dict()
            legs = [Leg(*leg) for leg in before["progress"]]
            done = first = sum(leg.delivered for leg in legs)
            if legs and legs[-1].continues(world, max(1, workers)):
                # The leg goes on, and rows that the rank has delivered in it stand in, too.
                first -= legs[-1].delivered
            count = len(dataset)
            own = set()
            if self.oracle.lost and first < count:
                own = set(
                    self.oracle.ids(dataset.rows_of(range(first, count), rank, num_workers=workers))
                )
            loader = self.loader(dataset, workers)
            batches, after = self._taken(dataset, loader, steps, own)
            want = count - done if steps is None else min(count - done, steps)
            assert len(batches) == want, f"{len(batches)} batches, not {want}"
            span = range(done, done + len(batches))
            rows = self.oracle.check(dataset, batches, span, epoch, own)
            self.largest = max([self.largest, *(batch.rows for batch in batches)])
            for later in range(1, self.program["epochs"] if last and not self.oracle.lost else 1):
                self._run_later(dataset, loader, epoch + later)
        return rows, len(batches), after or before

    def _taken(self, dataset, loader, steps, own):
        """Take batches, and the state after the last; None if there is none."""
        batches, after = [], None
        try:
            for batch in islice(iter(loader), steps):
                after = dataset.state_dict(after=batch)
                batches.append(batch.clone())
        except CorruptFileError as error:
            if "to replace unreadable" in str(error) and own <= self.oracle.lost:
                raise NothingReadableError from error
            raise
        return batches, after

    def _run_later(self, dataset, loader, epoch):
        """Without set_epoch the next pass is the next epoch."""
        batches, _ = self._taken(dataset, loader, None, ())
        self.oracle.check(dataset, batches, range(len(batches)), epoch)

    def _run_stateful(self, workers):
        from torchdata.stateful_dataloader import StatefulDataLoader

        def loader(dataset):
            return StatefulDataLoader(
                dataset, batch_size=None, num_workers=workers, timeout=TIMEOUT_S * bool(workers)
            )

        epoch = self.program["epoch"]
        with self.dataset(0, 1) as first, self.dataset(0, 1) as second:
            first.set_epoch(epoch)
            count = len(first)
            after = self.program["seed"] % (count + 1)
            if not 0 < after < count:
                return
            running = loader(first)
            batches = [batch.clone() for batch in islice(iter(running), after)]
            state = running.state_dict()
            resumed = loader(second)
            resumed.load_state_dict(state)
            batches += [batch.clone() for batch in resumed]
            assert len(batches) == count, f"{len(batches)} batches, not {count}"
            self.oracle.check(first, batches, range(len(batches)), epoch)

    def _run_mixed(self):
        sources = {name: self.dataset(0, 1) for name in ("one", "other")}
        with fastload.mix(sources, seed=self.program["seed"], stop="all") as mixed:
            count = len(mixed)
            batches = [(batch.source, batch.clone()) for batch in mixed]
            assert len(batches) == count, f"{len(batches)} batches, not {count}"
        for name, dataset in sources.items():
            own = [batch for source, batch in batches if source == name]
            self.oracle.check(dataset, own, range(len(own)), 0)


def run(program):
    """Run a program here; return what went wrong, or None."""
    with tempfile.TemporaryDirectory() as directory, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        unpacked = 0 if program["packed"] else footers._UNPACKED_BYTES
        # Prepared rows of a program are several files, unless workers don't inherit the number.
        part_bytes = 1000 if program["start"] == "fork" else parts._PART_BYTES
        try:
            with (
                patch.object(footers, "_UNPACKED_BYTES", unpacked),
                patch.object(parts, "_PART_BYTES", part_bytes),
            ):
                Life(program, Path(directory)).run()
        except UnreadError:
            return None
        except Exception:  # noqa: BLE001 - whatever it is
            return traceback.format_exc(limit=-6)
    return None


def program_of(seed, left_out):
    program = drawn(seed)
    for name in left_out:
        program = without(program, name)
    return program


def failures(seeds, left_out=()):
    """Run the programs of seeds in a process of their own; yield (seed, message) of failures."""
    seeds = list(seeds)
    while seeds:
        last = seeds[-1]
        command = [__file__, "--here", "--without", ",".join(left_out), "--seed", str(seeds[0])]
        command += ["--programs", str(len(seeds))]
        ended = run_forked(command, timeout=LIMIT_S * len(seeds) + 60, imports=IMPORTS)
        for line in ended.stdout.splitlines():
            message = json.loads(line)
            if message:
                yield seeds[0], message
            seeds = seeds[1:]
        if ended.returncode or seeds:  # after the last one, too
            told = ended.stderr.partition("\nExtension modules:")[0][:9000]
            yield (seeds or [last])[0], f"exit code {ended.returncode}\n{told}"
        seeds = seeds[1:]


def run_here(seeds, left_out):
    """Run programs, and print a line of each at its end; one that hangs ends the process."""
    faulthandler.enable()
    for seed in seeds:
        faulthandler.dump_traceback_later(LIMIT_S, exit=True)
        print(json.dumps(run(program_of(seed, left_out))), flush=True)
    faulthandler.cancel_dump_traceback_later()


def smaller(seed, left_out):
    """Leave features out of a program that fails; return the names of all that it lacks."""
    names = [*WITHOUT, "groups", "legs", "workers"]
    columns = [f"columns.{NAMES.index(name)}" for name in drawn(seed)["columns"]]
    names[1:1] = columns
    for name in names:
        program = program_of(seed, left_out)
        if without(program, name) != program and any(failures([seed], [*left_out, name])):
            left_out = [*left_out, name]
    return left_out


def report(seed, message, left_out=()):
    """What to print of a program that failed."""
    less = smaller(seed, list(left_out))
    command = f"python tests/life/programs.py --seed {seed} --programs 1"
    command += f" --without {','.join(less)}" if less else ""
    return f"=== program {seed} failed\n{message}\n{program_of(seed, less)}\n\n{command}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without", default="", help="features to leave out, with commas")
    parser.add_argument("--here", action="store_true", help="run them in this process")
    parser.add_argument("--whole", action="store_true", help="don't make failing programs smaller")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    left_out = [name for name in arguments.without.split(",") if name]
    seeds = range(arguments.seed, arguments.seed + arguments.programs)
    if arguments.here:
        run_here(seeds, left_out)
        return 0

    def shown(some):
        failed = 0
        for seed, message in failures(some, left_out):
            failed += 1
            text = f"=== program {seed} failed\n{message}\n"
            print(text if arguments.whole else report(seed, message, left_out), flush=True)
        return failed

    began = time.monotonic()
    batches = [seeds[at : at + TOGETHER] for at in range(0, len(seeds), TOGETHER)]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        failed = sum(pool.map(shown, batches))
    seconds = time.monotonic() - began
    print(f"{arguments.programs} programs in {seconds:.0f} s, {failed} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
