"""The decoded tier: what a dataset with blocks hands out is what it hands out without."""

from __future__ import annotations

import itertools
import json
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
from fastload import Cache, Column, FastParquetDataset, Pad, Ragged, Stack, mix, per_row
from fastload.engine.cache.maker import BlockMaker
from fastload.errors import CacheError
from fastload.runtime.disk.cache import DECODED
from fastload.runtime.disk.entries import entries_of
from fastload.testing import assert_resumes_exactly

ROWS, GROUP_ROWS = 3_000, 410
SCALE = 3.0


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """Two files below a hive key, of flat, nested and nullable columns."""
    directory = tmp_path_factory.mktemp("decoded")
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


def scaled(block):
    """Callables, whose results depend on what they close over."""
    return {"y": block["f"] * SCALE, "z": torch.from_numpy(block["i"]).to(torch.bfloat16)}


def without(block):
    del block["i"]
    return block


def assert_same(got, expected):
    for ours, theirs in itertools.zip_longest(got, expected):
        assert list(ours) == list(theirs)
        for name, value in ours.items():
            other = theirs[name]
            assert type(value) is type(other)
            if isinstance(value, Ragged):
                assert value.tolist() == other.tolist(), name
                assert (value.dtype, value.kind) == (other.dtype, other.kind)
            else:
                assert value.dtype == other.dtype, name
                assert torch.equal(value.nan_to_num(), other.nan_to_num()), name


PIECE = {"i": "i", "p": Pad("l", 3), "s": "s", "st": Stack(["f", "i"], dtype=torch.float32)}
EVERY = [
    {},
    {"shuffle": True, "shuffle_window": 900},
    {"preprocess": [scaled, without], "provenance": True, "shuffle": True},
    {"preprocess": scaled, "uneven": "pad", "rank": 2, "world_size": 3, "batch_size": 130},
    {"columns": {**PIECE, "v": Column("f", valid=True)}, "threads": 0},
    {"columns": ["day", "i", "s"], "filters": [("f", ">", 0.4)], "provenance": True},
    {"columns": ["i", "f"], "filters": [("i", ">", 5000)], "uneven": "keep"},
    {"split": ("s", 0.2, 0.7), "limit": 700, "on_error": "skip"},
    {"batch_size": 7, "columns": ["i", "b", "s"], "limit": 300},
    {"preprocess": per_row(lambda text: text.upper(), "s", "t"), "columns": ["s"]},
    {"augment": lambda batch, seeds: {"r": (seeds % 1000).astype(np.int32)}, "columns": ["i"]},
]


@pytest.mark.parametrize("options", EVERY, ids=lambda options: "-".join(options) or "plain")
def test_the_same_batches(paths, tmp_path, options):
    options = {"batch_size": 256, **options}
    with (
        FastParquetDataset(paths, **options) as plain,
        FastParquetDataset(paths, cache=tmp_path, **options) as kept,
    ):
        assert kept.schema.keys() == plain.schema.keys()
        for _ in range(3):
            assert_same(kept, plain)
    with FastParquetDataset(paths, cache=tmp_path, **options) as again:
        states = {entry.name: entry.disk_bytes for entry in entries_of(tmp_path / DECODED)}
        assert sum(1 for _ in again) > 0
        assert again.stats().read.bytes == 0
    assert states == {entry.name: entry.disk_bytes for entry in entries_of(tmp_path / DECODED)}


