"""A comparison of rows by number with pyarrow's `Table.take`."""

import numpy as np
import pyarrow as pa

from fastload import Column, FastParquetDataset
from support.expected_numbers import leaves_of
from support.same_rows import assert_same_rows
from support.stored_tables import fill_of


def assert_taken(path, table):
    """Assert that rows of a file by number, in any order and with repeats, are the table's."""
    rng = np.random.default_rng(0)
    rows = table.num_rows
    filled, valid = {}, {}
    for name, leaf in leaves_of(table).items():
        filled[name] = Column(name, fill=fill_of(leaf))
        valid[name] = Column(name, valid=True)
    for columns in (filled, valid):
        with FastParquetDataset(path, columns=columns, shuffle=True) as dataset:
            assert dataset.num_rows == rows
            for count in (1, 30, 1000) if rows else ():
                asked = rng.integers(-rows, rows, count)
                for some in (asked, np.unique(asked % rows)):
                    want = table.take(pa.array(some % rows))
                    assert_same_rows([dataset.take(some)], want, columns)
