"""IO(verify_crc=True): pages are compared with the checksums that their writers stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastload import IO, CorruptFileError, FastParquetDataset

CHECKED = IO(verify_crc=True)


def read(path: Path, io: IO | None, **options: Any) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {}
    with FastParquetDataset(str(path), io=io, **options) as dataset:
        for batch in dataset:
            for name, values in batch.items():
                columns.setdefault(name, []).extend(values.tolist())
    return columns


@pytest.mark.parametrize(
    "name",
    [
        "datapage_v1-uncompressed-checksum.parquet",
        "datapage_v1-snappy-compressed-checksum.parquet",
        "plain-dict-uncompressed-checksum.parquet",
        "rle-dict-snappy-checksum.parquet",
    ],
)
def test_files_with_right_checksums(data_dir: Path, name: str) -> None:
    path = data_dir / "parquet-testing" / "data" / name
    table = pq.read_table(path)
    columns = read(path, CHECKED)
    for field in table.schema:
        values = table[field.name].to_pylist()
        assert columns[field.name] == values


@pytest.mark.parametrize(
    ("name", "column", "page"),
    [
        ("datapage_v1-corrupt-checksum.parquet", "a", ", page 0"),
        ("rle-dict-uncompressed-corrupt-checksum.parquet", "long_field", ""),  # its dictionary
    ],
)
def test_files_with_wrong_checksums(data_dir: Path, name: str, column: str, page: str) -> None:
    path = data_dir / "parquet-testing" / "data" / name
    columns = [column]
    assert len(read(path, None, columns=columns)[column]) == pq.ParquetFile(path).metadata.num_rows
    place = f" - at {path}, row group 0, column `{column}`{page}"
    with pytest.raises(CorruptFileError, match="checksum") as caught:
        read(path, CHECKED, columns=columns)
    assert str(caught.value).endswith(place)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_flipped_bit_is_found(tmp_path: Path, version: Any, shuffle: bool) -> None:
    path = tmp_path / "a.parquet"
    values = np.random.default_rng(1).integers(0, 2**63, 5000)
    pq.write_table(
        pa.table({"a": values, "b": values}),
        path,
        use_dictionary=False,
        compression="NONE",
        data_page_version=version,
        write_page_checksum=True,
        column_encoding="PLAIN",
    )
    options: dict[str, Any] = {"shuffle": shuffle, "batch_size": 100}
    cached = {"cache": tmp_path / "cache", **options}
    assert sorted(read(path, CHECKED, **options)["a"]) == sorted(values.tolist())

    damaged = bytearray(path.read_bytes())
    place = damaged.index(values[2500].tobytes())
    damaged[place] ^= 1
    path.write_bytes(damaged)
    assert sorted(read(path, IO(), **options)["a"]) != sorted(values.tolist())
    with pytest.raises(CorruptFileError, match=r"row group 0, column `a`, page 0$"):
        read(path, CHECKED, **options)
    assert len(read(path, CHECKED, columns=["b"], **options)["b"]) == 5000
    # Rows that were kept without a comparison don't pass for rows that were compared.
    assert read(path, IO(), **cached) == read(path, IO(), **options)
    with pytest.raises(CorruptFileError, match=r"row group 0, column `a`, page 0$"):
        read(path, CHECKED, **cached)


def test_pages_without_checksums_are_read(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2, 3]}), tmp_path / "a.parquet", write_page_checksum=False)
    assert read(tmp_path / "a.parquet", CHECKED) == {"a": [1, 2, 3]}
