"""A first run on a Delta table with deleted rows, stopped and resumed."""

import numpy as np
import pyarrow as pa
import pytest
import torch

from fastload import Delta, FastParquetDataset, SourceChangedError, UnsupportedTypeError
from support.lakehouse import needs

deltalake = needs("deltalake")


def test_a_run_on_a_delta_table_goes_on_at_its_version(tmp_path):
    path = str(tmp_path / "dt")
    for start in (0, 2000):
        table = pa.table({"id": np.arange(start, start + 2000)})
        deltalake.write_deltalake(path, table, mode="append")
    deltalake.DeltaTable(path).delete("id % 10 = 3")
    version = deltalake.DeltaTable(path).version()

    def made(version=version):
        return FastParquetDataset(Delta(path, version), batch_size=100, shuffle=True)

    with pytest.raises(UnsupportedTypeError, match=r"pass `fastload\.Delta\('.*dt'\)` as the sou"):
        FastParquetDataset(path)
    ids, dataset = [], made()
    for batch in dataset:
        ids.append(batch["id"])
        if len(ids) == 15:
            state = dataset.state_dict(after=batch)
            break
    deltalake.DeltaTable(path).delete("id < 1000")
    with pytest.raises(SourceChangedError):
        made(None).load_state_dict(state)
    resumed = made()
    resumed.load_state_dict(state)
    found = torch.cat([*ids, *(batch["id"] for batch in resumed)]).sort().values
    assert found.tolist() == [row for row in range(4000) if row % 10 != 3]
