"""Decompressed pages that stay in memory from one pass to the next."""

import itertools
import os
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from torch.utils.data import DataLoader

from fastload import IO, FastParquetDataset, Pad, Ragged, SourceChangedError
from support.damage import damage, write_groups
from support.stored_dataset import served

ROWS, GROUP_ROWS, GROUPS, COLUMNS = 3000, 300, 10, 6
CODECS = ["snappy", "zstd", "gzip", "lz4", "brotli"]


def table_of(rows=ROWS):
    random = np.random.default_rng(0)
    lengths = random.integers(0, 4, rows)
    return pa.table(
        {
            "row": np.arange(rows),
            "code": random.integers(0, 40, rows).astype(np.int32),
            "plain": random.random(rows),
            "text": pa.array([f"text {k}" for k in random.integers(0, 50, rows)]),
            "items": pa.array([list(range(n)) for n in lengths], pa.list_(pa.int64())),
            "some": pa.array(random.integers(0, 9, rows), mask=random.random(rows) < 0.2),
        }
    )


def write(path, table, **options):
    """Write row groups of several pages, in dictionary, plain and delta encodings."""
    options = {"compression": "zstd", "row_group_size": GROUP_ROWS, **options}
    pq.write_table(
        table,
        path,
        data_page_size=512,
        write_batch_size=50,
        use_dictionary=["code", "text"],
        column_encoding={"row": "DELTA_BINARY_PACKED"},
        **options,
    )
    return str(path)


def dataset_of(path, **options):
    options = {"batch_size": 64, "nulls": "zero", "shuffle_window": 900, **options}
    if not options.get("shuffle"):
        del options["shuffle_window"]
    return FastParquetDataset(path, **{"threads": 2, **options})


def limit(dataset, kept_bytes):
    """Lower the memory of kept pages."""
    dataset._engines.of_process(1).pipeline.limit_kept(kept_bytes)


def rows_of(batches):
    """Return the rows of the batches in Python's types."""
    return [row for batch in batches for row in batch.to_arrow().to_pylist()]


def expected(table, rows):
    zeros = [value or 0 for value in table["some"].to_pylist()]
    table = table.set_column(table.column_names.index("some"), "some", pa.array(zeros))
    return table.take([row["row"] for row in rows]).to_pylist()


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", CODECS)
def test_later_passes_read_nothing_and_deliver_the_same(tmp_path, codec, version, shuffle):
    table = table_of()
    path = write(tmp_path / "a.parquet", table, compression=codec, data_page_version=version)
    with dataset_of(path, shuffle=shuffle) as dataset:
        for epoch in range(3):
            rows = rows_of(dataset)
            assert sorted(row["row"] for row in rows) == list(range(ROWS))
            assert rows == expected(table, rows)
            stats = dataset.stats()
            if epoch == 0:
                requests, read = stats.requests, stats.read.bytes
        assert 0 < stats.memory.kept <= stats.memory.kept_limit
        assert stats.memory.kept_chunks >= 2 * GROUPS * COLUMNS
        assert (stats.requests, stats.read.bytes) == (requests, read)


@pytest.mark.parametrize("codec", ["snappy", "zstd"])
def test_pages_that_the_first_batch_has_read_are_kept_as_well(tmp_path, codec):
    # The first window takes a part of the only page of each column.
    path = tmp_path / "a.parquet"
    pq.write_table(table_of(), path, compression=codec)
    with dataset_of(str(path)) as dataset:
        first, later = rows_of(dataset), rows_of(dataset)
        assert first == later == expected(table_of(), first)
        assert dataset.stats().memory.kept_chunks >= COLUMNS
    # A pass that ends in the first window keeps nothing, and the next pass does.
    with dataset_of(str(path)) as dataset:
        next(iter(dataset))
        assert rows_of(dataset) == rows_of(dataset) == first
        assert dataset.stats().memory.kept_chunks >= COLUMNS


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_limit_keeps_only_a_part(tmp_path, shuffle):
    table = table_of(20 * ROWS)
    path = write(tmp_path / "a.parquet", table)
    # A slab of kept memory has an eighth of the limit, and at least 64 KiB.
    most = 1 << 20
    with dataset_of(path, shuffle=shuffle) as dataset:
        limit(dataset, most)
        for _ in range(3):
            rows, held = [], []
            for batch in dataset:
                rows += rows_of([batch])
                held.append(dataset.stats().memory.kept)
            assert rows == expected(table, rows)
            assert max(held) <= most
        memory = dataset.stats().memory
        assert memory.kept_limit == most
        assert 0 < memory.kept_chunks < 20 * GROUPS * COLUMNS


