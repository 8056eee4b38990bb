"""Rows that filters leave, which stay in memory from one pass to the next."""

import itertools
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from fastload import (
    IO,
    CorruptFileError,
    FastParquetDataset,
    Pack,
    Pad,
    SourceChangedError,
    Stack,
)
from support.stored_dataset import served

ROWS, GROUP_ROWS = 6000, 500
GROUPS = ROWS // GROUP_ROWS
# Columns whose rows take less memory than their pages; `text` has short codes instead.
KEPT = ["row", "key", "price", "some", "name", "items", "words", "deep"]


def table_of():
    random = np.random.default_rng(0)
    return pa.table(
        {
            "row": np.arange(ROWS),
            "key": random.integers(0, 100, ROWS).astype(np.int16),
            "price": random.random(ROWS),
            "some": pa.array(random.random(ROWS, np.float32), mask=random.random(ROWS) < 0.2),
            "name": pa.array([f"row {k}" * (k % 3) if k % 5 else None for k in range(ROWS)]),
            "items": pa.array(
                [[k, -k] * (k % 3) if k % 11 else None for k in range(ROWS)], pa.list_(pa.int32())
            ),
            "words": [[f"word {k}", "", "of"][: k % 4] for k in range(ROWS)],
            "deep": pa.array(
                [[[k / 2] * (j % 3) for j in range(k % 4)] for k in range(ROWS)],
                pa.list_(pa.list_(pa.float64())),
            ),
            "text": [f"text {k % 7}" for k in range(ROWS)],
        }
    )


def write(path, table, **options):
    pq.write_table(table, path, row_group_size=GROUP_ROWS, data_page_size=512, **options)
    return str(path)


def dataset_of(path, most=5, **options):
    """Return a dataset of the rows with a key below `most`, of 100."""
    options = {"batch_size": 64, "nulls": "mask", "threads": 2, **options}
    if options.get("shuffle"):
        options["shuffle_window"] = 100
    return FastParquetDataset(path, filters=[("key", "<", most)], **options)


def rows_of(batches):
    """Return the rows of the batches in Python's types, nulls as None."""
    rows = [row for batch in batches for row in batch.to_arrow().to_pylist()]
    for row in rows:
        for name in [name for name in row if name.endswith("__valid")]:
            if not row[name]:
                row[name.removesuffix("__valid")] = None
    return rows


def expected(table, rows):
    """Return the same rows of the table, with columns of their validity."""
    for name in table.column_names:
        table = table.append_column(f"{name}__valid", table[name].is_valid())
    return table.take([row["row"] for row in rows]).select(list(rows[0])).to_pylist()


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("most", [1, 5, 50, 99])
def test_later_passes_deliver_the_same_rows(tmp_path, codec, shuffle, most):
    table = table_of()
    path = write(tmp_path / "a.parquet", table, compression=codec)
    kept = table.filter(pa.array(table["key"].to_numpy() < most))
    with dataset_of(path, most, shuffle=shuffle) as dataset:
        for _ in range(4):
            rows = rows_of(dataset)
            assert sorted(row["row"] for row in rows) == kept["row"].to_pylist()
            assert rows == expected(table, rows)
        assert 0 < dataset.stats().memory.kept <= dataset.stats().memory.kept_limit


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_later_passes_read_no_page_of_kept_columns(tmp_path, codec):
    path = write(tmp_path / "a.parquet", table_of(), compression=codec)
    with dataset_of(path, columns=KEPT) as dataset:
        rows_of(dataset)
        stats = dataset.stats()
        read, requests = stats.read.bytes, stats.requests
        for _ in range(2):
            rows_of(dataset)
        stats = dataset.stats()
        assert (stats.read.bytes, stats.requests) == (read, requests)
        assert stats.memory.kept_chunks >= 2 * GROUPS * len(KEPT)


def test_many_rows_with_short_codes_are_not_kept(tmp_path):
    """The pages of codes take less memory than the rows."""
    table = pa.table({"row": np.arange(ROWS), "key": np.arange(ROWS) % 4})
    path = write(tmp_path / "a.parquet", table, compression="none")
    with dataset_of(path, 3, columns=["key"]) as dataset:
        for _ in range(3):
            rows_of(dataset)
        assert dataset.stats().memory.kept_chunks == 0


def test_stacks_and_masks_of_kept_rows(tmp_path):
    table = table_of()
    path = write(tmp_path / "a.parquet", table)
    columns = {
        "row": "row",
        "some": "some",
        "both": Stack(["price", "some"], dtype=torch.float32),
    }
    with dataset_of(path, 20, columns=columns, shuffle=True) as dataset:
        for _ in range(3):
            batches = list(dataset)
            rows = np.concatenate([batch["row"].numpy() for batch in batches])
            both = np.concatenate([batch["both"].numpy() for batch in batches])
            valid = np.concatenate([batch["both__valid"].numpy() for batch in batches])
            some = table["some"].take(rows)
            assert (both[:, 0] == table["price"].to_numpy()[rows].astype(np.float32)).all()
            assert (valid[:, 1] == np.asarray(some.is_valid())).all()
            present = valid[:, 1]
            assert (both[present, 1] == some.drop_null().to_numpy()).all()


def test_ranks_and_resumes_read_kept_rows(tmp_path):
    path = write(tmp_path / "a.parquet", table_of())
    with dataset_of(path, 30, shuffle=True) as dataset:
        epochs = [rows_of(dataset) for _ in range(4)]
        dataset.set_epoch(3)
        state = None
        for batch in itertools.islice(dataset, 5):
            state = dataset.state_dict(after=batch)
        dataset.load_state_dict(state)
        assert rows_of(dataset) == epochs[3][5 * 64 :]
    for epoch in range(3):
        shares = []
        for rank in range(3):
            with dataset_of(path, 30, shuffle=True, rank=rank, world_size=3) as dataset:
                passes = [rows_of(dataset) for _ in range(epoch + 1)]
                shares += passes[epoch]
        assert {row["row"] for row in shares} == {row["row"] for row in epochs[epoch]}


