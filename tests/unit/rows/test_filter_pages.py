"""filters=: pages without a row that stays are neither read nor decoded."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from fastload import IO, FastParquetDataset, NullValueError
from fastload.errors import CorruptFileError


def test_pages_without_a_row_that_stays_are_not_decoded(tmp_path):
    rows = 40_000
    table = pa.table({"key": np.arange(rows), "value": np.arange(rows) * 3})
    path = tmp_path / "a.parquet"
    pq.write_table(
        table,
        path,
        use_dictionary=False,
        compression="none",
        data_page_size=4000,
        write_page_checksum=True,
        write_statistics=["key"],
    )
    filters = (pc.field("key") >= 20_000) & (pc.field("key") < 20_100)
    dataset = FastParquetDataset(path, columns=["value"], filters=filters)
    # Bytes of pages that hold none of those rows.
    chunk = pq.read_metadata(path).row_group(0).column(1)
    data = bytearray(path.read_bytes())
    for share in (0.25, 0.75):
        at = chunk.data_page_offset + int(chunk.total_compressed_size * share)
        data[at : at + 8] = b"\xff" * 8
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(data)
    dataset = FastParquetDataset(
        damaged, columns=["value"], filters=filters, io=IO(verify_crc=True)
    )
    assert [v for b in dataset for v in b["value"].tolist()] == [
        3 * k for k in range(20_000, 20_100)
    ]
    with pytest.raises(CorruptFileError):
        list(FastParquetDataset(damaged, columns=["value"], io=IO(verify_crc=True)))


def indexed_file(path, rows=400_000, **options):
    number = np.arange(rows)
    offsets = np.concatenate([[0], np.cumsum(number % 7)])
    lists = pa.ListArray.from_arrays(offsets, np.arange(offsets[-1]))
    table = pa.table(
        {
            "number": number,
            "category": number % 1000 * 10**9,
            "text": pa.array([f"text {n % 5000}" for n in number]),
            "nullable": pa.array(number, mask=(number % 1000 == 123) & (number > 300_000)),
            "lists": lists,
            "deep": pa.ListArray.from_arrays(np.arange(rows + 1), lists),
        }
    )
    pq.write_table(
        table,
        path,
        use_dictionary=["category"],
        compression="none",
        data_page_size=20_000,
        write_page_index=True,
        **options,
    )
    return path


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("column", ["number", "category", "text", "lists", "deep"])
def test_bytes_of_pages_without_a_row_that_stays_are_not_read(tmp_path, column, version, shuffle):
    path = indexed_file(tmp_path / "a.parquet", data_page_version=version)
    number = pc.field("number")
    filters = (
        ((number >= 100_000) & (number < 102_000))
        | ((number >= 301_500) & (number < 302_000))
        | (number == 399_999)
    )
    columns = ["number", column] if column != "number" else ["number"]
    dataset = FastParquetDataset(
        path, columns=columns, filters=filters, batch_size=500, shuffle=shuffle
    )
    kept = [*range(100_000, 102_000), *range(301_500, 302_000), 399_999]
    rows = [
        row
        for batch in dataset
        for row in zip(batch["number"].tolist(), batch[column].tolist(), strict=True)
    ]
    values = pq.read_table(path, columns=[column])[column].take(kept).to_pylist()
    assert sorted(rows) == list(zip(kept, values, strict=True))
    group = pq.read_metadata(path).row_group(0)
    names = pq.read_schema(path).names
    whole = sum(group.column(names.index(name)).total_compressed_size for name in columns)
    assert dataset.stats().read.bytes < 0.3 * whole


def test_a_null_behind_pages_that_are_not_read_is_named(tmp_path):
    path = indexed_file(tmp_path / "a.parquet")
    number = pc.field("number")
    filters = (number < 10) | ((number > 350_000) & (number < 350_124) & (number != 350_050))
    dataset = FastParquetDataset(path, columns=["nullable"], filters=filters)
    with pytest.raises(NullValueError, match="row 350123"):
        list(dataset)
    filters &= number != 350_123
    dataset = FastParquetDataset(path, columns=["nullable"], filters=filters, batch_size=500)
    assert [v for b in dataset for v in b["nullable"].tolist()] == [
        *range(10),
        *range(350_001, 350_050),
        *range(350_051, 350_123),
    ]
