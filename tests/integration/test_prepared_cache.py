"""Prepared rows in a cache: a dataset has the batches that it has without, and computes once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import DataLoader

import fastload
from fastload import IO, Cache, Column, FastParquetDataset, Pad, Stack, mix, per_row
from fastload.engine.engine import Engine
from fastload.plan import parts
from fastload.runtime.disk.cache import PREPARED
from fastload.runtime.disk.entries import entries_of
from fastload.testing import assert_resumes_exactly
from support.every_output import assert_same_outputs, of_every_kind
from support.stored_dataset import served

ROWS, GROUP_ROWS = 3_000, 410
ALL_ROWS = 2 * ROWS + 1
SCALE = 3.0
ORDER = {"shuffle": True, "shuffle_window": 900}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Two files below a hive key, of flat, nested and nullable columns."""
    directory = tmp_path_factory.mktemp("stored")
    rng = np.random.default_rng(7)
    for number in range(2):
        n = ROWS + number
        at = np.arange(n)
        table = pa.table(
            {
                "i": at + number * ROWS,
                "f": pa.array(rng.random(n).astype("float32"), mask=at % 7 == 0),
                "h": rng.random(n).astype("float16"),
                "b": rng.random(n) > 0.5,
                "s": [f"wörd {k % 37}" * (k % 4) for k in range(n)],
                "l": [list(range(k % 5)) for k in range(n)],
                "ls": [[f"x{j}" for j in range(k % 3)] for k in range(n)],
                "ll": [[[1, 2], [], [3]][: k % 4] for k in range(n)],
                "fx": pa.array(rng.random((n, 3)).tolist(), pa.list_(pa.float32(), 3)),
            }
        )
        place = directory / f"day={number}"
        place.mkdir()
        pq.write_table(table, place / "a.parquet", row_group_size=GROUP_ROWS, compression="zstd")
    return directory


@pytest.fixture
def paths(stored, tmp_path):
    """The files, of this test alone."""
    return shutil.copytree(stored, tmp_path / "source")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(parts, "_PART_BYTES", 1 << 12)


def made_in(cache):
    """Return the parts in a cache: path, inode and size."""
    found = [(each.path, os.stat(each.path)) for each in entries_of(Path(cache) / PREPARED)]
    return sorted((path, status.st_ino, status.st_size) for path, status in found)


def copies(batches):
    return [batch.clone() for batch in batches]


def added(block):
    return {"added": 3 * block["i"] + 1}


def scaled(block):
    """Compute values that depend on a global name."""
    return {"y": block["f"] * SCALE, "z": torch.from_numpy(block["i"]).to(torch.bfloat16)}


def without(block):
    del block["i"]
    return block


@fastload.kernel(inputs=("i",), outputs={"k": "float32", "k2": ("int16", 3)})
def computed(i, k, k2):
    for row in range(len(i)):
        k[row] = i[row] / 2
        k2[row, :] = i[row] % 99


def drawn(batch, seeds):
    return {"r": (seeds % 1000).astype(np.int32)}


PIECE = {"i": "i", "p": Pad("l", 3), "s": "s", "st": Stack(["f", "i"], dtype=torch.float32)}
EVERY = [
    {},
    ORDER,
    {"preprocess": [scaled, without], "provenance": True, "shuffle": True},
    {"preprocess": scaled, "uneven": "pad", "rank": 2, "world_size": 3, "batch_size": 130},
    {"columns": {**PIECE, "v": Column("f", valid=True)}, "threads": 0},
    {"columns": ["day", "i", "s"], "filters": [("f", ">", 0.4)], "provenance": True},
    {"columns": ["i", "f"], "filters": [("i", ">", 5000)], "uneven": "keep"},
    {"split": ("s", 0.2, 0.7), "limit": 700, "on_error": "skip"},
    {"batch_size": 7, "columns": ["i", "b", "s"], "limit": 300},
    {"preprocess": per_row(lambda text: text.upper(), "s", "t"), "columns": ["s"]},
    {"preprocess": computed, "columns": ["s", "i", "ll"], "io": IO(verify_crc=True)},
    {"augment": drawn, "columns": ["i"], **ORDER},
    {"global_batch_size": 64, "canonical_ranks": 4, "rank": 1, "world_size": 2, **ORDER},
]


def lose_values(paths):
    """Overwrite all values of files. Their footers, sizes and times stay."""
    for path in Path(paths).rglob("*.parquet"):
        data, status = bytearray(path.read_bytes()), path.stat()
        footer = int.from_bytes(data[-8:-4], "little") + 8
        data[4:-footer] = bytes(len(data) - footer - 4)
        path.write_bytes(data)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("options", EVERY, ids=lambda options: "-".join(options) or "plain")
