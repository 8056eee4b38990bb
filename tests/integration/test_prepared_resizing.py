"""Steps that change the number of rows, or make the tokens that are packed, with cache=."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import DataLoader

from fastload import Cache, FastParquetDataset, Pack, Ragged, TokenBudget, mix, per_row
from fastload.errors import CacheError
from fastload.plan import parts
from fastload.runtime.disk.cache import PREPARED
from fastload.runtime.disk.entries import entries_of
from fastload.testing import assert_ranks_agree, assert_resumes_exactly
from support.every_output import sums

ROWS = 3_000
COLUMNS = {"columns": ["x"]}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A file whose column `x` counts its rows."""
    path = tmp_path_factory.mktemp("stored") / "a.parquet"
    table = pa.table({"x": np.arange(ROWS), "s": [f"größe {k}" for k in range(ROWS)]})
    pq.write_table(table, path, row_group_size=310)
    return path


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(parts, "_PART_BYTES", 1 << 12)


def files_in(cache):
    return sorted(each.path for each in entries_of(Path(cache) / PREPARED))


def fewer(block):
    """Keep each third row."""
    keeps = block["x"] % 3 == 1
    return {"x": block["x"][keeps], "half": block["x"][keeps] / 2}


def more(block):
    """Make of each row as many rows as its number modulo 3, each with another value."""
    times = block["x"] % 3
    x = np.repeat(block["x"], times)
    return {"x": x, "copy": np.concatenate([np.arange(n) for n in times], dtype=np.int32)}


EXPECTED = {fewer: fewer({"x": np.arange(ROWS)}), more: more({"x": np.arange(ROWS)})}


def rows_of(dataset):
    """Return the rows of a pass, each as a tuple, in their order."""
    names = list(dataset.schema)
    return [
        row for batch in dataset for row in zip(*(batch[n].tolist() for n in names), strict=True)
    ]


def expected_rows(step):
    return list(zip(*(values.tolist() for values in EXPECTED[step].values()), strict=True))


