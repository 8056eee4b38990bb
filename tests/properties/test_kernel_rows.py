"""Property: a kernel makes of a dataset's rows what its function makes of pyarrow's."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from fastload import FastParquetDataset, kernel


@kernel(inputs=("a", "b", "l"), outputs={"c": ("float64", 2), "a": "int32"})
def mixed(a, b, values, offsets, c, a_out):
    """Runs as Python too: numpy arrays in, numpy arrays filled."""
    for i in range(len(a)):
        c[i, 0] = a[i] * b[i]
        c[i, 1] = a[i] / b[i]
        for j in range(offsets[i], offsets[i + 1]):
            c[i, 1] += values[j]
        a_out[i] = a[i] // 3 - offsets[i + 1] + offsets[i]


NUMBERS = st.floats(allow_nan=False, width=32)


@st.composite
def tables(draw):
    rows = draw(st.integers(1, 60))
    column = lambda of: draw(st.lists(of, min_size=rows, max_size=rows))  # noqa: E731
    return pa.table(
        {
            "row": np.arange(rows),
            "a": pa.array(column(st.integers(-1000, 1000)), pa.int32()),
            "b": pa.array(column(NUMBERS), pa.float64()),
            "l": pa.array(column(st.lists(NUMBERS, max_size=3)), pa.list_(pa.float32())),
        }
    )


@settings(max_examples=40)
@given(
    table=tables(),
    group_rows=st.integers(1, 30),
    batch_size=st.integers(1, 70),
    threads=st.sampled_from([0, 1, 3]),
    window=st.none() | st.integers(1, 70),
)
def test_kernels_compute_what_python_does(
    tmp_path_factory, table, group_rows, batch_size, threads, window
):
    path = tmp_path_factory.mktemp("kernel") / "a.parquet"
    pq.write_table(table, path, row_group_size=group_rows)
    with np.errstate(all="ignore"):
        expected = np.zeros((len(table), 2)), np.zeros(len(table), np.int32)
        lists = table["l"].combine_chunks()
        values, offsets = lists.values.to_numpy(), lists.offsets.to_numpy().astype(np.int64)
        columns = [table[name].to_numpy() for name in "ab"]
        mixed(*columns, values, offsets, *expected)
    options = {"shuffle": window is not None, "shuffle_window": window, "threads": threads}
    with FastParquetDataset(path, preprocess=mixed, batch_size=batch_size, **options) as dataset:
        batches = [batch.clone() for batch in dataset]
    rows = np.concatenate([batch["row"] for batch in batches])
    assert sorted(rows.tolist()) == list(range(len(table)))
    for name, whole in zip("ca", expected, strict=True):
        got = np.concatenate([batch[name].numpy() for batch in batches])
        assert got.dtype == whole.dtype
        assert np.array_equal(got, whole[rows], equal_nan=True)
