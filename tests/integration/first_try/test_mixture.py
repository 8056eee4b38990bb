"""A first mix of three sources, stopped and resumed."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from fastload import FastParquetDataset, mix

WEIGHTS = {"web": 6, "books": 3, "code": 1}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    directory = tmp_path_factory.mktemp("sources")
    for number, name in enumerate(WEIGHTS):
        ids = np.arange(2000) + 10_000 * number
        pq.write_table(pa.table({"id": ids}), directory / f"{name}.parquet", row_group_size=300)
    return directory


def mixed(directory, weights=WEIGHTS):
    datasets = {
        name: FastParquetDataset(directory / f"{name}.parquet", batch_size=20, shuffle=True)
        for name in WEIGHTS
    }
    return mix(datasets, weights, stop="repeat")


def test_a_mix_goes_on_where_it_was_stopped(sources):
    whole, stopped = mixed(sources), mixed(sources)
    batches = [batch for _, batch in zip(range(200), whole, strict=False)]
    assert {batch.source for batch in batches} == set(WEIGHTS)
    shares = [sum(batch.source == name for batch in batches) / 200 for name in WEIGHTS]
    assert shares == pytest.approx([0.6, 0.3, 0.1], abs=0.05)
    for _, batch in zip(range(80), stopped, strict=False):
        state = stopped.state_dict(after=batch)
    with pytest.raises(ValueError, match=r"weights=.* as when the state was saved, got weights="):
        mixed(sources, {"web": 1, "books": 3, "code": 6}).load_state_dict(state)
    resumed = mixed(sources)
    resumed.load_state_dict(state)
    for batch, expected in zip(resumed, batches[80:], strict=False):
        assert torch.equal(batch["id"], expected["id"])
