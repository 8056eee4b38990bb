"""The files of a program, and the rows, values and marks that its batches must have.

The plan's own functions give the order of rows; pyarrow gives the values.
"""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from drawing import ADDED, FILTERS, describe, values_of

from fastload import Column
from fastload.plan.options import Options
from fastload.plan.position import WorkerSlot
from fastload.plan.sequence import RowGroups
from fastload.rows.predicate import parse_split
from fastload.rows.row_hash import hash_columns
from fastload.testing import assert_same_rows
from support.plan_definition import rows_of
from support.worker_plan import worker_plan


class Oracle:
    """The files of a program, and what is expected of them."""

    def __init__(self, program, directory):
        self.program = p = program
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

    def ids(self, rows):
        return [int(self.kept[self.number[file, group]][row]) for file, group, row in rows.tolist()]

    def expected(self, epoch, progress, world, rank, workers):
        """The ids of each batch of a rank, as a DataLoader hands them out, and which are real."""
        count, size = max(1, workers), self.options.batch_size
        parts = []
        for worker in range(count):
            plan = worker_plan(
                self.groups, self.options, epoch, progress, WorkerSlot(world, count, worker, rank),
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
