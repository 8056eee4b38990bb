"""Which prepared rows of a cache a dataset uses, and what it does where it can use none."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fastload
from fastload import Cache, FastParquetDataset, mix
from fastload.dataset.preparing import preparation
from fastload.errors import CacheError
from fastload.plan import parts
from fastload.runtime.disk.cache import PREPARED
from fastload.runtime.disk.entries import entries_of
from support.every_output import assert_same_outputs

ROWS, GROUP_ROWS = 6_000, 410
SCALE = 3.0
REFUSED = "Can't prepare rows in the cache"
OFF = r"Cache\(directory, prepared=False\) turns prepared rows, and this warning, off$"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("stored") / "a.parquet"
    rng = np.random.default_rng(7)
    table = pa.table({"i": np.arange(ROWS), "f": rng.random(ROWS).astype("float32")})
    pq.write_table(table, path, row_group_size=GROUP_ROWS)
    return path


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(parts, "_PART_BYTES", 1 << 14)


def folders_in(cache):
    """Return the folders with prepared rows in a cache."""
    return {Path(each.path).parent for each in entries_of(Path(cache) / PREPARED)}


def scaled(block):
    """Compute values that depend on a global name."""
    return {"y": block["f"] * SCALE}


def test_other_code_makes_other_rows(path, tmp_path, monkeypatch):
    def total():
        with FastParquetDataset(path, preprocess=scaled, cache=tmp_path) as dataset:
            return float(sum(batch["y"].sum() for batch in dataset))

    first = total()
    assert total() == first
    assert len(folders_in(tmp_path)) == 1
    monkeypatch.setitem(globals(), "SCALE", 6.0)
    assert total() == pytest.approx(2 * first)
    assert len(folders_in(tmp_path)) == 2
    monkeypatch.setattr(preparation, "__version__", "another version of fastload")
    assert total() == pytest.approx(2 * first)
    assert len(folders_in(tmp_path)) == 3


def test_options_that_decide_values_make_other_rows(path, tmp_path):
    """Those that decide the order alone do not."""

    def made(**options):
        options = {"columns": ["f"], "preprocess": scaled, **options}
        with FastParquetDataset(path, cache=tmp_path, **options) as dataset:
            list(dataset)
        return len(folders_in(tmp_path))

    made()
    assert made(shuffle=True, shuffle_window=900, seed=3) == 1
    assert made(batch_size=7, limit=100, offset=30, rank=1, world_size=2, provenance=True) == 1
    assert made(augment=lambda batch, seeds: {"drawn": seeds.astype(np.int64)}) == 1
    assert made(columns=["f", "i"]) == 2
    assert made(filters=[("i", "<", 3_000)]) == 3
    assert made(filters=[("i", "<", 3_001)]) == 4
    assert made(io=fastload.IO(verify_crc=True)) == 5


def test_state_that_changes_between_dataset_and_pass(path, tmp_path):
    """What a pass computes is kept under the state that computed it."""

    class Scale:
        factor = 2

        def __call__(self, block):
            return {"y": block["x"] * self.factor}

    def first_of(factor):
        step = Scale()
        step.factor = 2
        with FastParquetDataset(
            path, columns={"x": "i"}, preprocess=step, cache=tmp_path, batch_size=64
        ) as dataset:
            step.factor = factor  # weights were loaded, say
            firsts = [next(iter(dataset))["y"][7].item()]
            step.factor = factor + 1
            return [*firsts, next(iter(dataset))["y"][7].item()]

    for factor in (1, 5, 2, 5):
        assert first_of(factor) == [7 * factor, 7 * (factor + 1)]


def test_a_step_that_begins_to_fail_raises_its_error_until_it_works_again(path, tmp_path):
    class Step:
        factor = 1

        def __call__(self, block):
            if not self.factor:
                raise LookupError("no weights")
            return {"y": block["i"] * self.factor}

    step = Step()
    with FastParquetDataset(path, columns=["i"], preprocess=step, cache=tmp_path) as dataset:
        assert torch.equal(*(next(iter(dataset))[name] for name in ("y", "i")))
        step.factor = 0
        for _ in range(3):
            with pytest.raises(LookupError, match="no weights"):
                iter(dataset)
        step.factor = 2
        batch = next(iter(dataset))
        assert torch.equal(batch["y"], 2 * batch["i"])


def test_code_that_can_not_be_told(path, tmp_path):
    with open(__file__) as file:

        def reads(block, file=file):
            return {"y": block["i"]}

        with pytest.raises(TypeError, match=r"name its version, Cache\(..., key=...\)"):
            FastParquetDataset(path, preprocess=reads, cache=tmp_path)
        for key, folders in (("1", 1), ("2", 2), ("2", 2)):
            kept = Cache(tmp_path, key=key)
            with FastParquetDataset(path, preprocess=reads, columns=["i"], cache=kept) as dataset:
                list(dataset)
            assert len(folders_in(tmp_path)) == folders


def test_a_key_stands_for_the_code_of_functions(path, tmp_path):
    for factor in (2, 3):
        cache = Cache(tmp_path, key="1")
        with FastParquetDataset(
            path, preprocess=lambda block, by=factor: {"y": by * block["i"]}, cache=cache
        ) as dataset:
            assert next(iter(dataset))["y"].tolist()[:4] == [0, 2, 4, 6]


def test_a_changed_file_makes_other_rows(tmp_path):
    path = tmp_path / "a.parquet"
    for value in (1, 2):
        pq.write_table(pa.table({"f": [float(value)] * 5}), path)
        with FastParquetDataset(path, preprocess=scaled, cache=tmp_path / "cache") as dataset:
            assert next(iter(dataset))["y"].tolist() == [value * SCALE] * 5


def test_errors_of_a_step_are_raised_each_time(path, tmp_path):
    def fails(block):
        if int(block["i"].max()) >= 3 * GROUP_ROWS:
            raise LookupError("no such thing")
        return {"y": block["i"]}

    with FastParquetDataset(path, columns=["i"], preprocess=fails, cache=tmp_path) as dataset:
        for _ in range(2):
            with pytest.raises(LookupError, match="no such thing"):
                iter(dataset)
            with pytest.raises(LookupError, match="no such thing"):
                dataset.warm_cache(progress=False)
    assert not list(tmp_path.rglob("*.part"))


def complicated(block):
    return {"y": torch.from_numpy(block["i"]).to(torch.complex64)}


def sparse(block):
    return {"y": torch.from_numpy(block["i"]).to_sparse()}


def jagged(block):
    rows = [torch.full((int(i) % 3,), int(i)) for i in block["i"]]
    return {"y": torch.nested.nested_tensor(rows, layout=torch.jagged)}


def turns(block):
    """Compute an output whose dtype changes near the last row."""
    wide = "float64" if int(block["i"].max()) > ROWS - 100 else "float32"
    return {"y": block["i"].astype(wide)}


TURNED = r"output `y` as float32 \(B,\), as in the first rows, got float64 \(B,\): a step"


@pytest.mark.parametrize(
    ("step", "cause"), [(complicated, "complex64"), (sparse, ""), (jagged, ""), (turns, TURNED)]
)
def test_outputs_that_no_file_can_hold(path, tmp_path, step, cause):
    """A pass then computes them, with one warning."""
    options = {"columns": ["i"], "preprocess": step, "batch_size": 200}
    with (
        FastParquetDataset(path, **options) as plain,
        FastParquetDataset(path, cache=tmp_path, **options) as kept,
    ):
        with pytest.warns(UserWarning, match=f"^{REFUSED}: .*{cause}.*{OFF}") as told:
            epochs = [list(kept), list(kept)]
        assert len(told) == 1
        for epoch in epochs:
            for ours, theirs in itertools.zip_longest(epoch, plain):
                assert ours["y"].layout == theirs["y"].layout
                assert ours["y"].dtype == theirs["y"].dtype
                assert [y.tolist() for y in ours["y"]] == [y.tolist() for y in theirs["y"]]
    with (
        FastParquetDataset(path, cache=tmp_path, **options) as kept,
        pytest.raises(CacheError, match=f"^Expected to keep all rows in the cache, got: .*{cause}"),
    ):
        kept.warm_cache(progress=False)
    assert not list(tmp_path.rglob("*.part"))


def test_a_mix_reads_on_where_one_source_keeps_nothing(path, tmp_path):
    options = {"columns": ["i"], "batch_size": 200, "shuffle": True, "shuffle_window": 900}

    def mixed(**more):
        sources = {
            "a": FastParquetDataset(path, **options, preprocess=turns, **more),
            "b": FastParquetDataset(path, **options),
        }
        return mix(sources, weights={"a": 3, "b": 1}, stop="all")

    with mixed() as plain, mixed(cache=tmp_path) as kept:
        with pytest.warns(UserWarning, match=TURNED):
            first = [batch.clone() for batch in kept]
        assert_same_outputs(first, plain)
        assert_same_outputs(kept, plain)


def test_a_budget_too_small_for_wide_rows(path, tmp_path):
    def widens(block):
        return {"y": np.zeros((len(block["i"]), 3000), np.float32)}

    options = {"columns": ["i"], "preprocess": widens, "shuffle": True, "shuffle_window": 3000}
    with FastParquetDataset(
        path, cache=tmp_path, memory_budget="20MB", batch_size=16, **options
    ) as dataset:
        with pytest.warns(UserWarning, match=f"{REFUSED}.*memory_budget"):
            rows = [batch.rows for batch in dataset]
        assert sum(rows) == ROWS


@pytest.mark.parametrize("below", ["", "below"])
def test_warming_names_a_directory_that_is_a_file(path, tmp_path, below):
    (tmp_path / "file").write_text("")
    cache = tmp_path / "file" / below
    with (
        pytest.warns(UserWarning, match="Not a directory - at .*file"),
        FastParquetDataset(path, columns=["f"], preprocess=scaled, cache=cache) as dataset,
        pytest.raises(
            CacheError,
            match=r"^Expected to keep all rows in the cache, got: Not a directory - at .*file",
        ),
    ):
        dataset.warm_cache(progress=False)


def test_what_there_is_nothing_to_keep_of(path, tmp_path):
    none = {"columns": ["f"], "filters": [("i", "<", 0)], "preprocess": scaled}
    with FastParquetDataset(path, cache=tmp_path, **none) as dataset:
        dataset.warm_cache(progress=False)
        assert list(dataset) == []
    assert not folders_in(tmp_path)
    for options, told in (
        ({}, r"files of a store, whose bytes a cache keeps, got local files alone: .*`preprocess`"),
        ({"preprocess": scaled}, r"files of a store, .*got local files alone"),
    ):
        cache = Cache(tmp_path, prepared=False) if options else tmp_path
        with FastParquetDataset(path, cache=cache, **options) as dataset:
            with pytest.raises(CacheError, match=told):
                dataset.warm_cache(progress=False)
            assert sum(batch.rows for batch in dataset) == ROWS
    with (
        FastParquetDataset(path, preprocess=scaled) as dataset,
        pytest.raises(CacheError, match="no cached file"),
    ):
        dataset.warm_cache(progress=False)
    assert not folders_in(tmp_path)
