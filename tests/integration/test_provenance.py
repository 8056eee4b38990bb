"""Where each row comes from."""

import pytest
import torch

from fastload import FastParquetDataset
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