def test_kept_pages_make_room(tmp_path):
    table = table_of()
    path = write(tmp_path / "a.parquet", table)
    with dataset_of(path) as dataset:
        rows_of(dataset)
        before = dataset.stats().memory
        assert before.kept > 0
        limit(dataset, 0)
        after = dataset.stats().memory
        assert (after.kept, after.kept_limit) == (0, 0)
        limit(dataset, before.kept_limit)
        assert rows_of(dataset) == expected(table, rows_of(dataset))
        assert dataset.stats().memory.kept == before.kept


def test_batches_that_the_consumer_holds_take_the_room_of_kept_pages(tmp_path):
    path = write(tmp_path / "a.parquet", table_of())
    with dataset_of(path, columns=["row", "plain"], memory_budget="1GB") as dataset:
        budget = dataset._engines.budget(1)
        for batch in dataset:
            assert batch.rows
        assert dataset.stats().memory.kept_limit == budget.kept_bytes
        held = list(dataset)
        lent = dataset._engine.pipeline.lent_bytes
        assert lent >= sum(batch.nbytes for batch in held) > budget.least_lent_bytes
        limit = budget.kept_bytes - (lent - budget.least_lent_bytes)
        assert dataset.stats().memory.kept_limit == limit
        # Another pass may hold as many, until one has held fewer.
        del held, batch
        assert len(rows_of(dataset)) == ROWS
        assert dataset.stats().memory.kept_limit == limit
        assert len(rows_of(dataset)) == ROWS
        assert dataset.stats().memory.kept_limit == budget.kept_bytes


def test_chunks_that_had_no_room_are_kept_once_the_limit_has_risen(tmp_path):
    path = write(tmp_path / "a.parquet", table_of(20 * ROWS), row_group_size=20 * ROWS)
    with dataset_of(path, memory_budget="1GB") as dataset:
        most = dataset._engines.budget(1).kept_bytes
        for number, batch in enumerate(dataset):
            assert batch.rows
            if number == 5:
                assert dataset.stats().memory.kept > 0
                limit(dataset, 0)
        assert dataset.stats().memory.kept == 0
        limit(dataset, most)
        for _ in range(2):
            assert sum(batch.rows for batch in dataset) == 20 * ROWS
        assert dataset.stats().memory.kept_chunks >= COLUMNS


def test_a_filter_reads_kept_pages(tmp_path):
    table = table_of()
    path = write(tmp_path / "a.parquet", table)
    with dataset_of(path, filters=("code", "<", 30)) as dataset:
        first = rows_of(dataset)
        requests = dataset.stats().requests
        assert first == expected(table, first)
        assert {row["code"] for row in first} == set(range(30))
        assert rows_of(dataset) == rows_of(dataset) == first
        assert dataset.stats().requests == requests
        assert dataset.stats().memory.kept_chunks >= 2 * GROUPS * COLUMNS


