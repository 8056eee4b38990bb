"""Where each row comes from."""

import pyarrow.parquet as pq
import pytest
import torch

from fastload import FastParquetDataset, per_row
from support.sample_files import write_sample


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("uneven", ["wrap", "pad"])
def test_rows_are_found_where_they_are_said_to_be(tmp_path, shuffle, uneven):
    sizes = [130, 1, 999]
    paths = [write_sample(tmp_path / f"{k}.parquet", rows, 70) for k, rows in enumerate(sizes)]
    delivered = []
    for rank in range(3):
        with FastParquetDataset(
            paths[::-1],
            columns=["id", "name"],
            batch_size=50,
            shuffle=shuffle,
            shuffle_window=200,
            provenance=True,
            uneven=uneven,
            rank=rank,
            world_size=3,
            threads=2,
        ) as dataset:
            assert dataset.files == tuple(paths[::-1])
            assert list(dataset.schema)[2:4] == ["__file__", "__row__"]
            for batch in dataset:
                assert batch["__file__"].dtype == torch.int32
                assert batch["__row__"].dtype == torch.int64
                # The sample's ids count the rows of their file.
                assert torch.equal(batch["__row__"], batch["id"])
                real = batch.get("__valid__", torch.ones(batch.rows, dtype=torch.bool))
                places = zip(batch["__file__"].tolist(), batch["__row__"].tolist(), strict=True)
                delivered += [p for p, ok in zip(places, real.tolist(), strict=True) if ok]
    every = [(file, row) for file, rows in enumerate(sizes[::-1]) for row in range(rows)]
    assert sorted(set(delivered)) == every
    assert len(delivered) == len(every) if uneven == "pad" else len(delivered) <= len(every) + 2


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"provenance": True}, "__file__"),
        ({"augment": lambda batch, seeds: {}}, "__file__"),
        ({"preprocess": per_row(abs, inputs="id", outputs="size")}, "__file__"),
        ({"uneven": "pad"}, "__valid__"),
    ],
)
def test_files_that_hold_the_places_of_an_earlier_run(tmp_path, options, name):
    path = write_sample(tmp_path / "sample.parquet", 10, 10)
    source = {"columns": ["id"], "batch_size": 10, "uneven": "pad", "provenance": True}
    scores = str(tmp_path / "scores.parquet")
    with FastParquetDataset(path, **source) as dataset:
        batch = next(iter(dataset))
        with pq.ParquetWriter(scores, batch.to_arrow().schema) as writer:
            writer.write_batch(batch.to_arrow())
    with FastParquetDataset(scores, batch_size=10) as dataset:
        assert list(next(iter(dataset))) == ["id", "__file__", "__row__", "__valid__"]
    with pytest.raises(ValueError, match=rf'`{name}` is used twice: .* exclude=\["{name}"\]'):
        FastParquetDataset(scores, **options)
    places = ["__file__", "__row__", "__valid__"]
    with FastParquetDataset(scores, exclude=places, **options) as dataset:
        assert next(iter(dataset))["id"].tolist() == batch["id"].tolist()
