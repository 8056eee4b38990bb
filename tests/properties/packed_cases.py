"""Documents, ways of packing and interruptions of a run, and the definition on plain lists."""

import itertools
import os
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from plan_cases import even_slices, plain_outputs, plain_remaining

from fastload import Pack, TokenBudget
from fastload.plan.options import Options
from fastload.plan.permutation import stream_key
from fastload.plan.position import Leg, going_on
from fastload.plan.sequence import RowGroups
from support.packing import balanced_order, best_fit
from support.plan_definition import epoch_rows

# Of each property; `make test-semantics EXAMPLES=10000` sets it.
EXAMPLES = int(os.environ.get("FASTLOAD_EXAMPLES", "120"))


@dataclass(frozen=True)
class Document:
    """A row of the files; `tokens` is empty for a null list."""

    file: int
    row: int
    row_group: int  # among the row groups of all files
    tokens: list[int]


@dataclass(frozen=True)
class Run:
    files: list[list[list[int | None]]]  # lengths by file and row group, None for a null list
    spec: Pack | TokenBudget
    options: dict
    legs: list[tuple[int, int, int | None]]  # world, workers, batches of each rank (None = all)
    epoch: int

    @property
    def packed(self):
        return isinstance(self.spec, Pack)

    @property
    def arguments(self):
        """The arguments of the dataset."""
        if self.packed:
            return {**self.options, "pack": self.spec}
        return {**self.options, "batch_size": self.spec, "columns": ["t", "l"]}

    @property
    def documents(self):
        """All documents, in canonical order."""
        found, token, group = [], 1, -1
        for file, groups in enumerate(self.files):
            row = 0
            for lengths in groups:
                group += 1
                for length in lengths:
                    tokens = list(range(token, token + (length or 0)))
                    found.append(Document(file, row, group, tokens))
                    token += len(tokens)
                    row += 1
        return found

    def write(self, directory):
        """Write the files; return their paths."""
        paths, number = [], 0
        documents = iter(self.documents)
        kind = pa.list_(pa.int32())
        schema = pa.schema([("id", pa.int64()), ("t", kind), ("l", kind)])
        for file, groups in enumerate(self.files):
            paths.append(f"{directory}/{file:03d}.parquet")
            with pq.ParquetWriter(paths[-1], schema) as writer:
                for lengths in groups:
                    tokens = [next(documents).tokens for _ in lengths]
                    tokens = [
                        None if length is None else one
                        for one, length in zip(tokens, lengths, strict=True)
                    ]
                    labels = [None if one is None else [-t for t in one] for one in tokens]
                    ids = range(number, number + len(lengths))
                    writer.write_table(
                        pa.table(
                            [pa.array(ids), pa.array(tokens, kind), pa.array(labels, kind)],
                            schema=schema,
                        )
                    )
                    number += len(lengths)
        return paths


