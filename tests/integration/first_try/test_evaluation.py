"""A first evaluation: predictions of two ranks, written to Parquet and joined to the rows."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import DataLoader

from fastload import FastParquetDataset

ROWS = 1001  # two ranks have different numbers of rows


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    directory = tmp_path_factory.mktemp("valid")
    values = np.random.default_rng(0).normal(size=ROWS)
    for part, rows in enumerate(np.split(np.arange(ROWS), [400, 700])):
        table = pa.table({"id": rows, "x": values[rows]})
        pq.write_table(table, directory / f"part-{part}.parquet", row_group_size=128)
    return directory


def write_predictions(source, model, columns, output):
    """Write the predictions of every rank, each with the file and the number of its row."""
    for rank in range(2):
        dataset = FastParquetDataset(
            source,
            columns=columns,
            batch_size=64,
            uneven="keep",
            provenance=True,
            rank=rank,
            world_size=2,
        )
        parts = []
        with torch.inference_mode():
            for batch in DataLoader(dataset, batch_size=None):
                batch["prediction"] = model(batch["x"])
                del batch["x"]
                parts.append(batch.to_arrow())
        pq.write_table(pa.Table.from_batches(parts), output / f"rank-{rank}.parquet")
    return dataset.files


def joined(files, predictions, columns):
    """Return the rows of the files with their predictions, joined by file and row."""
    tables = []
    for number, path in enumerate(files):
        table = pq.read_table(path, columns=columns)
        table = table.append_column("__file__", pa.array([number] * len(table), pa.int32()))
        tables.append(table.append_column("__row__", pa.array(np.arange(len(table)))))
    rows = pa.concat_tables(tables)
    found = rows.join(predictions, ["__file__", "__row__"], join_type="full outer")
    return found.sort_by([("__file__", "ascending"), ("__row__", "ascending")])


def test_predictions_join_their_rows(files, tmp_path):
    names = write_predictions(files, lambda x: 2 * x + 1, {"x": "x"}, tmp_path)
    predictions = pq.read_table(tmp_path)
    assert len(predictions) == ROWS
    table = joined(names, predictions, ["id", "x"])
    assert table["id"].to_pylist() == list(range(ROWS))
    assert table["prediction"].to_pylist() == [2 * x + 1 for x in table["x"].to_pylist()]


def test_each_row_is_counted_once(files):
    def means(uneven):
        ranks = [
            FastParquetDataset(
                files, columns=["x"], batch_size=64, uneven=uneven, rank=rank, world_size=2
            )
            for rank in range(2)
        ]
        batches = [batch for dataset in ranks for batch in dataset]
        valid = [batch.get("__valid__", torch.ones(batch.rows, dtype=bool)) for batch in batches]
        return torch.cat([batch["x"][keep] for batch, keep in zip(batches, valid, strict=True)])

    expected = sorted(pq.read_table(files)["x"].to_pylist())
    assert sorted(means("keep").tolist()) == expected
    assert sorted(means("pad").tolist()) == expected


def test_predictions_of_loans_join_their_rows(data_dir, tmp_path):
    source = data_dir / "real" / "feast_training_ds.parquet"
    names = write_predictions(
        source, lambda x: x.sum(1), {"x": ["person_age", "person_income"]}, tmp_path
    )
    table = joined(names, pq.read_table(tmp_path), ["person_age", "person_income"])
    stored = pq.read_table(source, columns=["person_age", "person_income"])
    ages, incomes = (stored[name].to_numpy() for name in stored.column_names)
    assert np.array_equal(table["prediction"].to_numpy(), ages + incomes)
