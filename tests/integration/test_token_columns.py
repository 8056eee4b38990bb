"""Batches by tokens hold every kind of column: their rows vary, and each value is its row's."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastload import Column, FastParquetDataset, Fixed, Pad, Stack, TokenBudget

ROWS = 240
WIDE = [f"f{number}" for number in range(13)]
OTHERS = 1 + np.arange(ROWS) % 4
"""Elements of the list `u` of each row."""

KINDS = {
    "list": {"list": "emb"},
    "list twice": {"list": "emb", "again": "emb"},
    "nested": {"nested": "grid"},
    "fixed": {"list": Fixed("emb", 4)},
    "valid": {"list": Column("emb", valid=True)},
    "pad": {"pad": Pad("u", 3)},
    "mask": {"pad": Pad("u", 3, mask=True)},
    "stack": {"stack": Stack(WIDE)},
    "own pad": {"own": Pad("t", 3)},
}
WAYS = {
    "ordered": {"shuffle": False},
    "shuffled": {"shuffle": True, "shuffle_window": 90},
    "canonical": {"shuffle": True, "canonical_ranks": 3},
    "ranks": {"shuffle": True, "rank": 1, "world_size": 2},
}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    ids = np.arange(ROWS, dtype=np.int32)
    lengths = np.random.default_rng(0).integers(1, 9, ROWS)
    emb = pa.FixedSizeListArray.from_arrays(pa.array(np.repeat(ids, 4)), 4)
    columns = {
        "id": ids,
        "t": [[number] * length for number, length in zip(ids, lengths, strict=True)],
        "u": [[number] * length for number, length in zip(ids, OTHERS, strict=True)],
        "emb": emb,
        "grid": pa.FixedSizeListArray.from_arrays(emb, 1),
        **{name: ids.astype(np.float32) for name in WIDE},
    }
    path = tmp_path_factory.mktemp("token_batches") / "rows.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=100)
    return path


def check(batch):
    """Compare each output with the numbers of its rows."""
    ids = batch["id"].numpy()
    everywhere = np.arange(3) < OTHERS[ids][:, None]
    for name, got in batch.items():
        if name in ("id", "t", "own__length", "__valid__"):
            continue
        expected = {
            "pad": np.where(everywhere, ids[:, None], 0),
            "pad__mask": everywhere,
            "pad__length": np.minimum(OTHERS[ids], 3),
            "list__valid": np.ones(len(ids), bool),
        }.get(name)
        if name == "own":
            expected = np.where(got.numpy() == 0, 0, ids[:, None])
            assert (got[:, 0].numpy() == ids).all()
        elif expected is None:
            expected = np.broadcast_to(ids.reshape(-1, *[1] * (got.ndim - 1)), got.shape)
        np.testing.assert_array_equal(got.numpy(), expected, name)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_each_value_is_of_its_row(path, kind, way, padded):
    columns = {"id": "id", "t": "t", **KINDS[kind]}
    budget = TokenBudget("t", 23, padded=padded)
    with FastParquetDataset(
        path, columns=columns, batch_size=budget, uneven="pad", **WAYS[way]
    ) as dataset:
        for _ in range(2):
            sizes = []
            for batch in dataset:
                check(batch)
                sizes.append(len(batch["id"]))
            assert len(set(sizes)) > 2
            assert sum(sizes) == ROWS or way in ("canonical", "ranks")


def in_pairs(block):
    return {**block, "pair": np.stack([block["id"], block["id"]], 1)}


@pytest.mark.parametrize("preprocess", [None, in_pairs])
@pytest.mark.parametrize("shuffle", [False, True])
def test_each_value_is_of_its_row_from_a_cache(path, tmp_path, shuffle, preprocess):
    columns = {"id": "id", "t": "t", "own": Pad("t", 3), "stack": Stack(WIDE[:2])}
    budget = TokenBudget("t", 23)
    with FastParquetDataset(
        path,
        columns=columns,
        batch_size=budget,
        shuffle=shuffle,
        preprocess=preprocess,
        cache=tmp_path,
    ) as dataset:
        for _ in range(3):
            for batch in dataset:
                check(batch)
