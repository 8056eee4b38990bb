"""A first language model: padded token lists, a mask, and a causal loss."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from fastload import Column, FastParquetDataset, Pad

LENGTH = 32


class LanguageModel(nn.Module):
    def __init__(self, words, width=32):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(words, width)
        self.position = nn.Parameter(torch.zeros(LENGTH, width))
        self.block = nn.TransformerEncoderLayer(width, 4, 2 * width, batch_first=True)
        self.head = nn.Linear(width, words)

    def forward(self, tokens, attention_mask):
        x = self.embedding(tokens) + self.position
        causal = nn.Transformer.generate_square_subsequent_mask(LENGTH)
        x = self.block(x, causal, src_key_padding_mask=(~attention_mask).float() * -1e9)
        return self.head(x)


def losses_of(dataset, words, steps):
    """Train, and return the loss of each step, which leaves out padded tokens."""
    model = LanguageModel(words)
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    losses = []
    for _, batch in zip(range(steps), DataLoader(dataset, batch_size=None), strict=False):
        tokens, mask = batch["input_ids"], batch["input_ids__mask"]
        logits = model(tokens, mask)[:, :-1]
        targets = tokens[:, 1:].masked_fill(~mask[:, 1:], -100)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def tokens_of(path):
    ids = Pad(Column("input_ids", dtype="int64"), LENGTH, mask=True)
    return FastParquetDataset(path, columns={"input_ids": ids}, batch_size=32, shuffle=True)


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    rng = np.random.default_rng(0)
    lists = []
    for length in rng.integers(3, 60, 3000):
        start = rng.integers(0, 50)
        lists.append((start + np.arange(length)) % 50)
    path = tmp_path_factory.mktemp("texts") / "train.parquet"
    pq.write_table(pa.table({"input_ids": pa.array(lists, pa.list_(pa.int32()))}), path)
    return path


def test_the_mask_marks_the_tokens(texts):
    batch = tokens_of(texts).head(8)
    lists = pq.read_table(texts)["input_ids"].to_pylist()[:8]
    assert batch["input_ids__mask"].sum(1).tolist() == [min(len(each), LENGTH) for each in lists]
    for row, each in zip(batch["input_ids"].tolist(), lists, strict=True):
        assert row[: len(each)] == each[:LENGTH]


def test_a_language_model_learns(texts):
    dataset = tokens_of(texts)
    assert len(dataset) == 94
    losses = losses_of(dataset, 50, 90)
    assert losses[-1] < 0.5 * losses[0]


def test_left_padding_for_generation(texts):
    spec = Pad("input_ids", LENGTH, side="left", keep="last")
    batch = FastParquetDataset(texts, columns={"prompt": spec}).head(4)
    ragged = FastParquetDataset(texts, columns=["input_ids"]).head(4)["input_ids"]
    assert batch["prompt"][:, -1].tolist() == [row[-1].item() for row in ragged]
    assert batch["prompt__length"].tolist() == ragged.lengths.clamp(max=LENGTH).tolist()


def test_a_language_model_of_wikipedia_learns(data_dir):
    path = data_dir / "writers" / "tokens.polars.parquet"
    words = 1 + max(max(ids) for ids in pq.read_table(path)["input_ids"].to_pylist() if ids)
    losses = losses_of(tokens_of(path), words, 31)
    assert losses[-1] < 0.9 * losses[0]