def test_a_part_of_the_rows_is_not_kept(tmp_path):
    path = write(tmp_path / "a.parquet", table_of(), compression="none")
    with dataset_of(path, columns=["price"], limit=5) as dataset:
        for _ in range(3):
            rows_of(dataset)
        assert dataset.stats().memory.kept_chunks == 0


def test_kept_rows_make_room(tmp_path):
    table = table_of()
    path = write(tmp_path / "a.parquet", table, compression="none")
    with dataset_of(path) as dataset:
        rows_of(dataset)
        assert dataset.stats().memory.kept > 0
        dataset._engines.of_process(1).pipeline.limit_kept(0)
        assert dataset.stats().memory.kept == 0
        for _ in range(2):
            rows = rows_of(dataset)
            assert rows == expected(table, rows)
        assert dataset.stats().memory.kept == 0


def test_a_changed_file_is_noticed(tmp_path):
    table = table_of()
    path = write(tmp_path / "a.parquet", table)
    with dataset_of(path, columns=KEPT) as dataset:
        for _ in range(2):
            rows_of(dataset)
        changed = os.stat(path).st_mtime_ns + 10**9
        write(path, table)
        os.utime(path, ns=(changed, changed))
        with pytest.raises(SourceChangedError):
            rows_of(dataset)


def assert_same_error_in_each_pass(path, columns):
    errors = set()
    with dataset_of(path, columns=columns) as dataset:
        for _ in range(3):
            with pytest.raises(CorruptFileError) as raised:
                list(dataset)
            errors.add(str(raised.value))
    assert len(errors) == 1


@pytest.mark.parametrize("column", ["price", "some", "name", "items", "deep"])
def test_a_damaged_page_gives_the_same_error_in_each_pass(tmp_path, column):
    path = write(tmp_path / "a.parquet", table_of(), use_dictionary=False)
    chunk = pq.ParquetFile(path).metadata.row_group(GROUPS // 2).column(KEPT.index(column))
    with open(path, "r+b") as file:
        file.seek(chunk.data_page_offset)
        file.write(b"\xff" * 16)
    assert_same_error_in_each_pass(path, KEPT)


def test_a_store_is_asked_once(tmp_path):
    table = table_of()
    path = write(tmp_path / "a.parquet", table, write_page_index=True)
    with (
        served([Path(path)]) as server,
        dataset_of(
            "gs://bucket/train/a.parquet",
            columns=KEPT,
            shuffle=True,
            storage_options=server.options,
            io=IO(transport="fsspec"),
        ) as dataset,
    ):
        rows_of(dataset)
        asked = len(server.requests)
        for _ in range(2):
            rows = rows_of(dataset)
            assert rows == expected(table, rows)
        assert len(server.requests) == asked


def test_lists_that_are_padded(tmp_path):
    table = table_of()
    path = write(tmp_path / "a.parquet", table)
    columns = {"row": "row", "items": Pad("items", length=3, value=-1), "deep": "deep"}
    for shuffle in (False, True):
        with dataset_of(path, 20, columns=columns, shuffle=shuffle) as dataset:
            for _ in range(3):
                batches = list(dataset)
                rows = np.concatenate([batch["row"].numpy() for batch in batches])
                padded = np.concatenate([batch["items"].numpy() for batch in batches])
                for got, of_row in zip(padded, table["items"].take(rows).to_pylist(), strict=True):
                    want = (of_row or [])[:3]
                    assert got.tolist() == want + [-1] * (3 - len(want))
            assert dataset.stats().memory.kept_chunks > 0


@pytest.mark.parametrize("fit", ["best", "split"])
def test_documents_that_are_packed(tmp_path, fit):
    random = np.random.default_rng(1)
    table = pa.table(
        {
            "key": random.integers(0, 100, ROWS),
            "ids": [random.integers(0, 9999, k % 23).astype(np.int32) for k in range(ROWS)],
        }
    )
    path = write(tmp_path / "a.parquet", table)
    options = {"pack": Pack("ids", 64, fit=fit), "batch_size": 4, "nulls": "raise"}
    with dataset_of(path, 10, shuffle=True, **options) as dataset:
        for epoch in range(4):
            with dataset_of(path, 10, shuffle=True, **options) as fresh:
                fresh.set_epoch(epoch)
                for got, want in zip(dataset, fresh, strict=True):
                    assert got.keys() == want.keys()
                    for name, value in want.items():
                        assert torch.equal(got[name], value)
        assert dataset.stats().memory.kept_chunks > 0


def test_a_code_beyond_its_dictionary_is_an_error_in_each_pass(tmp_path):
    """Rows of lists that are damaged are not kept."""
    lists = [[(40 * k + j) % 10_000 for j in range(40)] for k in range(ROWS)]
    key = np.where(np.arange(ROWS) % GROUP_ROWS < GROUP_ROWS // 2, 99, 0)
    table = pa.table({"key": key, "ids": pa.array(lists, pa.list_(pa.int64()))})
    path = str(tmp_path / "a.parquet")  # of one data page a chunk
    pq.write_table(table, path, row_group_size=GROUP_ROWS, compression="none")
    chunk = pq.ParquetFile(path).metadata.row_group(GROUPS // 2).column(1)
    with open(path, "r+b") as file:
        file.seek(chunk.dictionary_page_offset + chunk.total_compressed_size - 12)
        file.write(b"\xff" * 12)  # codes; the dictionary has fewer entries
    assert_same_error_in_each_pass(path, ["ids"])
