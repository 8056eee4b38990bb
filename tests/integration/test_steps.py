"""preprocess= and augment=: what batches hold after them, in every way of reading."""

import json
import threading
import time
from functools import partial
from itertools import islice

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

import fastload
from fastload import (
    Batch,
    Column,
    CorruptFileError,
    DevicePrefetcher,
    FastParquetDataset,
    Ragged,
    per_row,
)
from fastload.plan.permutation import stream_key
from fastload.testing import assert_ranks_agree, assert_resumes_exactly, assert_same_batches
from support.damage import damage, write_groups
from support.sample_files import ids_of, write_sample
from support.stepped_dataset import DESCRIBE, ROWS, STEPS, check, dataset_of, draw, threads_of_steps

pytestmark = pytest.mark.filterwarnings("ignore:Row group .* is left out")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("steps") / "a.parquet", ROWS, 70)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("options", [{}, {"shuffle": True, "seed": 7, "threads": 0}])
def test_batches_after_the_steps(path, workers, options):
    with dataset_of(path, STEPS, draw, **options) as dataset:
        loader = DataLoader(dataset, batch_size=None, num_workers=workers)
        for epoch in range(2):
            batches = list(loader)
            assert [type(batch) for batch in batches] == [Batch] * len(dataset)
            assert sorted(ids_of(batches)) == list(range(ROWS))
            for batch in batches:
                assert list(batch) == list(dataset.schema)
                check(batch, options.get("seed", 0), epoch)


class Noise:
    """A step of augment with an attribute of its own that a kernel has too."""

    random = False

    def __call__(self, batch, seeds):
        return {"seed": seeds}


def test_a_callable_of_augment_gets_seeds_whatever_its_attributes(path):
    with dataset_of(path, None, Noise()) as dataset, dataset_of(path, None, draw) as other:
        for batch, expected in zip(dataset, other, strict=True):
            assert torch.equal(batch["seed"], expected["seed"])


def test_the_schema_is_that_of_batches(path):
    with dataset_of(path, STEPS, draw, uneven="pad", provenance=True) as dataset:
        names = ["id", "price", "name", "twice", "NAME", "list", "__file__", "__row__", "__valid__"]
        assert list(dataset.schema) == [*names, "noise", "seed"]
        batch = next(iter(dataset))
        assert list(batch) == list(dataset.schema)
        for name, value in batch.items():
            field = dataset.schema[name]
            assert field.dtype == value.dtype
            assert field.ragged == isinstance(value, Ragged)
            assert field.kind == getattr(value, "kind", None)
        assert dataset.schema is dataset.schema
        assert f"  steps    3 steps\n  {len(dataset.schema)} outputs\n" in repr(dataset)


def test_the_schema_calls_steps_when_asked_for_and_in_this_thread(path):
    calls = []

    def count(block):
        calls.append((len(block["id"]), threading.get_ident()))
        return block

    with dataset_of(path, [count, DESCRIBE]) as dataset:
        assert calls == []
        assert len(dataset.schema) == 6
        assert calls == [(16, threading.get_ident())]
        assert not threads_of_steps()
    with dataset_of(path, count, limit=0) as dataset:
        assert list(dataset) == []
    with dataset_of(path, count, filters=[("id", "<", 0)]) as dataset:
        assert list(dataset) == []
        with pytest.raises(ValueError, match="Expected a dataset with rows, got one without"):
            _ = dataset.schema


