import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastload import Column, FastParquetDataset, Pad, Stack
from fastload.tools.bench.roof import Roof

ROWS = 3000


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    random = np.random.default_rng(1)
    lengths = random.integers(1, 9, ROWS)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    items = pa.array(random.integers(0, 99, offsets[-1], np.int16))
    vectors = pa.array(random.random(ROWS * 4, np.float32))
    table = pa.table(
        {
            "id": pa.array(random.integers(0, 50, ROWS)),
            "price": pa.array(random.random(ROWS, np.float32)),
            "word": pa.array(["x" * int(length) for length in lengths]),
            "gap": pa.array([None, "word"] * (ROWS // 2)),
            "items": pa.ListArray.from_arrays(pa.array(offsets), items),
            "vector": pa.FixedSizeListArray.from_arrays(vectors, 4),
        }
    )
    path = tmp_path_factory.mktemp("roof") / "part.parquet"
    pq.write_table(table, path, row_group_size=1000)
    return path


@pytest.mark.parametrize(
    "columns",
    [
        ["id", "price", "vector"],
        {"stack": Stack(["id", "price"]), "id": "id"},
        {"items": Pad("items", 4)},
        ["word"],
        {"gap": Column("gap", fill="")},
        ["items", "id"],
    ],
    ids=["numbers", "stack", "pad", "words", "nulls", "lists"],
)
def test_the_copy_is_of_as_many_bytes_as_batches_have(path, columns):
    expected = Roof.of(path, columns).output_bytes
    with FastParquetDataset(path, columns=columns, batch_size=ROWS) as dataset:
        (batch,) = dataset
    ragged = sum(field.ragged for field in dataset.schema.values())
    # A share of a Ragged is rounded up in each row; its offsets have one more at the end.
    assert batch.nbytes - 8 * ragged <= expected <= batch.nbytes + ROWS * ragged


def test_what_is_wanted_twice_or_not_at_all_is_not_read_twice(path):
    stacked = Roof.of(path, {"a": Stack(["id", "price"]), "b": "id"})
    assert stacked.leaves == ((0, 1),)


def test_a_roof_over_kept_pages_reads_no_file(path):
    roof = Roof.of(path, ["id", "price"])
    whole = roof.once(2)
    assert (whole.kept_bytes, whole.kept_s) == (0, 0)
    with FastParquetDataset(path, columns=["id", "price"], batch_size=ROWS) as dataset:
        for _ in range(2):
            for _ in dataset:
                pass
        memory = dataset.stats().memory
    kept = roof.once(2, memory.kept_limit)
    assert 0 < kept.kept_bytes <= memory.kept
    assert (kept.pages, kept.read_bytes) == (0, 0)
    assert 0 < kept.kept_s <= kept.pages_s
    assert kept.memcpy_s > 0
    assert roof.measure(2, kept_limit_bytes=memory.kept_limit) > 0


def test_the_roof_of_the_first_rows_copies_only_these(path):
    roof = Roof.of(path, ["id", "price"])
    first = roof.of_first_rows(10)
    assert first.output_bytes == roof.output_bytes // (ROWS // 10)
    assert first.measure(2) > 0
    assert roof.of_first_rows(10 * ROWS).output_bytes == roof.output_bytes
    assert Roof.of(path, ["id"]).measure(1) > 0
