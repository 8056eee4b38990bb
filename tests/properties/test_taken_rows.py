"""Rows by number are those of pyarrow, for any file, any columns and any numbers."""

import tempfile

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from parquet_cases import EXAMPLES, files
from spec_cases import outputs_of
from test_dataset_rows import stored
from test_filtered_rows import COLUMNS, expected, predicates, rows_of, tables, write

from fastload import FastParquetDataset
from support.same_rows import assert_same_rows


@st.composite
def numbers(draw, rows):
    """Numbers of rows: few or many, with repeats, in order or not, some from the end."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    count = draw(st.sampled_from([1, 3, 50, rows, 3 * rows + 1]))
    found = rng.integers(0, rows, count)
    if draw(st.booleans()):
        found = np.unique(found)
    elif draw(st.booleans()):
        found = np.sort(found)
    return np.where(rng.random(len(found)) < draw(st.sampled_from([0, 0.5])), found - rows, found)


@EXAMPLES
@given(files=files(), data=st.data())
def test_rows_are_those_of_pyarrow(files, data):
    with tempfile.TemporaryDirectory() as directory:
        paths, stored_tables = stored(files, directory)
        rows = stored_tables.table.num_rows
        columns = data.draw(outputs_of(stored_tables.leaves))
        with FastParquetDataset(
            paths,
            columns=columns,
            threads=data.draw(st.sampled_from([0, 1, 3])),
            shuffle=data.draw(st.booleans()),
            provenance=True,
        ) as dataset:
            assert dataset.num_rows == rows
            for _ in range(2 if rows else 0):
                asked = data.draw(numbers(rows))
                batch = dataset.take(asked)
                want = stored_tables.table.take(pa.array(asked % rows))
                assert_same_rows([batch], want, columns)
                assert (stored_tables.indices_of(batch) == asked % rows).all()
                assert list(batch) == list(dataset.schema)


@settings(max_examples=settings.default.max_examples // 3)
@given(data=st.data(), table=tables(), filters=predicates())
def test_filters_and_split_come_first(data, table, filters):
    with tempfile.TemporaryDirectory() as directory:
        write(data.draw, table, directory)
        for split in (None, ("key", 0.2, 0.7)):
            options = {"columns": COLUMNS, "filters": filters, "split": split, "threads": 1}
            with FastParquetDataset(directory, **options) as dataset:
                want = rows_of(dataset)
                assert split is not None or want == expected(directory, filters)
                assert dataset.num_rows == len(want)
                if want:
                    asked = data.draw(numbers(len(want)))
                    assert rows_of([dataset.take(asked)]) == [want[i] for i in asked]
