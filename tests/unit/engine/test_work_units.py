"""Work of a window is counted as the core cuts it."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from fastload import Column, FastParquetDataset, Pad, Stack
from fastload.engine.budget import WorkUnits, work_units

ROWS = 10
NUMBERS = [f"n{number}" for number in range(80)]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("units") / "a.parquet"
    columns = {name: np.arange(ROWS, dtype=np.int64) for name in NUMBERS}
    columns["narrow"] = np.arange(ROWS, dtype=np.int16)
    columns["text"] = ["abc"] * ROWS
    columns["list"] = [[1, 2]] * ROWS
    columns["fixed"] = pa.array([[1.0, 2.0]] * ROWS, pa.list_(pa.float32(), 2))
    pq.write_table(pa.table(columns), path)
    return path


def stack(columns, dtype=torch.int64):
    return Stack(NUMBERS[:columns], dtype=dtype)


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        (["narrow"], WorkUnits(1, shared=False, scratch_row_bytes=6)),
        (["narrow", "n1", "n2"], WorkUnits(3, shared=False, scratch_row_bytes=24)),
        ({"a": "n1", "b": "n1"}, WorkUnits(1, shared=False, scratch_row_bytes=24)),
        ({"a": Column("narrow", valid=True)}, WorkUnits(1, shared=False, scratch_row_bytes=6)),
        (["text", "n1"], WorkUnits(2, shared=True, scratch_row_bytes=24)),
        (["list"], WorkUnits(1, shared=True, scratch_row_bytes=0)),
        (["fixed"], WorkUnits(1, shared=True, scratch_row_bytes=0)),
        ({"a": Pad("list", 3)}, WorkUnits(1, shared=True, scratch_row_bytes=0)),
        ({"a": stack(11)}, WorkUnits(1, shared=False, scratch_row_bytes=64)),
        ({"a": stack(12)}, WorkUnits(1, shared=True, scratch_row_bytes=0)),
        ({"a": stack(32)}, WorkUnits(1, shared=True, scratch_row_bytes=0)),
        ({"a": stack(33)}, WorkUnits(2, shared=True, scratch_row_bytes=64)),
        ({"a": stack(64)}, WorkUnits(2, shared=True, scratch_row_bytes=0)),
        ({"a": stack(64, torch.float32)}, WorkUnits(1, shared=True, scratch_row_bytes=0)),
        ({"a": stack(80, torch.float32)}, WorkUnits(2, shared=True, scratch_row_bytes=0)),
        ({"a": stack(3), "b": "n1"}, WorkUnits(2, shared=False, scratch_row_bytes=64)),
    ],
)
def test_units_are_those_of_the_core(path, columns, found):
    with FastParquetDataset(path, columns=columns, batch_size=ROWS) as dataset:
        engine = dataset._engines.of_process(1)
        assert work_units(dataset._projection.outputs) == found
        _, names, _ = engine.pipeline.stop_spans()
        assert len(names) == found.units


def test_no_columns_are_one_unit():
    assert work_units(()) == WorkUnits(1, shared=False, scratch_row_bytes=0)
