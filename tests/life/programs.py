"""Programs at random against an oracle: files, options, workers, resumes and damage from one seed.

    python tests/life/programs.py --programs 5000 --seed 1

The plan's own functions give the order of rows; pyarrow gives the values. A program that fails
is made smaller, feature by feature, and its command is printed.
"""

import argparse
import decimal
import faulthandler
import os
import random
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from torch.utils.data import DataLoader

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import fastload
from fastload import Column, CorruptFileError, FastParquetDataset
from fastload.plan.options import Options
from fastload.plan.progress import advance
from fastload.plan.read_plan import epoch_rows, read_plan, rows_of
from fastload.plan.sequence import RowGroups
from fastload.plan.substitution import NothingReadableError
from fastload.rows.predicate import parse_split
from fastload.rows.row_hash import hash_columns
from fastload.testing import assert_same_rows

TIMEOUT_S = 120
NAMES = ["a b", "größe", "日本", "tab\t", "q'\"", "x/y", "%s", "a__b", "A", "dot.ted", "名 前"]
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


def double(block):
    return {"double": block["id"] * 2}


def halve(block):
    return {"half": block["id"] / 2}


def describe(number):
    return f"row {number}", [number] * (number % 3)


@fastload.kernel(inputs=["id"], outputs={"third": np.int64})
def third(ids, out):
    for i in range(len(ids)):
        out[i] = ids[i] // 3


def drawn_seeds(batch, seeds):
    return {"seeds": np.asarray(seeds).astype(np.int64)}


PER_ROW = fastload.per_row(describe, ["id"], {"text of": None, "list of": "ragged"}, threads=2)
STEPS = {
    "numpy": double,
    "per_block": fastload.per_block(halve, threads=2),
    "per_row": PER_ROW,
    "kernel": third,
}
ADDED = {"double", "half", "third", "text of", "list of", "seeds"}


ODD_FLOATS = [0.0, -0.0, np.nan, np.inf, -np.inf, 1.5, 1e300]
# For each kind of column: its type, and the value that an integer gives.
KINDS = {
    "float": (pa.float64(), lambda n: ODD_FLOATS[n % len(ODD_FLOATS)]),
    "few": (pa.int16(), lambda n: n % 3),
    "nulls": (pa.int64(), lambda n: n if n % 4 else None),
    "bool": (pa.bool_(), lambda n: n > 0),
    "string": (pa.string(), lambda n: chr(97 + n % 26) * (n % 9) + "é" * (n % 2)),
    "decimal": (pa.decimal128(12, 3), lambda n: decimal.Decimal(n) / 8),
    "timestamp": (pa.timestamp("us", "UTC"), lambda n: n * 10**6),
    "date": (pa.date32(), lambda n: n),
    "list": (pa.list_(pa.int32()), lambda n: [n] * (n % 5)),
    "nested": (pa.list_(pa.list_(pa.float32())), lambda n: [[float(n)] * k for k in range(n % 4)]),
    "fixed": (pa.list_(pa.int16(), 3), lambda n: [n, 1, 2]),
    "nested fixed": (pa.list_(pa.list_(pa.int64(), 2)), lambda n: [[n, k] for k in range(n % 3)]),
    "strings": (pa.list_(pa.string()), lambda n: ["x" * k for k in range(n % 4)]),
}


def values_of(kind, rows, rng):
    """A column of a kind."""
    arrow, value = KINDS[kind]
    return pa.array([value(n) for n in rng.integers(-100, 100, rows).tolist()], arrow)