def test_any_arrow_tool_reads_blocks(paths, tmp_path):
    with FastParquetDataset(paths, preprocess=scaled, cache=tmp_path) as dataset:
        dataset.warm_cache(progress=False)
        entries = sorted(entries_of(tmp_path / DECODED), key=lambda each: each.path)
        assert len(entries) == 2 * -(-ROWS // GROUP_ROWS)
        rows = 0
        for entry in entries:
            with pa.memory_map(entry.path) as file:
                table = pa.ipc.open_file(file).read_all()
                buffer = file.read_buffer(0)
                del buffer
            table.validate(full=True)
            rows += len(table)
            assert table["y"].type == pa.float32()
            assert table["s"].type == pa.large_string()
            assert table["fx"].type == table.schema.field("fx").type
            assert table["l"].type.value_type == pa.int64()
            assert np.array_equal(table["y"], np.asarray(table["f"]) * 3, equal_nan=True)
        assert rows == 2 * ROWS + 1


@fastload.kernel(inputs=("i",), outputs={"k": "float32", "k2": ("int16", 3)})
def computed(i, k, k2):
    for row in range(len(i)):
        k[row] = i[row] / 2
        k2[row, :] = i[row] % 99


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"columns": {**PIECE, "v": Column("f", valid=True)}},
        {"columns": ["s", "i", "ll"], "preprocess": computed},
        {"columns": ["ls", "b", "h"], "filters": [("f", ">", 0.4)]},
    ],
    ids=lambda options: "-".join(options) or "plain",
)
def test_rows_without_python_s_steps_are_as_python_writes_them(
    paths, tmp_path, monkeypatch, options
):
    """Byte for byte; the core writes them from its own memory."""
    made = []
    record_batch = BlockMaker.record_batch

    def by_python(maker, lent):
        rows = record_batch(maker, lent)
        made.append(type(rows).__name__)
        maker._rows = None
        return record_batch(maker, lent)

    def blocks(name):
        with FastParquetDataset(paths, cache=tmp_path / name, **options) as dataset:
            dataset.warm_cache(progress=False)
        entries = entries_of(tmp_path / name / DECODED)
        return {(each.object, each.name): Path(each.path).read_bytes() for each in entries}

    by_core = blocks("core")
    assert len(by_core) == 2 * -(-ROWS // GROUP_ROWS)
    monkeypatch.setattr(BlockMaker, "record_batch", by_python)
    assert blocks("python") == by_core
    assert made[0] == "BlockBatch"


def test_elements_that_lie_otherwise_than_their_shape_says(tmp_path):
    kind = pa.fixed_shape_tensor(pa.int16(), [2, 3], permutation=[1, 0])
    values = pa.FixedSizeListArray.from_arrays(pa.array(range(6 * ROWS), pa.int16()), 6)
    table = pa.table({"t": pa.ExtensionArray.from_storage(kind, values)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=GROUP_ROWS)
    with (
        FastParquetDataset(tmp_path / "a.parquet") as plain,
        FastParquetDataset(tmp_path / "a.parquet", cache=tmp_path / "cache") as kept,
    ):
        for _ in range(2):
            assert_same(kept, plain)


@pytest.mark.parametrize("options", [{}, {"global_batch_size": 64, "canonical_ranks": 4}])
def test_a_warm_cache_has_the_rows_that_weights_give_to_a_rank(paths, tmp_path, options):
    calls = []

    def counted(block):
        calls.append(len(block["i"]))
        return block

    weights = np.where(np.arange(2 * ROWS + 1) < ROWS // 2, 9.0, 0.1)
    more = {"columns": ["i"], "preprocess": counted, "weights": weights, "cache": tmp_path}
    with FastParquetDataset(paths, **more, **options, rank=1, world_size=2) as dataset:
        dataset.warm_cache(progress=False)
        calls.clear()
        assert sum(batch.rows for batch in dataset) > ROWS // 2
    assert calls == []


def test_preprocess_is_not_called_again(paths, tmp_path):
    calls = []

    class Counted:
        def __call__(self, block):
            calls.append(len(block["i"]))
            return {"y": block["i"] + 1}

        def code_digest(self):
            return "0" * 32

    with FastParquetDataset(paths, columns=["i"], preprocess=Counted(), cache=tmp_path) as dataset:
        dataset.warm_cache(progress=False)
        assert sum(calls) >= 2 * ROWS + 1
        calls.clear()
        for options in ({"shuffle": True}, {"batch_size": 77}, {"rank": 1, "world_size": 2}):
            more = {"columns": ["i"], "preprocess": Counted(), "cache": tmp_path, **options}
            with FastParquetDataset(paths, **more) as other:
                assert all(torch.equal(batch["y"], batch["i"] + 1) for batch in other)
    assert not calls


def test_other_code_is_another_block(paths, tmp_path, monkeypatch):
    def sums():
        columns, cache = ["i", "f"], tmp_path
        with FastParquetDataset(paths, columns=columns, preprocess=scaled, cache=cache) as dataset:
            return float(sum(batch["y"].nan_to_num().sum() for batch in dataset))

    first = sums()
    assert sums() == first
    monkeypatch.setitem(globals(), "SCALE", 6.0)
    assert sums() == pytest.approx(2 * first)
    monkeypatch.setattr(fastload.engine.cache.keys, "__version__", "other")
    count = len(list(entries_of(tmp_path / DECODED)))
    sums()
    assert len(list(entries_of(tmp_path / DECODED))) == count * 3 // 2


def test_state_that_changes_between_dataset_and_pass(paths, tmp_path):
    """What a pass computes is kept under the state that computed it."""

    class Scale:
        factor = 2

        def __call__(self, block):
            return {"y": block["x"] * self.factor}

    def first_of(factor):
        step = Scale()
        step.factor = 2
        with FastParquetDataset(
            paths, columns={"x": "i"}, preprocess=step, cache=tmp_path / "cache", batch_size=64
        ) as dataset:
            step.factor = factor  # weights were loaded, say
            firsts = [next(iter(dataset))["y"][7].item()]
            step.factor = factor + 1
            return [*firsts, next(iter(dataset))["y"][7].item()]

    x = first_of(1)[0]
    assert x
    assert first_of(5) == [5 * x, 6 * x]
    assert first_of(2) == [2 * x, 3 * x]
    assert first_of(5) == [5 * x, 6 * x]


def test_code_that_can_not_be_told(paths, tmp_path):
    with open(__file__) as file:

        def reads(block, file=file):
            return {"y": block["i"]}

        with pytest.raises(TypeError, match=r"pass Cache\(directory, version="):
            FastParquetDataset(paths, preprocess=reads, cache=tmp_path)
        for version in ("1", "2", "2"):
            kept = Cache(tmp_path, version=version)
            with FastParquetDataset(paths, preprocess=reads, columns=["i"], cache=kept) as dataset:
                list(dataset)
    assert len(list(entries_of(tmp_path / DECODED))) == 4 * -(-ROWS // GROUP_ROWS)


def test_a_changed_file_is_another_one(tmp_path):
    path = tmp_path / "a.parquet"
    for value in (1, 2):
        pq.write_table(pa.table({"a": [value] * 5}), path)
        with FastParquetDataset(path, cache=tmp_path / "cache") as dataset:
            assert next(iter(dataset))["a"].tolist() == [value] * 5


def test_errors_are_those_of_the_step(paths, tmp_path):
    def fails(block):
        if int(block["i"].max()) >= 3 * GROUP_ROWS:
            raise LookupError("no such thing")
        return {"y": block["i"]}

    with FastParquetDataset(
        paths, columns=["i"], preprocess=fails, cache=tmp_path, batch_size=100
    ) as dataset:
        for _ in range(2):
            batches = iter(dataset)
            first = next(batches)
            assert torch.equal(first["y"], first["i"])
            with pytest.raises(LookupError, match="no such thing"):
                list(batches)
            with pytest.raises(LookupError):
                next(batches)
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.parametrize(("context", "workers"), [("fork", 2), ("spawn", 1)])
def test_workers(paths, tmp_path, context, workers):
    options = {"columns": ["i", "s"], "shuffle": True, "shuffle_window": 900, "batch_size": 128}
    with (
        FastParquetDataset(paths, **options) as plain,
        FastParquetDataset(paths, cache=tmp_path, **options) as kept,
    ):
        how = {"batch_size": None, "num_workers": workers}
        for _ in range(workers):
            ours = DataLoader(kept, multiprocessing_context=context, **how)
            assert_same(ours, DataLoader(plain, **how))


def test_resume_and_mix(paths, tmp_path):
    options = {"columns": ["i", "s"], "shuffle": True, "shuffle_window": 900, "batch_size": 500}
    assert_resumes_exactly(lambda: FastParquetDataset(paths, cache=tmp_path, **options))

    def mixed(**more):
        sources = {
            "a": FastParquetDataset(paths, **options, **more),
            "b": FastParquetDataset(paths, **options, preprocess=without, **more),
        }
        return mix(sources, stop="all")

    with mixed() as plain, mixed(cache=tmp_path) as kept:
        for _ in range(2):
            assert_same(kept, plain)


def test_outputs_that_blocks_can_not_hold(paths, tmp_path):
    def complicated(block):
        return {"c": block["f"] + 1j * block["f"]}

    with (
        FastParquetDataset(paths, columns=["f"], preprocess=complicated) as plain,
        FastParquetDataset(paths, columns=["f"], preprocess=complicated, cache=tmp_path) as kept,
    ):
        with pytest.warns(UserWarning, match=r"Can't keep decoded rows.*complex64"):
            got = list(kept)
        for ours, theirs in zip(got, plain, strict=True):
            assert torch.equal(ours["c"].real.nan_to_num(), theirs["c"].real.nan_to_num())
        with pytest.raises(CacheError, match=r"to keep row groups in the cache, got.*complex64"):
            kept.warm_cache(progress=False)
    assert not list(entries_of(tmp_path / DECODED))


def sparse(block):
    return {"y": torch.from_numpy(block["i"]).to_sparse()}


def jagged(block):
    rows = [torch.full((int(i) % 3,), int(i)) for i in block["i"]]
    return {"y": torch.nested.nested_tensor(rows, layout=torch.jagged)}


@pytest.mark.parametrize("step", [sparse, jagged])
def test_tensors_that_are_not_dense(paths, tmp_path, step):
    options = {"columns": ["i"], "preprocess": step}
    with (
        FastParquetDataset(paths, **options) as plain,
        FastParquetDataset(paths, cache=tmp_path, **options) as kept,
    ):
        with pytest.warns(UserWarning, match="Can't keep decoded rows"):
            got = list(kept)
        for ours, theirs in zip(got, plain, strict=True):
            assert ours["y"].layout == theirs["y"].layout
            assert [row.tolist() for row in ours["y"]] == [row.tolist() for row in theirs["y"]]
    assert not list(entries_of(tmp_path / DECODED))


def turns(block):
    """Compute an output whose dtype changes near the last row."""
    wide = "float64" if int(block["i"].max()) > 2 * ROWS - 100 else "float32"
    return {"y": block["i"].astype(wide)}


def test_outputs_that_change_on_the_way(paths, tmp_path):
    options = {"columns": ["i"], "preprocess": turns, "batch_size": 200}
    with (
        FastParquetDataset(paths, **options) as plain,
        FastParquetDataset(paths, cache=tmp_path, **options) as kept,
    ):
        told = r"output `y` as float32 \(B,\), as in the first rows, got float64 \(B,\): a step"
        with pytest.warns(UserWarning, match=told):
            got = list(kept)
        assert [batch["i"].tolist() for batch in got] == [batch["i"].tolist() for batch in plain]


@pytest.mark.parametrize("below", ["", "below"])
def test_warming_names_a_directory_that_is_a_file(paths, tmp_path, below):
    (tmp_path / "file").write_text("")
    with (
        pytest.warns(UserWarning, match="Not a directory - at .*file"),
        FastParquetDataset(paths, columns=["i"], cache=tmp_path / "file" / below) as dataset,
        pytest.raises(
            CacheError, match=r"^Can't keep more in the cache: Not a directory - at .*file"
        ),
    ):
        dataset.warm_cache(progress=False)


def test_without_rows_there_is_nothing_to_keep(paths, tmp_path):
    options = {"columns": ["i"], "filters": [("i", "<", 0)]}
    with FastParquetDataset(paths, cache=tmp_path, **options) as dataset:
        dataset.warm_cache(progress=False)
        assert list(dataset) == []
    assert not list(entries_of(tmp_path / DECODED))
    with (
        FastParquetDataset(paths, **options) as dataset,
        pytest.raises(CacheError, match="no cached file"),
    ):
        dataset.warm_cache(progress=False)


def test_a_budget_too_small_for_wide_blocks(paths, tmp_path):
    def widens(block):
        return {"y": np.zeros((len(block["i"]), 3000), np.float32)}

    options = {"columns": ["i"], "preprocess": widens, "shuffle": True, "shuffle_window": 3000}
    with (
        FastParquetDataset(
            paths, cache=tmp_path, memory_budget="20MB", batch_size=16, **options
        ) as dataset,
    ):
        with pytest.warns(UserWarning, match=r"Can't keep decoded rows.*memory_budget"):
            rows = [batch.rows for batch in dataset]
        assert sum(rows) == 2 * ROWS + 1


SCRIPT = """
import json, sys
from fastload import FastParquetDataset
def step(block):
    return {"y": block["i"] * 2}
with FastParquetDataset(sys.argv[1], columns=["i"], preprocess=step, cache=sys.argv[2],
                        shuffle=True, shuffle_window=900) as dataset:
    print(json.dumps(sum(int(batch["y"].sum()) for batch in dataset)))
"""


def test_a_relative_directory_stays_where_it_was(paths, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").mkdir()
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", "home")
    options = {"columns": ["i"], "filters": [("i", "<", 2 * ROWS)]}
    with FastParquetDataset(paths, cache=Cache("c", max_bytes="1GB"), **options) as dataset:
        monkeypatch.chdir(tmp_path / "other")
        list(dataset)
    assert list(entries_of(tmp_path / "c" / DECODED))
    assert list((tmp_path / "home" / "selections").glob("*/*.rows"))
    assert not any((tmp_path / "other").iterdir())


def test_processes_make_each_block_once(paths, tmp_path):
    run = [sys.executable, "-c", SCRIPT, str(paths), str(tmp_path)]
    running = [subprocess.Popen(run, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    sums = [json.loads(process.communicate(timeout=60)[0]) for process in running]
    assert sums == [sum(range(2 * ROWS + 1)) * 2] * 3
    assert len(list(entries_of(tmp_path / DECODED))) == 2 * -(-ROWS // GROUP_ROWS)
    assert not list(tmp_path.rglob("*.part"))


def test_a_mix_falls_back_in_the_share_of_a_source(paths, tmp_path):
    """The rest of the share comes from the files, in the same order."""
    options = {"columns": ["i"], "batch_size": 200, "shuffle": True, "shuffle_window": 900}

    def mixed(**more):
        sources = {
            "a": FastParquetDataset(paths, **options, preprocess=turns, **more),
            "b": FastParquetDataset(paths, **options),
        }
        return mix(sources, weights={"a": 3, "b": 1}, stop="all")

    with mixed() as plain, mixed(cache=tmp_path) as kept:
        expected = [[batch["i"].tolist() for batch in plain] for _ in range(2)]
        with pytest.warns(UserWarning, match="as in the first rows, got"):
            first = [batch["i"].tolist() for batch in kept]
        assert [first, [batch["i"].tolist() for batch in kept]] == expected
