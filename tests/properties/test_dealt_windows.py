"""Windows of several buckets: every width of value and of code, with nulls, is dealt out right."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from fastload import Column, FastParquetDataset, Stack
from support.same_rows import assert_same_rows

TYPES = [pa.int8(), pa.uint16(), pa.int32(), pa.float32(), pa.int64(), pa.float64(), pa.bool_()]
# Around the most entries that codes of one, two and four bytes are used for.
DISTINCT = [2, 100, 120, 254, 255, 256, 300, 25_000, 32_767, 33_000, 65_535, 70_000]


@st.composite
def columns(draw):
    """Type, distinct values, share of nulls, validity asked for, dictionary or not."""
    return (
        draw(st.sampled_from(TYPES)),
        draw(st.sampled_from(DISTINCT)),
        draw(st.sampled_from([0, 0, 0.1, 1])),
        draw(st.booleans()),
        draw(st.sampled_from([True, True, True, False])),
    )


def values_of(rng, kind, distinct, rows):
    numbers = rng.integers(0, distinct, rows)
    if pa.types.is_boolean(kind):
        return numbers % 2 == 0
    dtype = kind.to_pandas_dtype()
    if np.dtype(dtype).itemsize <= 2:
        numbers %= 120
    return numbers.astype(dtype)


WINDOWS = {
    "rows": st.integers(33_000, 140_000),
    "row_group_rows": st.sampled_from([20_000, 70_000, 140_000]),
    "dictionary_limit": st.sampled_from([1 << 10, 1 << 17, 1 << 24]),
    "seed": st.integers(0, 2**32),
}


@settings(max_examples=30, deadline=None)
@given(specs=st.lists(columns(), min_size=1, max_size=5), **WINDOWS)
def test_rows_are_dealt_out_right(
    tmp_path_factory, specs, rows, row_group_rows, dictionary_limit, seed
):
    rng = np.random.default_rng(seed)
    path = tmp_path_factory.mktemp("dealt") / "t.parquet"
    table = table_of(rng, specs, rows)
    asked = {
        name: Column(name, fill=None if spec[3] else True, valid=spec[3])
        for name, spec in zip(table.column_names, specs, strict=True)
    }
    write(table, path, specs, row_group_rows, dictionary_limit)
    check(path, table, asked, seed)


# Of few columns, which are dealt out, and of many, whose rows are copied one by one.
@settings(max_examples=30, deadline=None)
@given(
    kind=st.sampled_from(TYPES),
    specs=st.lists(columns(), min_size=2, max_size=18),
    **WINDOWS,
)
def test_rows_of_stacks_come_out_right(
    tmp_path_factory, kind, specs, rows, row_group_rows, dictionary_limit, seed
):
    rng = np.random.default_rng(seed)
    path = tmp_path_factory.mktemp("dealt") / "t.parquet"
    specs = [(kind, *spec[1:]) for spec in specs]
    table = table_of(rng, specs, rows)
    write(table, path, specs, row_group_rows, dictionary_limit)
    check(path, table, {"stack": Stack(table.column_names, fill=1)}, seed)


def table_of(rng, specs, rows):
    columns = {}
    for j, (kind, distinct, nulls, _, _) in enumerate(specs):
        mask = rng.random(rows) < nulls
        columns[f"c{j}"] = pa.array(values_of(rng, kind, distinct, rows), kind, mask=mask)
    return pa.table(columns)


def write(table, path, specs, row_group_rows, dictionary_limit):
    pq.write_table(
        table,
        path,
        row_group_size=row_group_rows,
        use_dictionary=[f"c{j}" for j, spec in enumerate(specs) if spec[4]],
        dictionary_pagesize_limit=dictionary_limit,
    )


def check(path, table, asked, seed):
    with FastParquetDataset(
        path, columns=asked, batch_size=5_000, shuffle=True, seed=seed, provenance=True, threads=2
    ) as dataset:
        batches = list(dataset)
    order = np.concatenate([batch["__row__"].numpy() for batch in batches])
    assert (np.sort(order) == np.arange(table.num_rows)).all()
    assert_same_rows(batches, table.take(order), asked)