def drawn(seed):
    """Draw a program: a dict of plain values."""
    r = random.Random(seed)
    some = r.choice([1, 2, 3, 5, 12, 40, 200])
    files = [[r.randint(0, some) for _ in range(r.randint(0, 5))] for _ in range(r.randint(1, 4))]
    groups = sum(map(len, files))
    names = r.sample(NAMES, r.randint(0, 4))
    workers = lambda: r.choice([0, 0, 0, 0, 0, 0, 1, 2])  # noqa: E731
    legs = [
        (r.choice([1, 1, 2, 3, 7]), workers(), r.choice([0, 1, 2, 5, 20]))
        for _ in range(r.randint(0, 3))
    ]
    if r.random() < 0.4:
        legs = [(*legs[0][:2], steps) for *_, steps in legs]
    damage = r.random() < 0.25
    rows = r.random() < 0.1
    return {
        "seed": seed,
        "files": files,
        "columns": {name: r.choice(sorted(KINDS)) for name in names},
        "filters": r.choice([None, None, *FILTERS]),
        "split": r.choice([None, None, None, ("id", 0.2, 0.8), ("id", 0, 0.1)]),
        "limit": r.choice([None, None, None, r.randint(0, 60), 1000]),
        "shuffle": r.random() < 0.6,
        "window": r.choice([1, 2, 7, 30, 100, 10**6]),
        "uneven": r.choice(["wrap", "drop", "pad", "keep"]),
        "drop_last": r.random() < 0.25,
        "batch_size": 1 if rows else r.choice([1, 2, 3, 8, 20, 200]),
        "rows": rows,
        "provenance": r.random() < 0.3,
        "preprocess": () if rows else tuple(r.sample(sorted(STEPS), r.choice([0, 0, 0, 1, 2, 3]))),
        "augment": not rows and r.random() < 0.2,
        "cache": r.random() < 0.2,
        "damage": tuple(n for n in range(groups) if r.random() < 0.3) if damage else (),
        "legs": [*legs, (r.choice([1, 1, 2, 3, 7]), workers(), None)],
        "persistent": r.random() < 0.5,
        "start": r.choice(["fork"] * 30 + ["spawn"]),
        "stateful": r.choice([None] * 9 + [0, 1, 2]),
        "mixed": r.random() < 0.1,
        "threads": r.choice([0, 0, 1, 2]),
        "epoch": r.randint(0, 3),
        "order": r.choice([0, 1, 2**64 - 1, r.getrandbits(64)]),
        "write": {
            "compression": r.choice(["none", "snappy", "zstd"]),
            "use_dictionary": r.random() < 0.5,
            "data_page_version": r.choice(["1.0", "2.0"]),
            "data_page_size": r.choice([64, 1 << 20]),
            "write_statistics": r.random() < 0.8,
            "write_page_index": r.random() < 0.3,
        },
    }  # fmt: skip


FILTERS = {
    "id over 9": lambda: pc.field("id") > 9,
    "id odd": lambda: pc.bit_wise_and(pc.field("id"), 1) == 1,
    "NaN or key": lambda: pc.is_nan(pc.field("f")) | (pc.field("key") == 1),
    "not one": lambda: pc.field("f") != 1.5,
    "in zero": lambda: pc.field("f").isin([0.0, 1.5]),
    "not in": lambda: ~pc.field("f").isin([0.0, np.inf]) & (pc.field("key") < 2),
    "none": lambda: pc.field("key") > 99,
}