@pytest.mark.parametrize("step", [fewer, more])
def test_rows_come_as_numpy_computes_them(path, tmp_path, step):
    expected = expected_rows(step)
    options = {**COLUMNS, "preprocess": step, "cache": tmp_path, "batch_size": 64}
    with FastParquetDataset(path, **options) as dataset:
        assert list(dataset.schema) == list(EXPECTED[step])
        assert len(dataset) == -(-len(expected) // 64)
        assert rows_of(dataset) == expected
        assert rows_of(dataset) == expected
        assert dataset.take([5, -1])["x"].tolist() == [expected[5][0], expected[-1][0]]
    made = files_in(tmp_path)
    assert len(made) > 1
    with FastParquetDataset(path, shuffle=True, shuffle_window=300, **options) as shuffled:
        epochs = [rows_of(shuffled), rows_of(shuffled)]
        assert epochs[0] != epochs[1]
        assert [sorted(epoch) for epoch in epochs] == [sorted(expected)] * 2
    assert files_in(tmp_path) == made
    with FastParquetDataset(path, limit=100, offset=50, **options) as some:
        assert rows_of(some) == expected[50:150]


def test_later_steps_get_the_rows_of_the_steps_before(path, tmp_path):
    steps = [more, per_row(lambda x: 2 * x, "x", "double"), fewer]
    with FastParquetDataset(
        path,
        **COLUMNS,
        preprocess=steps,
        cache=tmp_path,
        augment=lambda batch, seeds: {"third": batch["x"] // 3},
    ) as dataset:
        found = torch.cat([batch["x"].clone() for batch in dataset]).tolist()
        assert found == [k for k in range(ROWS) if k % 3 == 1]
        assert all(torch.equal(batch["third"], batch["x"] // 3) for batch in dataset)


def test_filters_come_before_the_steps(path, tmp_path):
    options = {"filters": [("x", ">=", 1_500)], "columns": ["x"]}
    with FastParquetDataset(path, preprocess=fewer, cache=tmp_path, **options) as dataset:
        expected = [k for k in range(1_500, ROWS) if k % 3 == 1]
        assert [x for x, _ in rows_of(dataset)] == expected


@pytest.mark.parametrize("step", [fewer, more])
def test_ranks_workers_and_resume(path, tmp_path, step):
    options = {**COLUMNS, "preprocess": step, "cache": tmp_path, "batch_size": 50}
    options |= {"shuffle": True, "shuffle_window": 300}

    def make(**ranks):
        return FastParquetDataset(path, **options, **ranks)

    expected = sorted(expected_rows(step))
    ranks = [make(rank=rank, world_size=3, uneven="keep") for rank in range(3)]
    assert sorted(row for dataset in ranks for row in rows_of(dataset)) == expected
    assert_ranks_agree(make, [1, 3])
    assert_resumes_exactly(make, after=[1, 9])
    for context in ("fork", "spawn"):
        loader = DataLoader(make(), batch_size=None, num_workers=2, multiprocessing_context=context)
        found = [x for batch in loader for x in batch["x"].tolist()]
        assert sorted(found) == [row[0] for row in expected]
    with make() as dataset, pickle.loads(pickle.dumps(dataset)) as copy:
        assert rows_of(copy) == rows_of(dataset)
    with mix({"a": make(), "b": make()}, stop="all") as mixed:
        found = [x for batch in mixed for x in batch["x"].tolist()]
        assert sorted(found) == sorted(2 * [row[0] for row in expected])


def iterate(make, results):
    results.put(sum(int(batch["x"].sum()) for batch in make()))


def test_processes_that_begin_together(path, tmp_path):
    make = partial(FastParquetDataset, path, **COLUMNS, preprocess=more, cache=tmp_path)
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    children = [context.Process(target=iterate, args=(make, results)) for _ in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join()
        assert child.exitcode == 0
    assert [results.get() for _ in children] == [int(EXPECTED[more]["x"].sum())] * 3
    assert not list(tmp_path.rglob("*.part"))


def test_rows_are_prepared_once(path, tmp_path):
    options = {**COLUMNS, "preprocess": more, "cache": tmp_path}
    with FastParquetDataset(path, **options):
        inodes = {file: os.stat(file).st_ino for file in files_in(tmp_path)}
        assert inodes
    with FastParquetDataset(path, **options) as dataset:
        assert rows_of(dataset) == expected_rows(more)
    assert {file: os.stat(file).st_ino for file in files_in(tmp_path)} == inodes


def test_warming_such_a_dataset(path, tmp_path):
    """All rows are there since the dataset was made."""
    told = []
    with FastParquetDataset(path, **COLUMNS, preprocess=more, cache=tmp_path) as dataset:
        dataset.warm_cache(progress=lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1]


def tokens_of(block):
    """Make of each row a document of its number modulo 9 tokens, each token a number of its own."""
    x = torch.as_tensor(block["x"])
    lengths = x % 9
    offsets = sums(lengths)
    places = torch.arange(int(offsets[-1])) - torch.repeat_interleave(offsets[:-1], lengths)
    tokens = 10 * torch.repeat_interleave(x, lengths) + places
    return {"tokens": Ragged(tokens, offsets), "labels": Ragged(-tokens, offsets)}


def documents_of(block):
    """As `tokens_of`, for all rows but those with an even number."""
    odd = {"x": block["x"][block["x"] % 2 == 1]}
    return {"x": odd["x"], **tokens_of(odd)}


def all_tokens(step):
    return step({"x": np.arange(ROWS)})["tokens"].values.sort().values


@pytest.mark.parametrize("step", [tokens_of, documents_of])
@pytest.mark.parametrize("fit", ["best", "split"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_all_tokens_are_packed(path, tmp_path, step, fit, shuffle):
    def make(**ranks):
        pack = Pack("tokens", 32, along=["labels"], fit=fit)
        options = {"shuffle": shuffle, "shuffle_window": 300, "batch_size": 4, **COLUMNS}
        return FastParquetDataset(
            path, preprocess=step, pack=pack, cache=tmp_path, **options, **ranks
        )

    found = []
    with make() as dataset:
        for batch in dataset:
            there = batch["tokens__document"] >= 0
            assert batch["tokens"].shape[1] == 32
            assert torch.equal(batch["labels"][there], -batch["tokens"][there])
            found.append(batch["tokens"][there])
    assert torch.equal(torch.cat(found).sort().values, all_tokens(step))
    assert_resumes_exactly(make, after=[1, 7])
    assert_ranks_agree(make, [1, 2])


@pytest.mark.parametrize("step", [tokens_of, documents_of])
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_budget_of_tokens_that_the_steps_make(path, tmp_path, step, shuffle):
    def make():
        options = {"shuffle": shuffle, "shuffle_window": 300, **COLUMNS}
        budget = TokenBudget("tokens", 100)
        return FastParquetDataset(
            path, preprocess=step, batch_size=budget, cache=tmp_path, **options
        )

    with make() as dataset:
        batches = [batch["tokens"].values.clone() for batch in dataset]
    assert max(map(len, batches)) <= 100
    assert torch.equal(torch.cat(batches).sort().values, all_tokens(step))
    assert_resumes_exactly(make, after=[1, 7])


@pytest.mark.parametrize("cache", [None, "off"])
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"pack": Pack("tokens", 32)}, "Expected cache= beside pack and preprocess"),
        ({"batch_size": TokenBudget("tokens", 100)}, "tokens"),
        ({}, r"Expected 1024 rows in output `x` .*, got 512 \(steps .* need cache="),
    ],
    ids=["pack", "budget", "rows"],
)
def test_without_prepared_rows(path, tmp_path, cache, options, told):
    """Such a dataset says what it needs."""
    kept = Cache(tmp_path, prepared=False) if cache else None
    step = tokens_of if options else documents_of
    with (
        pytest.raises((ValueError, KeyError), match=told),
        FastParquetDataset(path, **COLUMNS, preprocess=step, cache=kept, **options) as dataset,
    ):
        list(dataset)


def test_rows_that_can_not_be_kept(path, tmp_path):
    """Of these rows the batches are made, so there is nothing else to read."""

    def unstorable(block):
        return {"x": fewer(block)["x"].astype(np.complex64)}

    with pytest.raises(CacheError, match=r"Expected a cache that keeps the rows .*complex64"):
        FastParquetDataset(path, **COLUMNS, preprocess=unstorable, cache=tmp_path / "a")
    small = Cache(tmp_path / "b", max_bytes="20kB")
    with pytest.raises(CacheError, match=r"Expected a cache that keeps the rows .*max_bytes"):
        FastParquetDataset(path, **COLUMNS, preprocess=more, cache=small)

    def fails(block):
        if block["x"].max() > 100:
            raise LookupError("no such thing")
        return more(block)

    with pytest.raises(LookupError, match="no such thing"):
        FastParquetDataset(path, **COLUMNS, preprocess=fails, cache=tmp_path / "c")
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.parametrize("options", [{}, {"batch_size": TokenBudget("tokens", 100)}])
def test_steps_that_change_the_number_of_later_rows_alone(path, tmp_path, options):
    """The first 16 rows tell whether a pass can compute the rows as it goes."""

    def late(block):
        kept = block["x"][(block["x"] < 100) | (block["x"] % 2 == 0)]
        return {"x": kept, **tokens_of({"x": kept})}

    with FastParquetDataset(path, **COLUMNS, preprocess=late, cache=tmp_path, **options) as dataset:
        if not options:
            with pytest.raises(ValueError, match="change the number of the first 16 rows"):
                list(dataset)
        else:  # its rows are prepared in any case
            found = torch.cat([batch["tokens"].values.clone() for batch in dataset])
            assert torch.equal(found.sort().values, all_tokens(late))