class Oracle:
    """The epoch of a run, by the definition.

    Attributes:
        units: the packed rows, each a list of pieces (document, first token, tokens); or the
            batches, each a list of documents.
    """

    def __init__(self, run):
        self.run = run
        keep = run.options["filters"]
        least = keep[0][2] if keep else 0
        stay = [d for number, d in enumerate(run.documents) if number >= least]
        counts = [0] * sum(map(len, run.files))
        for document in stay:
            counts[document.row_group] += 1
        groups = RowGroups(
            np.array(counts, np.int64),
            np.zeros(len(counts), np.int64),
            np.arange(len(counts)),
        )
        names = ("shuffle", "shuffle_window", "seed", "uneven", "limit", "drop_last")
        options = Options(
            batch_size=run.options.get("batch_size", 1), **{n: run.options[n] for n in names}
        )
        by_group = {}
        for document in stay:
            by_group.setdefault(document.row_group, []).append(document)
        order = [by_group[group][row] for _, group, row in epoch_rows(groups, options, run.epoch)]
        total = len(stay)
        count = max(1, total // options.shuffle_window)
        edges = [window * total // count for window in range(count + 1)]
        windows = [order[a:b] for a, b in itertools.pairwise(edges)]
        self._options = options
        if not run.packed:
            parts = [self._batches(window, w) for w, window in enumerate(windows)]
        elif run.spec.fit == "best":
            parts = [self._best(self._kept(window), w) for w, window in enumerate(windows)]
        else:
            parts = [self._split(self._kept(order))]
        self.units = [unit for part in parts for unit in part]
        # What `plan_cases` calls rows are units here.
        self.options = Options(
            batch_size=options.batch_size if run.packed else 1,
            uneven=options.uneven,
            drop_last=options.drop_last,
        )
        self.rows = len(self.units)

    def _order(self, work, window):
        if not self._options.shuffle:
            return None
        return balanced_order(work, stream_key(self._options.seed, self.run.epoch, 2, window))

    def _kept(self, documents):
        """The pieces of documents that are packed."""
        spec, found = self.run.spec, []
        for document in documents:
            tokens = len(document.tokens)
            if tokens > spec.length and spec.long == "drop":
                continue
            if spec.long == "truncate":
                tokens = min(tokens, spec.length)
            if tokens:
                found.append((document, 0, tokens))
        return found

    def _best(self, pieces, window):
        length = self.run.spec.length
        pieces = [
            (document, at, min(length, tokens - at))
            for document, _, tokens in pieces
            for at in range(0, tokens, length)
        ]
        rows = {}
        bins = best_fit(np.array([p[2] for p in pieces], np.uint32), length).tolist()
        for piece, number in zip(pieces, bins, strict=True):
            rows.setdefault(number, []).append(piece)
        work = [sum(tokens**2 for _, _, tokens in rows[number]) for number in range(len(rows))]
        order = self._order(work, window)
        return list(rows.values()) if order is None else [rows[number] for number in order]

    def _split(self, pieces):
        length, rows, room = self.run.spec.length, [], 0
        for document, _, tokens in pieces:
            at = 0
            while at < tokens:
                if not room:
                    rows.append([])
                    room = length
                taken = min(room, tokens - at)
                rows[-1].append((document, at, taken))
                at, room = at + taken, room - taken
        return rows

    def _batches(self, documents, window):
        spec, batches, place = self.run.spec, [], list(enumerate(documents))
        if spec.padded:
            place.sort(key=lambda one: -len(one[1].tokens))
        for number, document in place:
            wider = [*batches[-1], (number, document)] if batches else []
            lengths = [len(d.tokens) for _, d in wider]
            size = max(lengths, default=0) * len(wider) if spec.padded else sum(lengths)
            fits = wider and size <= spec.tokens and len(wider) <= (spec.max_rows or len(wider))
            if fits:
                batches[-1] = wider
            else:
                batches.append([(number, document)])
        if spec.padded:
            batches = [sorted(batch, key=lambda one: one[0]) for batch in batches]
            work = [
                len(batch) * max(len(document.tokens) for _, document in batch) ** 2
                for batch in batches
            ]
            order = self._order(work, window)
            if order is None:
                batches.sort(key=lambda batch: batch[0][0])
            else:
                batches = [batches[number] for number in order]
        return [[document for _, document in batch] for batch in batches]

    @property
    def positions(self):
        """The positions of the epoch's units."""
        return range(len(self.units))

    def expected(self, progress, world, workers):
        """For each rank the batches that are left: lists of (unit, whether it is real)."""
        legs = [Leg(*leg) for leg in progress]
        before, done = going_on(legs, world, max(1, workers))
        outputs = plain_outputs(self, plain_remaining(self, before), world)
        ranks = []
        for batches, _ in outputs:
            parts = even_slices(batches, max(1, workers))
            in_turn = [b for turn in itertools.zip_longest(*parts) for b in turn if b is not None]
            ranks.append([[(self.units[p], real) for p, real in b] for b in in_turn[done:]])
        return ranks


lengths = st.one_of(
    st.integers(0, 3), st.integers(0, 12), st.integers(0, 40), st.sampled_from([0, 8, None])
)
row_groups = st.lists(lengths, max_size=14)
files = st.lists(st.lists(row_groups, max_size=4), min_size=1, max_size=3)


@st.composite
def options(draw):
    return {
        "shuffle": draw(st.booleans()),
        "shuffle_window": draw(st.sampled_from([1, 3, 8, 20, 1000])),
        "seed": draw(st.integers(0, 2**64 - 1)),
        "uneven": draw(st.sampled_from(["wrap", "drop", "pad", "keep"])),
        "limit": draw(st.one_of(st.none(), st.none(), st.integers(0, 60))),
        "filters": draw(st.sampled_from([None, None, [("id", ">=", 9)]])),
        "drop_last": draw(st.booleans()),
        "provenance": draw(st.booleans()),
        "nulls": "zero",
    }


pads = st.sampled_from([0, -7, {"t": 5}, {"l": 9, "t": 1}])


def packing(column, length, *, along, pad, **how):
    """A way of packing; only outputs have a pad."""
    if isinstance(pad, dict):
        pad = {name: number for name, number in pad.items() if name in (column, *along)}
    return Pack(column, length, along=along, pad=pad, **how)


packs = st.builds(
    packing,
    st.just("t"),
    st.one_of(st.integers(1, 10), st.sampled_from([8, 16, 500])),
    along=st.sampled_from([["l"], ["l"], []]),
    fit=st.sampled_from(["best", "split"]),
    long=st.sampled_from(["split", "truncate", "drop"]),
    pad=pads,
)
budgets = st.builds(
    TokenBudget,
    st.just("t"),
    st.one_of(st.integers(1, 60), st.just(500)),
    padded=st.booleans(),
    max_rows=st.one_of(st.none(), st.integers(1, 5)),
    long=st.just("alone"),
)
worlds = st.sampled_from([1, 1, 2, 3, 5])
# Processes take their time.
workers = st.sampled_from([0] * 60 + [1, 2])


@st.composite
def runs(draw, specs):
    """Runs whose legs are on whatever worlds, or all on one."""
    steps = draw(st.lists(st.integers(0, 5), max_size=2))
    pairs = st.tuples(worlds, workers)
    if draw(st.booleans()):
        places = [draw(pairs)] * (len(steps) + 1)
    else:
        places = [draw(pairs) for _ in range(len(steps) + 1)]
    legs = [(*place, step) for place, step in zip(places, [*steps, None], strict=True)]
    spec, drawn = draw(specs), draw(options())
    if isinstance(spec, Pack):
        drawn["batch_size"] = draw(st.integers(1, 6))
    return Run(draw(files), spec, drawn, legs, draw(st.integers(0, 3)))