class Life:
    """The files of a program, and what is expected of them."""

    def __init__(self, program, directory):
        self.program = p = program
        self.directory = directory
        self.paths, tables, spots = [], [], []
        rng = np.random.default_rng(p["seed"])
        self.columns = {"id": "id", "key": "key", "f": "f", "hurt": "hurt"}
        schema, at = None, 0
        for number, groups in enumerate(p["files"]):
            rows = sum(groups)
            ids = np.arange(at, at + rows)
            at += rows
            made = {
                "id": pa.array(ids),
                "key": pa.array(rng.integers(0, 3, rows).astype(np.int8)),
                "f": values_of("float", rows, rng),
                "hurt": pa.array(ids + 7),
            }
            for name, kind in p["columns"].items():
                made[name] = values_of(kind, rows, rng)
                with_fill = Column(name, fill=-7, valid=True)
                self.columns[name] = with_fill if kind == "nulls" else name
            table = pa.table(made)
            schema = schema or table.schema
            path = directory / f"part {number}.parquet"
            tables.append(table)
            self.paths.append(str(path))
            self._write(path, table.cast(schema), groups)
            spots += [(number, k, n) for k, n in enumerate(groups)]
        self.table = pa.concat_tables(tables)
        self.group_of = np.repeat(np.arange(len(spots)), [n for *_, n in spots])
        lost = [n for n in p["damage"] if spots[n][2]]
        for n in lost:
            self._damage(*spots[n][:2])
        self.lost = set(np.flatnonzero(np.isin(self.group_of, lost)).tolist())
        kept = np.ones(at, bool)
        if p["filters"]:
            found = self.table.filter(FILTERS[p["filters"]]())["id"].to_numpy()
            kept &= np.isin(np.arange(at), found)
        if p["split"]:
            low, high = parse_split(p["split"]).bounds
            hashes = hash_columns([pa.array(np.arange(at))]).tolist() if at else []
            kept &= np.array([low <= h < high for h in hashes], bool)
        counts = np.bincount(self.group_of[kept], minlength=len(spots))
        self.kept = np.split(np.flatnonzero(kept), np.cumsum(counts)[:-1])
        self.number = {spot[:2]: k for k, spot in enumerate(spots)}
        file, index = (np.array([s[i] for s in spots], np.int64) for i in (0, 1))
        self.groups = RowGroups(counts.astype(np.int64), file, index)
        self.options = Options(
            batch_size=p["batch_size"],
            shuffle=p["shuffle"],
            shuffle_window=p["window"],
            seed=p["order"],
            drop_last=p["drop_last"],
            uneven=p["uneven"],
            limit=p["limit"],
        )
        self.seeds = {}  # by epoch and id: the seed that augment was given

    def _write(self, path, table, groups):
        with pq.ParquetWriter(path, table.schema, **self.program["write"]) as writer:
            at = 0
            for rows in groups:
                writer.write_table(table.slice(at, rows), row_group_size=max(1, rows))
                at += rows

    def _damage(self, file, group):
        chunk = pq.ParquetFile(self.paths[file]).metadata.row_group(group).column(3)
        with open(self.paths[file], "r+b") as written:
            written.seek(chunk.dictionary_page_offset or chunk.data_page_offset)
            written.write(b"\xff" * 16)

    def dataset(self, rank, world, **more):
        p = self.program
        steps = [STEPS[name] for name in p["preprocess"]]
        return FastParquetDataset(
            self.paths,
            **{
                "columns": self.columns,
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

    def ids(self, rows):
        return [int(self.kept[self.number[file, group]][row]) for file, group, row in rows.tolist()]

    def expected(self, epoch, progress, world, rank, workers):
        """The ids of each batch of a rank, as a DataLoader hands them out, and which are real."""
        count, size = max(1, workers), self.options.batch_size
        parts = []
        for worker in range(count):
            plan = read_plan(
                self.groups, self.options, epoch, progress, world, rank, count, worker,
                stripe_rows=4 * size,
            )  # fmt: skip
            ids = self.ids(rows_of(plan))
            real = [k < len(ids) - plan.padding for k in range(len(ids))]
            cut = range(0, len(ids), size)
            parts.append([(ids[k : k + size], real[k : k + size]) for k in cut])
        longest = max(map(len, parts))
        return [part[k] for k in range(longest) for part in parts if k < len(part)]

    def check(self, batches, want, epoch, own=None):
        """Check delivered batches against the ids that are expected of them.

        Args:
            batches: the batches.
            want: for each batch the ids, and which are real.
            epoch: the epoch.
            own: the ids of the rank in this leg; any unreadable row is one of these instead.
        """
        assert len(batches) == len(want), f"{len(batches)} batches, not {len(want)}"
        p = self.program
        for batch, (ids, real) in zip(batches, want, strict=True):
            got = [int(batch["id"])] if p["rows"] else batch["id"].tolist()
            substitutes = [k in self.lost for k in ids]
            assert [w for w, s in zip(ids, substitutes, strict=True) if not s] == [
                g for g, s in zip(got, substitutes, strict=True) if not s
            ], f"{got}, not {ids}"
            if any(substitutes):
                assert set(got) <= own - self.lost, f"{set(got) - (own - self.lost)} are not own"
            if p["uneven"] == "pad":
                marks = [bool(batch["__valid__"])] if p["rows"] else batch["__valid__"].tolist()
                marked = [r and not s for r, s in zip(real, substitutes, strict=True)]
                assert marks == marked, f"{marks}, not {marked}"
            if not p["rows"]:
                self._check_values(batch, got, epoch)

    def _check_values(self, batch, ids, epoch):
        table = self.table.take(pa.array(ids, pa.int64()))
        values = {n: v for n, v in batch.items() if n not in ADDED and not n.startswith("__")}
        assert_same_rows([values], table, self.columns)
        if self.program["provenance"]:
            first = np.cumsum([0, *(sum(groups) for groups in self.program["files"])])
            assert (batch["__row__"] + first[batch["__file__"].numpy()]).tolist() == ids
        if "numpy" in self.program["preprocess"]:
            assert batch["double"].tolist() == [2 * k for k in ids]
        if "per_block" in self.program["preprocess"]:
            assert batch["half"].tolist() == [k / 2 for k in ids]
        if "kernel" in self.program["preprocess"]:
            assert batch["third"].tolist() == [k // 3 for k in ids]
        if "per_row" in self.program["preprocess"]:
            assert list(batch["text of"]) == [describe(k)[0] for k in ids]
            assert batch["list of"].tolist() == [describe(k)[1] for k in ids]
        if self.program["augment"]:
            for key, seed in zip(ids, batch["seeds"].tolist(), strict=True):
                assert self.seeds.setdefault((epoch, key), seed) == seed

    def own(self, epoch, progress, world, rank, workers):
        return {k for ids, _ in self.expected(epoch, progress, world, rank, workers) for k in ids}

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
        want = self.expected(epoch, progress, world, rank, workers)
        own = {k for ids, _ in want for k in ids}
        if progress and progress[-1].continues(world, workers):
            # The leg goes on, and rows that the rank has delivered in it stand in, too.
            own |= self.own(epoch, progress[:-1], world, rank, workers)
        with self.dataset(rank, world) as dataset:
            if state is not None:
                dataset.load_state_dict(state)
            dataset.set_epoch(epoch)
            done = sum(leg.delivered for leg in progress)
            assert len(dataset) == done + len(want), f"len {len(dataset)}"
            before = dataset.state_dict()
            batches, after = self._taken(dataset, workers, steps, own)
            self.check(batches, want[:steps], epoch, own)
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
            if "to replace unreadable" in str(error) and own <= self.lost:
                raise NothingReadableError from error
            raise
        return batches, after

    def _next_epoch(self, dataset, world, rank, workers):
        """Without set_epoch the next pass is the next epoch."""
        epoch = self.program["epoch"] + 1
        want = self.expected(epoch, (), world, rank, workers)
        own = {k for ids, _ in want for k in ids}
        batches, _ = self._taken(dataset, workers, None, own)
        self.check(batches, want, epoch, own)

    def _check_epoch(self, delivered):
        """Each row of the epoch comes once, but for what `uneven` and drop_last say."""
        p = self.program
        whole = Counter(self.ids(epoch_rows(self.groups, self.options, p["epoch"])))
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
        want = self.expected(epoch, (), 1, 0, workers)
        own = {k for ids, _ in want for k in ids}
        if own & self.lost and own <= self.lost:
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
                self.check(batches, want, epoch, own)

    def _run_mixed(self):
        p = self.program
        if p["rows"] or p["uneven"] == "keep":
            return
        want = self.expected(0, (), 1, 0, 0)
        own = {k for ids, _ in want for k in ids}
        if not want or own & self.lost:
            return
        sources = {name: self.dataset(0, 1) for name in ("one", "other")}
        with fastload.mix(sources, seed=p["seed"], stop="all") as mixed:
            batches = [(batch.source, batch.clone()) for batch in mixed]
            assert len(batches) == len(mixed) == 2 * len(want)
        for name in sources:
            self.check([b for source, b in batches if source == name], want, 0, own)


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