def test_a_chunk_that_is_read_in_part_is_not_kept(tmp_path):
    path = write(tmp_path / "a.parquet", table_of())
    with dataset_of(path, columns=["plain"], limit=GROUP_ROWS // 2) as dataset:
        for _ in range(3):
            rows_of(dataset)
        assert dataset.stats().memory.kept_chunks == 0
        assert dataset.stats().memory.kept == 0


def test_what_is_not_compressed_stays_in_the_page_cache(tmp_path):
    path = write(tmp_path / "a.parquet", table_of(), compression="none")
    with dataset_of(path) as dataset:
        for _ in range(2):
            rows_of(dataset)
        assert dataset.stats().memory.kept == 0


@pytest.mark.parametrize("column", ["id", "text", "items"])
def test_a_damaged_page_gives_the_same_error_in_each_pass(tmp_path, column):
    path = write_groups(tmp_path / "a.parquet", [100, 100, 100], compression="zstd")
    damage(path, 1, column)
    with dataset_of(path, shuffle=False, batch_size=50) as dataset:
        errors = []
        for _ in range(3):
            dataset.set_epoch(0)
            batches = iter(dataset)
            assert [next(batches)["id"][0].item() for _ in range(2)] == [0, 50]
            with pytest.raises(Exception, match="row group 1") as raised:
                list(batches)
            errors.append((type(raised.value), str(raised.value)))
        assert len(set(errors)) == 1
        assert dataset.stats().memory.kept_chunks > 0


def lists_of(rows, entries):
    """Return lists of codes: plain ones, with nulls, in lists, of a few numbers."""
    random = np.random.default_rng(2)
    lengths = random.integers(0, 200, rows)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    tokens = random.integers(0, entries, offsets[-1])
    tokens[:entries] = random.permutation(entries)
    few = np.repeat(random.integers(0, 3, offsets[-1] // 50 + 1), 50)[: offsets[-1]]
    items = pa.ListArray.from_arrays
    outer = np.unique(np.concatenate([[0, rows], random.integers(0, rows, rows - 1)]))
    outer = np.concatenate([outer, np.full(rows + 1 - len(outer), rows)]).astype(np.int32)
    return pa.table(
        {
            "row": np.arange(rows),
            "tokens": items(offsets, pa.array(tokens.astype(np.int32))),
            "large": items(offsets, pa.array(tokens + 2**40)),
            "some": items(offsets, pa.array(tokens, mask=random.random(len(tokens)) < 1e-4)),
            "few": items(offsets, pa.array(few)),
            "lists": items(outer, items(offsets, pa.array(tokens.astype(np.int32)))),
        }
    )


def padded(lists, length):
    """Return each list with so many numbers, zeros after its end."""
    padded = np.zeros((len(lists), length), lists.type.value_type.to_pandas_dtype())
    for row, numbers in zip(padded, lists.to_numpy(zero_copy_only=False), strict=True):
        row[: len(numbers)] = numbers[:length]
    return padded


def stored_parts(array):
    """Return the lengths of lists at each depth, then the numbers."""
    if pa.types.is_list(array.type):
        return [array.value_lengths().to_numpy(), *stored_parts(array.flatten())]
    return [array.to_numpy(zero_copy_only=False)]


def parts(values):
    """Return the same of an output, copied: `to_arrow()` of each batch would take far longer."""
    if isinstance(values, Ragged):
        offsets = values.offsets
        inner = values.values[int(offsets[0]) : int(offsets[-1])]
        return [offsets.diff().numpy(), *parts(inner)]
    return [values.numpy().copy()]


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("batch_size", [1, 37, 1000])
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_lists_are_decoded_from_kept_pages(tmp_path, version, batch_size, on_error):
    # With "skip", windows have 16 MiB, so that the row group continues over windows.
    rows = 4000 if on_error == "skip" else 1500
    table = lists_of(rows, 40_000)
    path = tmp_path / "a.parquet"
    pq.write_table(
        table,
        path,
        row_group_size=rows if on_error == "skip" else 1000,
        compression="snappy",
        data_page_version=version,
        dictionary_pagesize_limit=1 << 20,
    )
    columns = {name: name for name in table.column_names if batch_size > 1 or name != "lists"}
    columns |= {"padded": Pad("tokens", 7), "cut": Pad("large", 300)}
    stored = {name: table[name].combine_chunks() for name in table.column_names}
    expected = {name: stored_parts(stored[name]) for name in columns if name in stored}
    expected["some"][-1] = stored["some"].flatten().fill_null(0).to_numpy()
    expected["padded"], expected["cut"] = (
        [padded(stored["tokens"], 7)],
        [padded(stored["large"], 300)],
    )
    with FastParquetDataset(
        path,
        columns=columns,
        batch_size=batch_size,
        nulls="zero",
        on_error=on_error,
        memory_budget="2GB",
    ) as dataset:
        for _ in range(2):
            sizes, got = [], {name: [] for name in columns}
            for batch in dataset:
                sizes.append(batch.rows)
                for name, found in got.items():
                    found.append(parts(batch[name]))
            assert {*sizes[:-1]} <= {batch_size}
            for name, found in got.items():
                for one, other in zip(expected[name], zip(*found, strict=True), strict=True):
                    assert np.array_equal(one, np.concatenate(other)), name
        assert dataset.stats().memory.kept_chunks > 0


@pytest.mark.parametrize("batch_size", [37, 1000])
def test_selected_lists_are_decoded_from_kept_pages(tmp_path, batch_size):
    table = lists_of(3000, 40_000)
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, compression="snappy", dictionary_pagesize_limit=1 << 20)
    # Gaps and runs of rows of many lengths.
    wanted = [row for row in range(3000) if row % 11 in (0, 3, 4) or row % 700 > 500]
    columns = ["row", "tokens", "large", "few", "lists"]
    with FastParquetDataset(
        path, columns=columns, filters=[("row", "in", wanted)], batch_size=batch_size
    ) as dataset:
        for _ in range(2):
            assert rows_of(dataset) == table.select(columns).take(wanted).to_pylist()
        assert dataset.stats().memory.kept_chunks > 0


def write_with_a_bad_code(path):
    """Write three row groups of lists; the last code of the second is beyond its dictionary."""
    table = lists_of(3000, 40_000).select(["row", "tokens"])
    options = {"compression": "snappy", "dictionary_pagesize_limit": 1 << 20}
    pq.write_table(
        table, path, row_group_size=1000, use_dictionary=["tokens.list.element"], **options
    )
    chunk = pq.read_metadata(path).row_group(1).column(1)
    data = bytearray(path.read_bytes())
    # Random codes do not compress, so the chunk ends with the last code.
    end = chunk.dictionary_page_offset + chunk.total_compressed_size
    data[end - 2 : end] = b"\xff\xff"
    path.write_bytes(data)
    return table


def test_a_bad_code_gives_the_same_error_from_kept_pages(tmp_path):
    write_with_a_bad_code(tmp_path / "a.parquet")
    with FastParquetDataset(tmp_path / "a.parquet", batch_size=100, threads=2) as dataset:
        errors = []
        for _ in range(3):
            dataset.set_epoch(0)
            with pytest.raises(Exception, match="dictionary index below") as raised:
                list(dataset)
            errors.append((type(raised.value), str(raised.value)))
        assert dataset.stats().memory.kept_chunks > 0
    assert "row group 1, column `tokens`" in errors[0][1]
    assert len(set(errors)) == 1


def test_a_bad_code_in_kept_pages_is_skipped(tmp_path):
    table = write_with_a_bad_code(tmp_path / "a.parquet")
    good = [*range(1000), *range(2000, 3000)]
    with FastParquetDataset(
        tmp_path / "a.parquet", batch_size=100, threads=2, on_error="skip"
    ) as dataset:
        for epoch in range(2):
            with nullcontext() if epoch else pytest.warns(UserWarning, match="left out"):
                rows = rows_of(dataset)
            assert {row["row"] for row in rows} == set(good)
            assert rows == table.take([row["row"] for row in rows]).to_pylist()
        assert dataset.stats().memory.kept_chunks > 0


def test_a_null_gives_the_same_error_from_kept_pages(tmp_path):
    table = table_of()
    first, rest = table.slice(0, 1000), table.slice(1000)
    some = first.column_names.index("some")
    first = first.set_column(some, "some", first["some"].fill_null(0))
    # Without statistics, the footer does not tell that there are nulls.
    path = write(tmp_path / "a.parquet", pa.concat_tables([first, rest]), write_statistics=False)
    errors = []
    with FastParquetDataset(path, batch_size=64, threads=2) as dataset:
        for _ in range(3):
            dataset.set_epoch(0)
            with pytest.raises(ValueError, match="Expected no null") as raised:
                list(dataset)
            errors.append(str(raised.value))
        assert dataset.stats().memory.kept_chunks > 0
    assert len(set(errors)) == 1


def test_a_changed_file_is_noticed(tmp_path):
    table = table_of()
    path = write(tmp_path / "a.parquet", table)
    with dataset_of(path) as dataset:
        for _ in range(2):
            rows_of(dataset)
        changed = os.stat(path).st_mtime_ns + 10**9
        write(path, table)
        os.utime(path, ns=(changed, changed))
        with pytest.raises(SourceChangedError):
            rows_of(dataset)


@pytest.mark.parametrize("shuffle", [False, True])
def test_resume_in_a_kept_pass(tmp_path, shuffle):
    path = write(tmp_path / "a.parquet", table_of())
    with dataset_of(path, shuffle=shuffle) as dataset:
        epochs = [rows_of(dataset) for _ in range(3)]
        dataset.set_epoch(1)
        state = None
        for batch in itertools.islice(dataset, 7):
            state = dataset.state_dict(after=batch)
        dataset.load_state_dict(state)
        assert rows_of(dataset) == epochs[1][7 * 64 :]
        assert rows_of(dataset) == epochs[2]
        assert dataset.stats().memory.kept_chunks >= 2 * GROUPS * COLUMNS


def test_each_worker_keeps_its_rows(tmp_path):
    table = table_of()
    path = write(tmp_path / "a.parquet", table)
    with dataset_of(path, shuffle=True) as dataset:
        loader = DataLoader(dataset, batch_size=None, num_workers=2, persistent_workers=True)
        for _ in range(3):
            rows = rows_of(loader)
            assert rows == expected(table, rows)
        memory = dataset.stats().memory
        assert memory.kept_chunks > 0
        assert 0 < memory.kept <= memory.kept_limit <= 4_000_000_000


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_store_is_asked_once(tmp_path, codec):
    table = table_of()
    path = write(tmp_path / "a.parquet", table, compression=codec)
    with (
        served([Path(path)]) as server,
        dataset_of(
            "gs://bucket/train/a.parquet",
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
        assert dataset.stats().memory.kept_chunks >= 2 * GROUPS * COLUMNS


@pytest.fixture
def slices(tmp_path):
    """Write two row groups; return a function that makes a dataset of eight slices of them."""
    path = write(tmp_path / "a.parquet", table_of(), row_group_size=ROWS // 2)

    def make(shuffle, threads):
        return FastParquetDataset(
            path,
            nulls="zero",
            canonical_ranks=8,
            global_batch_size=64,
            rank=0,
            world_size=1,
            shuffle=shuffle,
            shuffle_window=900 if shuffle else None,
            threads=threads,
        )

    make.file_bytes = os.path.getsize(path)
    return make


@pytest.mark.parametrize("shuffle", [False, True])
def test_slices_keep_the_row_groups_that_they_share(slices, shuffle):
    """Each slice reads a part of one of the row groups; later epochs read nothing."""
    table = table_of()
    with slices(shuffle, threads=2) as dataset:
        reads = []
        for _ in range(4):
            rows = rows_of(dataset)
            assert rows == expected(table, rows)
            assert sorted(row["row"] for row in rows) == list(range(ROWS))
            reads.append(dataset.stats().read.bytes)
        assert reads[0] == reads[3]


@pytest.mark.parametrize("shuffle", [False, True])
def test_slices_read_a_row_group_once(slices, shuffle):
    """The slice that comes first keeps the pages; the other slices find them in the same epoch."""
    with slices(shuffle, threads=1) as dataset:
        rows_of(dataset)
        assert dataset.stats().read.bytes <= slices.file_bytes


def test_a_closed_dataset_keeps_no_pages(tmp_path):
    """Closing gives back the kept pages and rows, although the dataset and a batch live."""
    table = table_of()
    path = write(tmp_path / "a.parquet", table)
    for options in ({}, {"filters": [("row", ">", 100)]}):
        dataset = dataset_of(path, columns=["row", "code", "text", "items"], **options)
        for batch in dataset:
            row = int(batch["row"][0])
        assert dataset.stats().memory.kept > 0
        running = iter(dataset)
        next(running)
        dataset.close()
        assert dataset.stats().memory.kept == 0
        assert int(batch["row"][0]) == row
        dataset.close()