def test_units_stay_with_columns_that_no_step_touches(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    days = pa.array([1, 2], pa.date32())
    pq.write_table(pa.table({"a": days, "b": days}), tmp_path / "a.parquet")
    with dataset_of(tmp_path / "a.parquet", lambda block: {"b": block["b"] + 1}) as dataset:
        assert [dataset.schema[name].unit for name in "ab"] == ["day", None]


def test_preprocess_sees_the_columns_and_augment_the_batch(path):
    seen = []

    def look(block, seeds=None):
        seen.append((list(block), block.__class__, None if seeds is None else seeds.dtype))
        return {}

    options = {"provenance": True, "uneven": "pad", "columns": ["id"]}
    with dataset_of(path, look, [look, look], **options) as dataset:
        next(iter(dataset))
    whole = ["id", "__file__", "__row__", "__valid__"]
    uint64 = np.dtype(np.uint64)
    assert seen == [(["id"], dict, None), (whole, Batch, uint64), (whole, Batch, uint64)]
    with (
        dataset_of(path, lambda block: {"__row__": block["id"]}) as dataset,
        pytest.raises(ValueError, match="The name `__row__` is reserved for the dataset"),
    ):
        next(iter(dataset))


def test_a_block_is_arrays_over_the_memory_of_the_batch(path):
    seen = {}

    def look(block):
        seen.update(block)
        block["price"] += 1
        block["pairs"] = block["pairs"][:, ::-1]
        block.pop("half", None)
        return {"int32": block["id"].astype(np.int32), "tensor": torch.from_numpy(block["id"])}

    columns = {name: name for name in ("id", "price", "name")}
    columns["pairs"] = fastload.Stack(["id", "label"], dtype=torch.int64)
    columns["half"] = Column("id", dtype=torch.bfloat16)
    columns["brain"] = Column("label", dtype=torch.bfloat16)
    with dataset_of(path, columns=columns) as dataset:
        expected = next(iter(dataset)).clone()
    for workers in (0, 1):
        with dataset_of(path, [look, look], columns=columns) as dataset:
            schema = dataset.schema
            batch = next(iter(DataLoader(dataset, batch_size=None, num_workers=workers)))
        names = ["id", "price", "name", "pairs", "brain", "int32", "tensor"]
        assert list(batch) == list(schema) == names
        assert torch.equal(batch["price"], expected["price"] + 2)
        assert torch.equal(batch["pairs"], expected["pairs"])
        assert torch.equal(batch["brain"], expected["brain"])
        assert torch.equal(batch["tensor"], expected["id"])
        assert batch["int32"].dtype == torch.int32
        assert batch["name"] == expected["name"]
        if not workers:
            for name in ("id", "price"):
                assert isinstance(seen[name], np.ndarray)
                assert seen[name].ctypes.data == batch[name].data_ptr()
            kinds = [type(seen[name]) for name in ("name", "brain", "pairs")]
            assert kinds == [Ragged, torch.Tensor, np.ndarray]


def test_an_array_whose_shape_was_set_is_an_output_of_that_shape(path):
    def reshape(block):
        block["id"].shape = (-1, 1)
        return block

    with dataset_of(path, reshape, columns=["id"]) as dataset:
        assert next(iter(dataset))["id"].shape == (40, 1)


def test_places_are_handed_out_only_if_asked_for(path):
    for options in ({}, {"provenance": True}):
        with dataset_of(path, STEPS, draw, **options) as dataset:
            batch = next(iter(dataset))
        assert ("__row__" in batch) == ("__file__" in batch) == bool(options)
        if options:
            assert torch.equal(batch["__row__"], batch["id"])


def test_steps_of_augment_draw_different_numbers(path):
    def keep(name):
        return lambda batch, seeds: {name: seeds}

    with dataset_of(path, augment=[keep("a"), keep("b")]) as dataset:
        batch = next(iter(dataset))
    assert batch["a"].numpy().tolist() == [stream_key(0, 0, 3, 0, 0, k) for k in range(40)]
    assert batch["b"].numpy().tolist() == [stream_key(0, 0, 3, 1, 0, k) for k in range(40)]


def test_rows_that_stand_in_go_through_too(tmp_path):
    path = write_groups(tmp_path / "a.parquet", [30, 50, 45])
    damage(path, 1, "text")
    steps = per_row(str.upper, "text", "TEXT", threads=2)
    options = {"on_error": "skip", "uneven": "pad", "provenance": True}
    with dataset_of(path, steps, lambda b, s: {"s": s}, batch_size=40, **options) as ds:
        assert "TEXT" in ds.schema
        batches = list(ds)
        assert len(batches) == len(ds)
        assert len(ds.skipped) == 1
    names = ("__row__", "TEXT", "s")
    columns = [[batch[name].tolist() for name in names] for batch in batches]
    rows = [row for batch in columns for row in zip(*batch, strict=True)]
    assert len(rows) == 125
    for number, text, seed in rows:
        assert text == f"ROW {number}"
        assert seed == stream_key(0, 0, 3, 0, 0, number)
    # Where the first row group is the corrupt one, the schema is that of the next.
    damage(path, 0, "text")
    with dataset_of(path, steps, on_error="skip") as ds:
        assert ds.schema["TEXT"].kind == "str"
    with dataset_of(path, steps) as ds, pytest.raises(CorruptFileError):
        _ = ds.schema


@pytest.mark.parametrize("workers", [0, 2])
def test_runs_resume_with_the_same_random_numbers(path, workers):
    make = partial(dataset_of, path, STEPS, draw, shuffle=True, shuffle_window=100)
    assert_resumes_exactly(make, after=[0, 1, 7], num_workers=workers)


@pytest.mark.parametrize("uneven", ["wrap", "pad"])
def test_ranks_agree(path, uneven):
    make = partial(dataset_of, path, STEPS, draw, shuffle=True, uneven=uneven)
    assert_ranks_agree(make, world_sizes=(2, 3), uneven=uneven)


@pytest.mark.parametrize("workers", [0, 2])
def test_stateful_loaders(path, workers):
    def loader_of():
        dataset = dataset_of(path, STEPS, draw, shuffle=True)
        return StatefulDataLoader(dataset, batch_size=None, num_workers=workers)

    whole = list(loader_of())
    loader = loader_of()
    first = list(islice(iter(loader), 5))
    state = loader.state_dict()
    loader = loader_of()
    loader.load_state_dict(state)
    assert_same_batches([*first, *loader], whole)


def test_the_place_of_a_batch_stays_with_it(path):
    def replaced(block):
        return dict(block)

    with dataset_of(path, [replaced, *STEPS], [draw, lambda batch, _: {**batch}]) as dataset:
        whole = list(dataset)
        dataset.set_epoch(0)
        prefetcher = DevicePrefetcher(dataset, "cpu")
        first = list(islice(prefetcher, 3))
        state = json.loads(json.dumps(prefetcher.state_dict()))
        assert state == dataset.state_dict(after=first[-1]) == dataset.state_dict(after=whole[2])
        dataset.load_state_dict(state)
        assert_same_batches([*first, *dataset], whole)


@pytest.mark.parametrize("workers", [0, 2])
def test_mixes(path, tmp_path, workers):
    other = write_sample(tmp_path / "b.parquet", 90, 30)
    make = partial(dataset_of, shuffle=True)

    def mix_of():
        sources = {"a": make(path, STEPS, draw, seed=3), "b": make(other, augment=draw, seed=4)}
        return fastload.mix(sources, [1, 1], seed=1, stop="repeat")

    with mix_of() as mixed:
        assert "NAME" in mixed.schema["a"]
        assert list(mixed.schema["b"]) == ["id", "label", "price", "name", "noise", "seed"]
        seeds = {"a": {}, "b": {}}
        for batch in DataLoader(mixed, batch_size=None, num_workers=workers):
            if batch.source == "a":
                check(batch, 3)
            for k, seed in zip(batch["id"].tolist(), batch["seed"].tolist(), strict=True):
                seeds[batch.source].setdefault(k, []).append(seed)
    assert {len(of) for of in seeds["a"].values()} == {1}
    # Each repetition of a source is an epoch of its own.
    assert max(len(of) for of in seeds["b"].values()) > 2
    assert all(len(of) == len(set(of)) for of in seeds["b"].values())
    assert_resumes_exactly(mix_of, after=[6], num_workers=workers)


def test_steps_are_no_part_of_the_state(path):
    with dataset_of(path, STEPS, draw) as dataset:
        next(iter(dataset))
        state = dataset.state_dict()
    with dataset_of(path) as dataset:
        dataset.load_state_dict(state)
        assert ids_of(dataset) == list(range(40, ROWS))


def test_stats_tell_of_steps(path):
    with dataset_of(path, lambda block: time.sleep(0.02) or block) as dataset:
        list(dataset)
        stats = dataset.stats()
    assert 13 * 0.02 <= stats.steps_s <= stats.waiting_s
    assert stats.bottleneck == "steps"


def test_steps_of_filtered_rows(path):
    def double(block):
        block["twice"] = block["id"] * 2
        return block

    options = {"filters": [("label", "==", 1)], "uneven": "keep", "batch_size": 64}
    with FastParquetDataset(path, preprocess=double, **options) as dataset:
        batches = [batch.clone() for batch in dataset]
    with FastParquetDataset(path, **{**options, "uneven": "wrap"}) as dataset:
        assert [b["id"].tolist() for b in batches] == [b["id"].tolist() for b in dataset]
    assert all((batch["twice"] == 2 * batch["id"]).all() for batch in batches)
