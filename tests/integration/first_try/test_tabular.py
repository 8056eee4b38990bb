"""A first click model: columns with nulls, a hashed column, DataLoader, tqdm, and a resumed run."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import fastload
from fastload import DataWait, FastParquetDataset, Hash, Stack

BUCKETS = 1000


class ClickModel(nn.Module):
    def __init__(self, numbers):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(BUCKETS, 8)
        self.layers = nn.Sequential(nn.Linear(numbers + 8, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, batch):
        return self.layers(torch.cat([batch["x"], self.embedding(batch["c"])], 1)).squeeze(1)


def train(dataset, epochs, label):
    """Train as a tutorial does, and return the mean loss of each epoch."""
    model = ClickModel(len(dataset.head(1)["x"][0]))
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    loader = DataWait(DataLoader(dataset, batch_size=None))
    losses = []
    for _ in range(epochs):
        total = 0.0
        for batch in progress(loader):
            target = label(batch)
            loss = nn.functional.binary_cross_entropy_with_logits(model(batch), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        losses.append(total / len(loader))
    assert "data" in str(loader.report())
    return losses


def progress(loader):
    """Return the loader behind a progress bar, where tqdm is installed."""
    tqdm = pytest.importorskip("tqdm")
    bar = tqdm.tqdm(loader, disable=True)
    assert len(bar) == len(loader)
    return bar


@pytest.fixture(scope="module")
def clicks(tmp_path_factory):
    directory = tmp_path_factory.mktemp("clicks")
    rng = np.random.default_rng(0)
    for part in range(3):
        f1, f2 = rng.normal(size=(2, 2000))
        site = rng.integers(0, 5, 2000)
        clicked = f1 + f2 + (site == 2) + rng.normal(size=2000) * 0.3 > 0.5
        columns = {
            "f1": pa.array(f1, mask=rng.random(2000) < 0.05),
            "f2": f2,
            "site": pa.array([f"site {k}" if k else None for k in site]),
            "age": pa.array(rng.integers(18, 90, 2000), mask=rng.random(2000) < 0.1),
            "click": clicked,
        }
        pq.write_table(pa.table(columns), directory / f"part-{part}.parquet", row_group_size=500)
    return directory


def test_a_click_model_learns(clicks):
    train_set, valid_set = (
        FastParquetDataset(
            clicks,
            columns={
                "x": Stack(["f1", "f2", "age"], fill={"f1": 0, "age": 0}),
                "c": Hash("site", BUCKETS, fill="?"),
                "click": torch.float32,
            },
            split=(None, start, stop),
            batch_size=128,
            shuffle=True,
        )
        for start, stop in [(0, 0.9), (0.9, 1)]
    )
    assert train_set.num_rows + valid_set.num_rows == 6000
    assert "click" in repr(train_set)
    assert train_set.schema["x"].shape == (3,)
    losses = train(train_set, 3, lambda batch: batch["click"])
    assert losses[-1] < 0.8 * losses[0]
    assert sum(batch.rows for batch in valid_set) == valid_set.num_rows


def test_nulls_are_named_and_one_word_opens_the_files(clicks):
    with pytest.raises(fastload.NullValueError, match=r'pass nulls="nan" .*, "zero" or "mask"'):
        iter(FastParquetDataset(clicks))
    dataset = FastParquetDataset(clicks, nulls="mask", exclude=["f1"])
    table = pq.read_table(clicks)
    batches = list(dataset)
    valid = torch.cat([batch["age__valid"] for batch in batches])
    assert valid.tolist() == table["age"].is_valid().to_pylist()


def test_a_run_goes_on_where_it_was_cut_off(clicks):
    def made():
        columns = {"x": ["f1", "f2"], "click": "click"}
        return FastParquetDataset(
            clicks, columns=columns, nulls="mask", batch_size=100, shuffle=True
        )

    whole = [batch["x"] for batch in made()]
    dataset = made()
    for number, batch in enumerate(DataLoader(dataset, batch_size=None)):
        if number == 20:
            state = dataset.state_dict(after=batch)
            break
    resumed = made()
    resumed.load_state_dict(state)
    rest = [batch["x"] for batch in resumed]
    assert len(rest) == len(whole) - 21
    for batch, expected in zip(rest, whole[21:], strict=True):
        assert torch.equal(batch, expected)


def test_a_model_of_taxi_tips_learns(data_dir):
    dataset = FastParquetDataset(
        data_dir / "real" / "nyc_green_2024-01.parquet",
        columns={
            "x": Stack(["trip_distance", "fare_amount", "payment_type"], "float32", fill=0),
            "c": Hash("store_and_fwd_flag", BUCKETS, fill="?"),
            "tip": "tip_amount",
        },
        filters=[("lpep_pickup_datetime", ">=", "2024-01-15"), ("fare_amount", ">", 0)],
        batch_size=1024,
        shuffle=True,
    )
    losses = train(dataset, 3, lambda batch: (batch["tip"] > 0).float())
    assert losses[-1] < 0.9 * losses[0]
