"""Rows that can't be shared out evenly among the ranks."""

from collections import Counter

import pytest
import torch

from fastload import FastParquetDataset
from support.sample_files import ids_of, write_sample

ROWS = 103


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("uneven") / "sample.parquet", ROWS, 10)


def ranks(path, world, **options):
    """The batches of each rank."""
    delivered = []
    for rank in range(world):
        with FastParquetDataset(
            path, batch_size=10, rank=rank, world_size=world, threads=1, shuffle=True, **options
        ) as dataset:
            batches = list(dataset)
            assert len(dataset) == len(batches)
            delivered.append(batches)
    return delivered


@pytest.mark.parametrize("world", [1, 2, 4, 10])
def test_wrap(path, world):
    delivered = ranks(path, world)
    assert len({tuple(batch.rows for batch in batches) for batches in delivered}) == 1
    count = Counter(row for batches in delivered for row in ids_of(batches))
    assert set(count) == set(range(ROWS))
    assert sum(count.values()) == -(-ROWS // world) * world
    for batches in delivered:
        rows = ids_of(batches)
        assert len(set(rows[:-1])) == len(rows) - 1


@pytest.mark.parametrize("world", [2, 4, 10])
def test_pad_is_wrap_that_says_so(path, world):
    padded, wrapped = ranks(path, world, uneven="pad"), ranks(path, world)
    real = []
    for batches, same in zip(padded, wrapped, strict=True):
        assert ids_of(batches) == ids_of(same)
        valid = torch.cat([batch["__valid__"] for batch in batches])
        assert valid.dtype == torch.bool
        assert valid[:-1].all()
        real += [row for row, ok in zip(ids_of(batches), valid.tolist(), strict=True) if ok]
    assert sorted(real) == list(range(ROWS))


def test_drop(path):
    delivered = ranks(path, 4, uneven="drop")
    rows = [row for batches in delivered for row in ids_of(batches)]
    assert [len(ids_of(batches)) for batches in delivered] == [25] * 4
    assert len(set(rows)) == len(rows) == 100


def test_keep(path):
    delivered = ranks(path, 4, uneven="keep")
    assert [len(ids_of(batches)) for batches in delivered] == [26, 26, 26, 25]
    assert sorted(row for batches in delivered for row in ids_of(batches)) == list(range(ROWS))


@pytest.mark.parametrize("world", [1, 3, 40])
def test_keep_with_filters(path, world):
    options = {"uneven": "keep", "filters": [("id", ">=", 70)], "split": ("id", 0.0, 0.9)}
    delivered = ranks(path, world, **options)
    rows = [ids_of(batches) for batches in delivered]
    lengths = [len(own) for own in rows]
    assert max(lengths) - min(lengths) <= 1
    whole = sorted(row for own in rows for row in own)
    assert whole == sorted(ids_of(ranks(path, 1, **{**options, "uneven": "wrap"})[0]))
    assert len(whole) == len(set(whole)) > 20


def test_drop_last(path):
    for batches in ranks(path, 4, drop_last=True):
        assert [batch.rows for batch in batches] == [10, 10]


@pytest.mark.parametrize("uneven", ["wrap", "pad", "drop", "keep"])
def test_more_ranks_than_rows(path, uneven):
    delivered = ranks(path, 5, limit=3, uneven=uneven)
    rows = {"wrap": [1] * 5, "pad": [1] * 5, "drop": [0] * 5, "keep": [1, 1, 1, 0, 0]}[uneven]
    assert [len(ids_of(batches)) for batches in delivered] == rows
    if uneven == "pad":
        valid = [batches[0]["__valid__"].tolist() for batches in delivered]
        assert valid == [[True]] * 3 + [[False]] * 2
        first = {row for batches in delivered[:3] for row in ids_of(batches)}
        assert {row for batches in delivered for row in ids_of(batches)} == first
