"""A first model on stored embeddings: a linear probe, and a contrastive loss."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import nn

from fastload import Codes, DevicePrefetcher, FastParquetDataset, Fixed

SIZE = 24


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    """Embeddings as lists without a fixed size in the schema, of three topics."""
    rng = np.random.default_rng(0)
    topic = rng.integers(0, 3, 3000)
    centers = rng.normal(size=(3, SIZE))
    data = (centers[topic] + rng.normal(size=(3000, SIZE))).astype(np.float32)
    columns = {
        "vector": pa.array(list(data), pa.list_(pa.float32())),
        "topic": pa.array(np.array(["art", "law", "war"])[topic]),
    }
    path = tmp_path_factory.mktemp("vectors") / "part.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=400)
    return path


def test_a_linear_probe_learns(vectors):
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    columns = {"x": Fixed("vector", SIZE), "y": Codes("topic", ["art", "law", "war"])}
    train, valid = (
        FastParquetDataset(vectors, columns=columns, split=split, shuffle=True, batch_size=64)
        for split in [(None, 0, 0.9), (None, 0.9, 1)]
    )
    probe = nn.Linear(SIZE, 3).to(device)
    optimizer = torch.optim.Adam(probe.parameters(), 0.01)
    for _ in range(3):
        for batch in DevicePrefetcher(train, device):
            loss = nn.functional.cross_entropy(probe(batch["x"]), batch["y"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    found = [
        (probe(batch["x"]).argmax(1) == batch["y"]).float()
        for batch in DevicePrefetcher(valid, device)
    ]
    assert torch.cat(found).mean() > 0.9


def test_a_list_of_another_length_is_named(vectors):
    dataset = FastParquetDataset(vectors, columns={"x": Fixed("vector", SIZE + 1)})
    with pytest.raises(ValueError, match=r"lists of 25 elements, got 24 - at .*, column `vector`"):
        dataset.head()


def test_a_contrastive_model_of_texts_learns(data_dir):
    """A projection brings two noisy views of the same embedding together."""
    path = data_dir / "real" / "city_wiki_embeddings.parquet"
    dataset = FastParquetDataset(
        path, columns={"x": Fixed("vector", 384)}, batch_size=64, shuffle=True, drop_last=True
    )
    stored = np.stack(pq.read_table(path)["vector"].to_numpy())
    assert np.array_equal(dataset.head(len(stored))["x"].numpy(), stored.astype(np.float32))
    torch.manual_seed(0)
    project = nn.Linear(384, 32)
    optimizer = torch.optim.Adam(project.parameters(), 0.003)
    losses = []
    for _ in range(4):
        for batch in dataset:
            x = batch["x"]
            a, b = (
                nn.functional.normalize(project(x + 0.1 * torch.randn_like(x))) for _ in range(2)
            )
            loss = nn.functional.cross_entropy(a @ b.T / 0.1, torch.arange(len(x)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
