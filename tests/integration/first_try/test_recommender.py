"""A first recommender: bags of three features of varying lengths, and drawn negatives."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import nn

from fastload import FastParquetDataset

FEATURES = ["clicked", "bought", "tags"]
ITEMS, NEGATIVES = 50, 4


@pytest.fixture(scope="module")
def visits(tmp_path_factory):
    """Visits of two kinds: people of the first half of the items, and of the second."""
    rng = np.random.default_rng(0)
    half = rng.integers(0, 2, 3000) * ITEMS // 2

    def items(most):
        rows = [start + rng.integers(0, ITEMS // 2, rng.integers(0, most)) for start in half]
        return pa.array(rows, pa.list_(pa.int64()))

    columns = {"clicked": items(9), "bought": items(4), "tags": items(6)}
    columns["item"] = half + rng.integers(0, ITEMS // 2, 3000)
    path = tmp_path_factory.mktemp("visits") / "part.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=500)
    return path


def with_negatives(batch, seeds):
    numbers = np.random.default_rng(seeds)
    drawn = numbers.integers(0, ITEMS, (batch.rows, NEGATIVES))
    batch["negatives"] = torch.from_numpy(drawn)
    return batch


def test_values_and_lengths_are_those_of_torchrec(visits):
    """KeyedJaggedTensor takes the values and lengths of one feature after the other."""
    batch = FastParquetDataset(visits).head(5)
    values = torch.cat([batch[name].values for name in FEATURES])
    lengths = torch.cat([batch[name].lengths for name in FEATURES])
    stored = pq.read_table(visits, columns=FEATURES)[:5].to_pydict()
    rows = [row for name in FEATURES for row in stored[name]]
    assert [part.tolist() for part in values.split(lengths.tolist())] == rows


def test_a_model_with_negatives_learns(visits):
    torch.manual_seed(0)
    bags = nn.ModuleDict({name: nn.EmbeddingBag(ITEMS, 8) for name in FEATURES})
    items = nn.Embedding(ITEMS, 8)
    optimizer = torch.optim.Adam([*bags.parameters(), *items.parameters()], 0.05)
    dataset = FastParquetDataset(visits, augment=with_negatives, batch_size=100, shuffle=True)
    losses = []
    for _ in range(3):
        for batch in dataset:
            person = sum(bags[n](batch[n].values, batch[n].offsets[:-1]) for n in FEATURES)
            choices = torch.cat([batch["item"][:, None], batch["negatives"]], 1)
            scores = (items(choices) @ person[:, :, None]).squeeze(2)
            loss = nn.functional.cross_entropy(scores, torch.zeros(batch.rows, dtype=torch.long))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