def test_the_same_batches(paths, tmp_path, options):
    options = {"preprocess": added, "nulls": "nan", **options}
    if "global_batch_size" not in options:
        options = {"batch_size": 256, **options}
    cache = tmp_path / "cache"
    with (
        FastParquetDataset(paths, **options) as plain,
        FastParquetDataset(paths, cache=cache, **options) as kept,
    ):
        assert list(kept.schema.items()) == list(plain.schema.items())
        expected = [copies(plain) for _ in range(3)]
        for epoch in expected:
            assert_same_outputs(kept, epoch)
    there = made_in(cache)
    assert len(there) > 1
    lose_values(paths)
    # A later dataset reads no values of the files.
    with FastParquetDataset(paths, cache=cache, **options) as again:
        assert_same_outputs(again, expected[0])
    assert made_in(cache) == there


def test_every_output_comes_back_as_it_was(stored, tmp_path):
    options = {"columns": {"x": "i", "s": "s", "ll": "ll"}, "batch_size": 256, **ORDER}
    with (
        FastParquetDataset(stored, preprocess=of_every_kind, **options) as plain,
        FastParquetDataset(stored, preprocess=of_every_kind, cache=tmp_path, **options) as kept,
    ):
        assert list(kept.schema.items()) == list(plain.schema.items())
        assert_same_outputs(kept, plain)
    assert len(made_in(tmp_path)) > 1


def test_elements_that_lie_otherwise_than_their_shape_says(tmp_path):
    kind = pa.fixed_shape_tensor(pa.int16(), [2, 3], permutation=[1, 0])
    values = pa.FixedSizeListArray.from_arrays(pa.array(range(6 * ROWS), pa.int16()), 6)
    table = pa.table({"t": pa.ExtensionArray.from_storage(kind, values), "i": np.arange(ROWS)})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, row_group_size=GROUP_ROWS)
    with (
        FastParquetDataset(path, preprocess=added) as plain,
        FastParquetDataset(path, preprocess=added, cache=tmp_path / "cache") as kept,
    ):
        for _ in range(2):
            assert_same_outputs(kept, plain)


def sizes_of(paths):
    """Return the rows of each row group of some files."""
    files = [pq.read_metadata(path) for path in paths]
    return [file.row_group(g).num_rows for file in files for g in range(file.num_row_groups)]


def test_any_parquet_tool_reads_the_rows(stored, tmp_path):
    with FastParquetDataset(stored, preprocess=scaled, cache=tmp_path, nulls="nan") as dataset:
        dataset.warm_cache(progress=False)
    made = [path for path, *_ in made_in(tmp_path)]
    table = pa.concat_tables(
        [pq.read_table(path, page_checksum_verification=True) for path in made]
    )
    table.validate(full=True)
    assert table["i"].to_pylist() == [*range(ROWS), *range(ROWS, ALL_ROWS)]
    assert np.array_equal(table["y"], np.asarray(table["f"]) * np.float32(SCALE), equal_nan=True)
    assert sizes_of(made) == sizes_of(sorted(stored.rglob("*.parquet")))


@pytest.mark.parametrize("options", [{}, {"global_batch_size": 64, "canonical_ranks": 4}])
def test_weights(stored, tmp_path, options):
    weights = np.where(np.arange(ALL_ROWS) < ROWS // 2, 9.0, 0.1)
    options = {"columns": ["i"], "preprocess": added, "weights": weights, **options}
    for rank in range(2):
        ranks = {"rank": rank, "world_size": 2}
        with (
            FastParquetDataset(stored, **options, **ranks) as plain,
            FastParquetDataset(stored, cache=tmp_path, **options, **ranks) as kept,
        ):
            for _ in range(2):
                assert_same_outputs(kept, plain)


class Counted:
    """A step that counts the rows that it gets, and has one identity."""

    def __init__(self):
        self.rows = 0

    def __call__(self, block):
        self.rows += len(block["i"])
        return {"y": block["i"] + 1}

    def code_digest(self):
        return "0" * 32


def test_preprocess_is_not_called_again(stored, tmp_path):
    step, options = Counted(), {"columns": ["i"], "cache": tmp_path}
    with FastParquetDataset(stored, preprocess=step, **options) as dataset:
        dataset.warm_cache(progress=False)
    assert ALL_ROWS <= step.rows < ALL_ROWS + 100  # and the first rows, which tell the dtypes
    for order in ({"shuffle": True}, {"batch_size": 77}, {"rank": 1, "world_size": 2}):
        step = Counted()
        with FastParquetDataset(stored, preprocess=step, **options, **order) as dataset:
            for _ in range(2):
                assert all(torch.equal(batch["y"], batch["i"] + 1) for batch in dataset)
            dataset.warm_cache(progress=False)
        assert not step.rows


def test_a_full_cache_makes_one_engine(stored, tmp_path, monkeypatch):
    """The engine that read the files would take threads and memory."""
    options = {"columns": ["i"], "preprocess": added, "cache": tmp_path}
    with FastParquetDataset(stored, **options) as dataset:
        dataset.warm_cache(progress=False)
    engines, made = [], Engine.__init__

    def noted(self, *more, **named):
        engines.append(type(self).__name__)
        made(self, *more, **named)

    monkeypatch.setattr(Engine, "__init__", noted)
    with FastParquetDataset(stored, **options) as dataset:
        for _ in range(2):
            assert sum(batch.rows for batch in dataset) == ALL_ROWS
    assert engines == ["PreparedEngine"]


def test_rows_of_a_store_are_prepared_with_few_requests(tmp_path):
    """Also where the memory budget is small."""
    rng = np.random.default_rng(3)
    columns = {f"c{k}": rng.integers(0, 1 << 60, 150_000) for k in range(8)}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=50_000)
    with (
        served([tmp_path / "a.parquet"]) as server,
        FastParquetDataset(
            "gs://bucket/train/a.parquet",
            preprocess=lambda block: {"more": block["c0"] + 1},
            storage_options=server.options,
            io=IO(transport="native"),
            cache=Cache(tmp_path / "cache", raw=False),
            memory_budget="64MB",
        ) as dataset,
    ):
        server.reset()
        dataset.warm_cache(progress=False)
        # Three row groups of 3.2 MB each, and the first rows.
        assert len(server.media_requests()) <= 4 * len(columns)
        server.reset()
        for name, values in columns.items():
            assert np.array_equal(torch.cat([b[name] for b in dataset]).numpy(), values)
        assert not server.media_requests()


