"""The files of a program, and what its batches must hold.

Each batch says where its rows come from: pyarrow gives the values of those very rows. `rows_of`
says which rows a step has, and what the arguments mean how often each comes in an epoch.
"""

import zlib
from collections import Counter
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from drawing import ADDED, FILTERS, TOKENS, WIDE, values_of
from spec_cases import is_number, needs_no_fill, spec_of, stack_of

from fastload import Column, TokenBudget
from fastload.rows.predicate import parse_split
from fastload.rows.row_hash import hash_columns
from support.expected_numbers import leaves_of
from support.plan_definition import copies_of
from support.same_rows import assert_same_rows
from support.stored_tables import takable

WEIGHTS = [0, 1, 0.3, 2.5, 9]


class UnreadError(Exception):
    """Pyarrow cannot read what it wrote, as some lists of structs that go on in the next page."""


class Oracle:
    """The files of a program, and what is expected of them.

    Attributes:
        source: what a dataset reads.
        columns: the dataset's `columns`.
        weights: the dataset's `weights`.
        lost: the rows that cannot be read.
    """

    def __init__(self, program, directory):
        self.program = p = program
        paths, spots, at = [], [], 0
        for number, groups in enumerate(p["files"]):
            folder = directory if p["hive"] is None else directory / f"h={p['hive']}{number}"
            folder.mkdir(parents=True, exist_ok=True)
            paths.append(folder / f"part {number}.parquet")
            table = self._made(number, at, sum(groups))
            self._write(paths[-1], table, groups)
            spots += [(number, k, n) for k, n in enumerate(groups)]
            at += len(table)
        self.source = [str(path) for path in paths] if p["hive"] is None else str(directory)
        self.first = np.cumsum([0, *map(sum, p["files"])])
        self.table = self._read(paths)
        group_of = np.repeat(np.arange(len(spots)), [n for *_, n in spots])
        lost = [n for n in p["damage"] if spots[n][2]]
        for n in lost:
            self._damage(paths[spots[n][0]], spots[n][1])
        self.lost = set(np.flatnonzero(np.isin(group_of, lost)).tolist())
        self.kept = self._drawn_rows()
        self.columns = self._drawn_columns()
        self.weights, self._shares = self._drawn_weights()
        self.seeds = {}  # by epoch and id: the seed that augment was given
        self._t = _Lists(self.table["t"])

    def _made(self, number, at, rows):
        """The rows of a file; column `hurt` is the one that is damaged."""
        p = self.program
        rng = np.random.default_rng([p["seed"], number])
        ids = np.arange(at, at + rows)
        most = rng.choice([3, 12, 40])
        lengths = rng.integers(0, most, rows)
        counted = lambda n, of: [of(n, k) for k in range(lengths[n - at])]  # noqa: E731
        pairs = pa.list_(pa.list_(pa.int16(), 2))
        made = {
            "hurt": pa.array(ids + 7),
            "id": pa.array(ids),
            "key": pa.array(rng.integers(0, 3, rows).astype(np.int8)),
            "f": pa.array(rng.choice([0.0, -0.0, np.nan, np.inf, -np.inf, 1.5, 1e300], rows)),
            "weight": pa.array(rng.choice(WEIGHTS, rows)),
            "t": pa.array(
                [counted(n, lambda n, k: n * TOKENS + k) for n in ids], pa.list_(pa.int32())
            ),
            "l": pa.array(
                [counted(n, lambda n, k: n + k / 64) for n in ids], pa.list_(pa.float32())
            ),
            "p": pa.array([counted(n, lambda n, k: [n % 999, k]) for n in ids], pairs),
        }
        for k in range(p["wide"]):
            kind = ["float32", "int16", "uint8", "float64"][k % 4]
            made[f"w{k}"] = pa.array((ids * (k + 3) % 200).astype(kind))
        for name, (kind, share) in p["columns"].items():
            if (number, name) not in p["lacks"]:
                own = np.random.default_rng([p["seed"], zlib.crc32(name.encode()), number])
                made[name] = values_of(kind, share, rows, own)
        return pa.table(made)

    def _write(self, path, table, groups):
        with pq.ParquetWriter(path, table.schema, **self.program["write"]) as writer:
            at = 0
            for rows in groups:
                writer.write_table(table.slice(at, rows), row_group_size=max(1, rows))
                at += rows

    def _read(self, paths):
        try:
            tables = [pq.ParquetFile(path).read() for path in paths]
        except pa.ArrowInvalid as error:
            raise UnreadError from error
        whole = takable(pa.concat_tables(tables, promote_options="permissive"))
        hive = self.program["hive"]
        if hive is not None:
            keys = np.repeat(np.arange(len(tables)), list(map(len, tables))).tolist()
            keys = [f"{hive}{key}" if hive else key for key in keys]
            whole = whole.append_column("h", pa.array(keys, pa.string() if hive else pa.int32()))
        return whole

    def _damage(self, path, group):
        chunk = pq.ParquetFile(path).metadata.row_group(group).column(0)
        with open(path, "r+b") as written:
            written.seek(chunk.dictionary_page_offset or chunk.data_page_offset)
            written.write(b"\xff" * 16)

    def _drawn_rows(self):
        """The rows that filters and split leave, in stored order."""
        p, kept = self.program, np.ones(len(self.table), bool)
        if p["filters"]:
            plain = self.table.select(["id", "key", "f", "weight"])
            found = plain.filter(FILTERS[p["filters"]]())["id"].to_numpy()
            kept &= np.isin(np.arange(len(kept)), found)
        if p["split"] and len(kept):
            low, high = parse_split(p["split"]).bounds
            hashes = hash_columns([pa.array(np.arange(len(kept)))]).tolist()
            kept &= np.array([low <= h < high for h in hashes])
        return np.flatnonzero(kept)

    def _drawn_weights(self):
        """The argument, and the weight of each row that stays."""
        shares = self.table["weight"].to_numpy()[self.kept]
        if not self.program["weights"] or not shares.sum():
            return None, None
        if self.program["weights"] == "array":
            shares = shares[::-1].copy()
            return shares, shares
        return "weight", shares

    def _drawn_columns(self):
        """Outputs of the columns, each as any spec that fits the column's values."""
        p = self.program
        if "pack" in p["form"]:
            outputs = p["form"]["pack"].outputs
            dtype = Random(p["seed"]).choice([None, "int64", "float64"])
            return {name: Column(name, dtype if name == "t" else None) for name in outputs}
        leaves = leaves_of(self.table)
        own = [
            name
            for name in leaves
            if any(name == c or name.startswith(f"{c}.") for c in p["columns"])
        ]
        again = [*own, "t", "l", "p", *(["h"] if p["hive"] is not None else [])]
        columns = {}
        for name in again if p["twice"] else own:
            columns[f"{name}, again"] = self._drawn_spec(f"{name} again", leaves[name])
        for name in own:
            columns[name] = self._drawn_spec(name, leaves[name])
        base = {
            "id": "id",
            "hurt": "hurt",
            "t": "t",
            **({"h": "h"} if p["hive"] is not None else {}),
        }
        r = Random(f"{p['seed']} stack")
        wide = [leaves[f"w{k}"] for k in range(p["wide"])]
        counts = [0, 1, 5] if len(wide) > WIDE else [1, len(wide), len(wide), len(wide)]
        if wide and (count := r.choice(counts)):
            base["stack"] = stack_of(r, r.sample(wide, count))
        numbers = [
            leaves[name] for name in own if is_number(leaves[name]) and not leaves[name].levels
        ]
        if numbers:
            base["stack of any"] = stack_of(r, numbers)
        return {**columns, **base}

    def _drawn_spec(self, output, leaf):
        """Any spec that fits the leaf's values; its nulls may be left to the dataset's `nulls`."""
        seed, nulls = self.program["seed"], self.program["nulls"]
        if needs_no_fill(leaf, nulls) and Random(f"{seed} {output} nulls").random() < 0.3:
            return Column(leaf.name)
        return spec_of(Random(f"{seed} {output}"), leaf)

    def ids(self, rows):
        """The numbers of rows among those of all files, given as `rows_of` gives rows."""
        return (self.first[rows["file"]] + rows["row"]).tolist()

    def check(self, dataset, batches, steps, epoch, own=()):
        """Check batches of a rank.

        Args:
            dataset: the dataset.
            batches: the batches.
            steps: their steps.
            epoch: the epoch.
            own: rows that may take the place of others.

        Returns:
            What comes as often as the arguments say: rows that can be read, or tokens.
        """
        if not batches:
            return []
        planned = self.ids(dataset.rows_of(steps, dataset._resolved_rank().rank))
        if "pack" in self.program["form"]:
            return self._check_packed(batches, planned)
        got = [(self.first[b["__file__"].numpy()] + b["__row__"].numpy()).tolist() for b in batches]
        self._check_sizes(got)
        flat = [n for ids in got for n in ids]
        self._check_values(dataset, batches, flat, epoch)
        marks = [True] * len(flat)
        if self.program["uneven"] == "pad":
            marks = [mark for b in batches for mark in b["__valid__"].tolist()]
        assert len(planned) == len(flat), f"{len(flat)} rows, not {len(planned)}"
        for n, plan, mark in zip(flat, planned, marks, strict=True):
            if plan not in self.lost:
                assert n == plan, f"rows {flat}, not {planned}"
            else:
                assert n in set(own) - self.lost, f"row {n} in place of {plan}"
                assert self.program["uneven"] != "pad" or not mark, (
                    "a row in place is marked as real"
                )
        return [n for n, mark in zip(planned, marks, strict=True) if mark and n not in self.lost]

    def _check_sizes(self, got):
        budget = self.program["form"].get("batch_size")
        if not isinstance(budget, TokenBudget) or "canonical_ranks" in self.program["form"]:
            return
        for ids in got:
            lengths = self._t.lengths[ids]
            size = lengths.max() * len(ids) if budget.padded else lengths.sum()
            assert len(ids) == 1 or size <= budget.tokens, f"{size} tokens in a batch"
            assert len(ids) <= (budget.max_rows or len(ids)), f"{len(ids)} rows in a batch"

    def _check_values(self, dataset, batches, ids, epoch):
        steps = {*ADDED, "seeds"}
        stored = [
            {n: v for n, v in b.items() if n not in steps and not n.startswith("__")}
            for b in batches
        ]
        table = self.table.take(pa.array(ids, pa.int64()))
        assert_same_rows(_Kept(dataset, stored), table, self.columns)
        for name in steps.intersection(*batches[:1]):
            values = [
                v
                for b in batches
                for v in (b[name].tolist() if hasattr(b[name], "tolist") else b[name])
            ]
            if name == "seeds":
                for key, seed in zip(ids, values, strict=True):
                    assert self.seeds.setdefault((epoch, key), seed) == seed, f"seed of {key}"
            else:
                assert values == list(map(ADDED[name], ids)), f"at output {name}"

    def _check_packed(self, batches, planned):
        """Check packed rows, whose tokens say where they come from; return the real tokens."""
        pack, found, real = self.program["form"]["pack"], [], []
        for batch in batches:
            document, position = batch["t__document"].numpy(), batch["t__position"].numpy()
            holds = document >= 0
            row, _ = np.nonzero(holds)
            tokens = batch["t"].numpy()[holds].astype(np.int64)
            owner, place, inside = tokens // TOKENS, tokens % TOKENS, position[holds]
            starts = np.flatnonzero(inside == 0)
            of = np.searchsorted(starts, np.arange(len(inside)), side="right") - 1
            assert (owner == owner[starts][of]).all(), "a document with tokens of others"
            assert (place - place[starts][of] == inside).all(), "tokens out of order"
            assert (place < self._t.lengths[owner]).all(), "tokens that the files lack"
            assert (np.diff(holds.astype(int), axis=1) <= 0).all(), "padding within a row"
            number = document[holds]
            firsts = np.flatnonzero(np.diff(row, prepend=-1))
            assert (number[firsts] == 0).all()
            assert (inside[firsts] == 0).all()
            assert (np.diff(number) == (inside[1:] == 0))[np.diff(row) == 0].all(), (
                "numbers of documents"
            )
            assert (position[~holds] == 0).all()
            for name in pack.outputs:
                values = batch[name].numpy()
                stored = self.table[name].combine_chunks()
                want = np.array(stored.flatten().flatten() if name == "p" else stored.flatten())
                want = want.reshape(-1, 2) if name == "p" else want
                want = want[self._t.offsets[owner] + place]
                assert (values[holds] == want).all(), f"tokens of {name}"
                assert (values[~holds] == pack.pad_of(name)).all(), f"padding of {name}"
            flat = np.stack([np.repeat(np.arange(len(document)), pack.length), document.ravel()])
            edges = [0, *(np.flatnonzero(np.diff(flat).any(0)) + 1).tolist(), flat.shape[1]]
            assert batch["t__cu_seqlens"].tolist() == edges
            assert int(batch["t__max_seqlen"]) == max(np.diff(edges))
            first = self.first[batch["__file__"].numpy()] + batch["__row__"].numpy()
            assert (first == owner[firsts]).all()
            assert (batch["__offset__"].numpy() == place[firsts]).all()
            found += owner[starts].tolist()
            marks = (
                batch["__valid__"].numpy() if "__valid__" in batch else np.ones(len(holds), bool)
            )
            real += tokens[marks[row]].tolist()
        assert found == planned, f"documents {found}, not {planned}"
        return real

    def check_epoch(self, delivered, epoch, largest):
        """Check that all that was delivered in an epoch comes as often as it must.

        Args:
            delivered: what `check` returned.
            epoch: the epoch.
            largest: the most rows of a batch.
        """
        p, form = self.program, self.program["form"]
        whole = Counter(n for n in self.kept.tolist() if n not in self.lost)
        if self.weights is not None:
            copies = copies_of(self._shares.tolist(), p["order"], epoch)
            whole = Counter(dict(zip(self.kept.tolist(), copies, strict=True)))
        unit, batch = 1, form.get("global_batch_size", form.get("batch_size")) or 0
        if isinstance(batch, TokenBudget):
            unit, batch = largest or whole.total(), 0
        if "pack" in form:
            pack = form["pack"]
            lengths = {n: int(self._t.lengths[n]) for n in whole}
            if pack.long == "drop":
                lengths = {n: length for n, length in lengths.items() if length <= pack.length}
            most = pack.length if pack.long == "truncate" else TOKENS
            whole = Counter(
                n * TOKENS + k for n, size in lengths.items() for k in range(min(size, most))
            )
            unit = pack.length
        slices = form.get("canonical_ranks", 0) * len(p["legs"])
        short = max(slices, sum(world for world, *_ in p["legs"])) * unit
        real = Counter(delivered)
        again = short if p["uneven"] == "wrap" else 0
        if p["uneven"] == "keep" and len(p["legs"]) > 1:
            missing = real.total() + whole.total()  # its ranks end at different steps
        else:
            missing = short if p["uneven"] == "drop" else 0
            missing += short * batch if p["drop_last"] else 0
        assert (real - whole).total() <= again, f"{real - whole} came too often"
        if p["limit"] is None and not p["offset"]:
            assert (whole - real).total() <= missing, f"{whole - real} are missing"
        elif "pack" not in form:
            missing += len(self.lost)
            size = max(0, whole.total() + len(self.lost) - p["offset"])
            size = size if p["limit"] is None else min(size, p["limit"])
            assert size - missing <= real.total() <= size + again, (
                f"{real.total()} rows, not {size}"
            )


class _Lists:
    """The lengths and offsets of a column of lists."""

    def __init__(self, column):
        self.lengths = np.array(column.combine_chunks().value_lengths(), np.int64)
        self.offsets = np.cumsum([0, *self.lengths])


class _Kept:
    """Batches that were kept of a dataset."""

    def __init__(self, dataset, batches):
        self.dataset, self._batches = dataset, batches

    def __iter__(self):
        return iter(self._batches)
