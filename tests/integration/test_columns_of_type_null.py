"""Columns of type null: every row is null, whatever the writer stores, beside values or alone."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from fastload import Codes, Column, FastParquetDataset, Hash, NullValueError, Pad
from support.thrift import crafted

ORDERS = [{}, {"shuffle": True, "shuffle_window": 2}, {"filters": [("i", "<", 90)]}]
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


def read(source, columns, **options):
    """Return the values of output `x`, in the order of column `i`."""
    columns = {"x": columns, "i": "i"}
    with FastParquetDataset(source, columns=columns, batch_size=3, **options) as dataset:
        rows = [row for b in dataset for row in zip(b["i"].tolist(), b["x"].tolist(), strict=True)]
    return [value for _, value in sorted(rows)]


@pytest.mark.parametrize("options", ORDERS, ids=str)
@pytest.mark.parametrize(
    ("words", "vocabulary"), [(["a", "b", None], ["a", "b"]), ([5, 6, None], [5, 6])]
)
def test_vocabulary_of_a_column_without_values_in_a_file(tmp_path, options, words, vocabulary):
    kind = pa.array(words).type
    some = {"s": words, "l": pa.array([[words[0]], None, [words[1], None]], pa.list_(kind))}
    none = {"s": pa.nulls(2), "l": pa.array([[None, None], None], pa.list_(pa.null()))}
    pq.write_table(pa.table({**some, "i": [0, 1, 2]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({**none, "i": [3, 4]}), tmp_path / "b.parquet")
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    assert read(paths, Codes("s", vocabulary), **options) == [0, 1, -1, -1, -1]
    lists = [[0], [], [1, -1], [-1, -1], []]
    assert read(paths, Codes("l", vocabulary), **options) == lists
    padded = [[*codes, 7, 7][:2] for codes in lists]
    assert read(paths, Pad(Codes("l", vocabulary), 2, value=7), **options) == padded
    assert read(paths[1:], Codes("s", vocabulary), **options) == [-1, -1]


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
        (batch,) = FastParquetDataset(path, nulls="nan", **whole, **order)
        assert batch["x"].dtype == torch.float32
        assert batch["x"].isnan().all()
        filled = {"x": Column("x", torch.int64, fill=3, valid=True), "h": Hash("x", 9, fill=5)}
        (batch,) = FastParquetDataset(path, columns=filled, **whole, **order)
        assert batch["x"].tolist() == [3] * ROWS
        assert not batch["x__valid"].any()
        assert len(set(batch["h"].tolist())) == 1
    for asked in ({"x": Column("x", torch.int64)}, ["x"]):
        with pytest.raises(NullValueError, match="row group 0, column `x`"):
            list(FastParquetDataset(path, columns=asked, **whole))
    null_file(path, stored, lists=True, **options)
    (batch,) = FastParquetDataset(path, nulls="nan", **whole)
    assert batch["x"].offsets.tolist() == list(range(0, ROWS + 1, 4))
    assert batch["x"].values.isnan().all()
