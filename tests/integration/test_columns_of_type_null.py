"""Columns of type null: every row is null, whatever the writer stores."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from fastload import Column, FastParquetDataset, Hash, NullValueError
from support.thrift import crafted

_I32, _STRUCT = 5, 12
UNKNOWN = {11: (_STRUCT, {})}  # as which Parquet has the type null
ROWS = 40
VALUES = {
    "bool": pa.array([True, False] * 20),
    "int32": pa.array(range(ROWS), pa.int32()),
    "int64": pa.array(range(ROWS), pa.int64()),
    "float32": pa.array(range(ROWS), pa.float32()),
    "float64": pa.array(range(ROWS), pa.float64()),
    "string": pa.array([str(i) for i in range(ROWS)]),
    "fixed": pa.array([b"%03d" % i for i in range(ROWS)], pa.binary(3)),
}


def null_file(path, values, *, lists, **options):
    """Write a file whose column `x` has values, but is of type null by its schema."""
    if lists:
        offsets = pa.array(range(0, ROWS + 1, 4), pa.int32())
        values = pa.ListArray.from_arrays(offsets, values)
    sink = io.BytesIO()
    table = pa.table({"x": values})
    pq.write_table(table, sink, store_schema=False, write_statistics=False, **options)

    def declare(metadata):
        leaf = metadata[2][1][1][-1]
        leaf.pop(6, None)
        leaf[10] = (_STRUCT, UNKNOWN)

    path.write_bytes(crafted(sink.getvalue(), footer=declare))
    stored = pq.read_table(path).column("x").combine_chunks()
    assert (stored.values if lists else stored).type == pa.null()


@pytest.mark.parametrize("values", [0, 10, ROWS], ids="{} values".format)
@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("physical", VALUES)
def test_any_physical_type(tmp_path, physical, dictionary, values):
    path = tmp_path / "x.parquet"
    all_rows = VALUES[physical]
    stored = pa.array(all_rows.to_pylist()[:values] + [None] * (ROWS - values), all_rows.type)
    options = {"use_dictionary": dictionary, "compression": "none"}
    null_file(path, stored, lists=False, **options)
    whole = {"batch_size": 100}
    for order in ({}, {"shuffle": True, "shuffle_window": 10}):
        (batch,) = FastParquetDataset(path, **whole, **order)
        assert batch["x"].dtype == torch.float32
        assert batch["x"].isnan().all()
        filled = {"x": Column("x", torch.int64, fill=3, valid=True), "h": Hash("x", 9, fill=5)}
        (batch,) = FastParquetDataset(path, columns=filled, **whole, **order)
        assert batch["x"].tolist() == [3] * ROWS
        assert not batch["x__valid"].any()
        assert len(set(batch["h"].tolist())) == 1
    with pytest.raises(NullValueError, match="row group 0, column `x`"):
        list(FastParquetDataset(path, columns={"x": Column("x", torch.int64)}, **whole))
    null_file(path, stored, lists=True, **options)
    (batch,) = FastParquetDataset(path, **whole)
    assert batch["x"].offsets.tolist() == list(range(0, ROWS + 1, 4))
    assert batch["x"].values.isnan().all()