@pytest.mark.parametrize(("context", "workers"), [("fork", 2), ("spawn", 1)])
def test_workers(stored, tmp_path, context, workers):
    options = {"columns": ["i", "s"], "preprocess": added, "batch_size": 128, **ORDER}
    with (
        FastParquetDataset(stored, **options) as plain,
        FastParquetDataset(stored, cache=tmp_path, **options) as kept,
    ):
        how = {"batch_size": None, "num_workers": workers}
        for _ in range(2):
            ours = DataLoader(kept, multiprocessing_context=context, **how)
            assert_same_outputs(ours, DataLoader(plain, **how))
    assert made_in(tmp_path)


def test_resume_and_mix(stored, tmp_path):
    options = {"columns": ["i", "s"], "batch_size": 500, **ORDER}
    assert_resumes_exactly(
        lambda: FastParquetDataset(stored, preprocess=added, cache=tmp_path, **options)
    )

    def mixed(**more):
        sources = {
            "a": FastParquetDataset(stored, **options, preprocess=added, **more),
            "b": FastParquetDataset(stored, **options, preprocess=[added, without], **more),
        }
        return mix(sources, stop="all")

    with mixed() as plain, mixed(cache=tmp_path) as kept:
        for _ in range(2):
            assert_same_outputs(kept, plain)
    assert len({Path(path).parent for path, *_ in made_in(tmp_path)}) == 2


def test_a_relative_directory_stays_where_it_was(stored, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").mkdir()
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", "home")
    options = {"columns": ["i"], "filters": [("i", "<", 2 * ROWS)], "preprocess": added}
    with FastParquetDataset(stored, cache=Cache("c", max_bytes="1GB"), **options) as dataset:
        monkeypatch.chdir(tmp_path / "other")
        list(dataset)
    assert made_in(tmp_path / "c")
    assert list((tmp_path / "home" / "selections").glob("*/*.rows"))
    assert not any((tmp_path / "other").iterdir())


SCRIPT = """
import json, sys
from fastload import FastParquetDataset
from fastload.plan import parts
parts._PART_BYTES = 1 << 12
class Step:
    rows = 0
    def __call__(self, block):
        self.rows += len(block["i"])
        return {"y": block["i"] * 2}
    def code_digest(self):
        return "0" * 32
step = Step()
with FastParquetDataset(sys.argv[1], columns=["i"], preprocess=step, cache=sys.argv[2],
                        shuffle=True, shuffle_window=900) as dataset:
    print(json.dumps([sum(int(batch["y"].sum()) for batch in dataset), step.rows]))
"""


def test_processes_make_each_part_once(stored, tmp_path):
    run = [sys.executable, "-c", SCRIPT, str(stored), str(tmp_path)]
    running = [subprocess.Popen(run, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    results = [json.loads(process.communicate(timeout=60)[0]) for process in running]
    assert [total for total, _ in results] == [sum(range(ALL_ROWS)) * 2] * 3
    # Each process computes its first rows, too.
    assert ALL_ROWS <= sum(rows for _, rows in results) < ALL_ROWS + 3 * 50
    assert len(made_in(tmp_path)) > 3
    assert not list(tmp_path.rglob("*.part"))
