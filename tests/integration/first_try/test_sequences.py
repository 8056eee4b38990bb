"""A first model of sensors: windows of consecutive rows, and rows by number."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from fastload import FastParquetDataset

LENGTH = 24


@pytest.fixture(scope="module")
def readings(tmp_path_factory):
    """Readings of 30 sensors in order of time, as a logger writes them."""
    rng = np.random.default_rng(0)
    sensor = rng.integers(0, 30, 6000)
    columns = {"sensor": sensor, "time": np.arange(6000), "value": rng.normal(size=6000)}
    path = tmp_path_factory.mktemp("readings") / "part.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=700)
    return path


def test_windows_of_a_sensor_by_take(readings):
    keys = FastParquetDataset(readings, columns=["sensor", "time"], batch_size=6000)
    (found,) = keys
    order = np.lexsort((found["time"], found["sensor"]))
    sensor = found["sensor"].numpy()[order]
    starts = np.flatnonzero(sensor[: 1 - LENGTH] == sensor[LENGTH - 1 :])
    chosen = np.random.default_rng(1).permutation(starts)[:256]
    rows = order[chosen[:, None] + np.arange(LENGTH)]
    batch = FastParquetDataset(readings).take(rows.flatten())
    windows = {name: values.view(256, LENGTH) for name, values in batch.items()}
    assert (windows["sensor"] == windows["sensor"][:, :1]).all()
    assert (windows["time"].diff() > 0).all()
    stored = pq.read_table(readings)["value"].to_numpy()
    assert np.array_equal(windows["value"], stored[rows])


def test_a_thousand_rows_by_number(readings):
    rows = torch.from_numpy(np.random.default_rng(2).permutation(6000)[:1000])
    batch = FastParquetDataset(readings).take(rows)
    for name, column in pq.read_table(readings).to_pydict().items():
        assert batch[name].tolist() == [column[row] for row in rows.tolist()]
