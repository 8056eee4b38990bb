"""A first pretraining run on packed documents, and instruction tuning with prompts masked."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from fastload import FastParquetDataset, Pack, per_row

LENGTH = 64


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    rng = np.random.default_rng(0)
    lengths = rng.integers(2, 50, 2000)
    ends = 1 + lengths.cumsum()  # every token is another number, and none is 0
    ids = [np.arange(end - length, end) for end, length in zip(ends, lengths, strict=True)]
    table = {
        "input_ids": pa.array(ids, pa.list_(pa.int32())),
        "prompt_len": pa.array(rng.integers(1, lengths), pa.int32()),
    }
    path = tmp_path_factory.mktemp("documents") / "train.parquet"
    pq.write_table(pa.table(table), path, row_group_size=300)
    return path


def packed(path, rank=0, world_size=1, **arguments):
    return FastParquetDataset(
        path,
        pack=Pack("input_ids", LENGTH, **arguments.pop("pack", {})),
        batch_size=8,
        shuffle=True,
        rank=rank,
        world_size=world_size,
        **arguments,
    )


def test_two_ranks_see_every_token_and_resume(documents):
    tokens = []
    for rank in range(2):
        dataset = packed(documents, rank, 2, uneven="pad")
        batches = [batch["input_ids"] * batch["__valid__"][:, None] for batch in dataset]
        assert len(batches) == len(packed(documents, 0, 2, uneven="pad"))
        stopped = packed(documents, rank, 2, uneven="pad")
        for _, batch in zip(range(5), stopped, strict=False):
            state = stopped.state_dict(after=batch)
        resumed = packed(documents, rank, 2, uneven="pad")
        resumed.load_state_dict(state)
        rest = [batch["input_ids"] * batch["__valid__"][:, None] for batch in resumed]
        assert torch.equal(torch.cat(rest), torch.cat(batches[5:]))
        tokens.append(torch.cat(batches).flatten())
    found = torch.cat(tokens).sort().values
    stored = pq.read_table(documents)["input_ids"].combine_chunks().flatten()
    assert found[found > 0].tolist() == stored.to_pylist()


def labels_of(input_ids, prompt_len):
    labels = input_ids.clone()
    labels[:prompt_len] = -100
    return labels


def test_prompts_are_masked_before_documents_are_packed(documents, tmp_path):
    dataset = packed(
        documents,
        preprocess=per_row(labels_of, inputs=["input_ids", "prompt_len"], outputs="labels"),
        cache=tmp_path,
        pack={"along": ["labels"], "pad": {"labels": -100}},
    )
    prompts = {}
    for row in pq.read_table(documents).to_pylist():
        prompts |= dict.fromkeys(row["input_ids"][: row["prompt_len"]])
    for batch in dataset:
        ids, labels = batch["input_ids"], batch["labels"]
        masked = torch.tensor([token == 0 or token in prompts for token in ids.flatten().tolist()])
        assert torch.equal(labels, ids.masked_fill(masked.view_as(ids), -100))
