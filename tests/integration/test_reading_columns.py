"""What `columns` asks for, and that nothing else is read."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from fastload import (
    Codes,
    Column,
    ColumnNotFoundError,
    FastParquetDataset,
    NullValueError,
    Stack,
)

ROWS = 3000
WIDE = 40
NUMBERS = {f"n{k:02}": np.int64 if k % 3 else np.int16 for k in range(WIDE)}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(1)
    columns = {n: rng.integers(-999, 999, ROWS).astype(kind) for n, kind in NUMBERS.items()}
    columns["x32"] = rng.random(ROWS, np.float32)
    columns["x64"] = pa.array(rng.random(ROWS), mask=rng.random(ROWS) < 0.3)
    columns["nullable"] = pa.array(rng.integers(0, 99, ROWS), mask=rng.random(ROWS) < 0.3)
    columns["text"] = pa.array([f"{k:x}" * 5 for k in range(ROWS)], mask=np.arange(ROWS) % 7 == 0)
    fields = {"b": rng.integers(0, 9, ROWS), "c": pa.array([f"c{k}" for k in range(ROWS)])}
    columns["a"] = pa.StructArray.from_arrays([pa.array(v) for v in fields.values()], list(fields))
    columns["with/slash and.dot"] = np.arange(ROWS)
    return pa.table(columns)


@pytest.fixture(scope="module")
def path(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("columns") / "t.parquet"
    pq.write_table(table, path, row_group_size=700, use_dictionary=["n00", "text"])
    return str(path)


def whole(path, columns, **options):
    """One batch of all rows."""
    with FastParquetDataset(path, columns=columns, batch_size=ROWS, threads=1, **options) as ds:
        (batch,) = ds
        assert {n: value.dtype for n, value in batch.items()} == {
            n: field.dtype for n, field in ds.schema.items()
        }
        assert list(batch) == list(ds.schema)
        return batch


def chunk_bytes(path, names):
    metadata = pq.ParquetFile(path).metadata
    groups = [metadata.row_group(g) for g in range(metadata.num_row_groups)]
    chunks = [group.column(c) for group in groups for c in range(group.num_columns)]
    return sum(chunk.total_compressed_size for chunk in chunks if chunk.path_in_schema in names)


def bytes_read_by_this_process():
    """As the operating system counts them, over all threads."""
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counts["rchar"])


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("names", [["n00"], ["n39", "text"], ["x64", "a.b", "n07"], list(NUMBERS)])
def test_only_the_columns_asked_for_are_read(path, names, shuffle):
    wanted = chunk_bytes(path, names)
    columns = {n: Column(n, fill="" if n == "text" else None) for n in names}
    options = {"nulls": "nan", "threads": 2, "shuffle": shuffle}
    with FastParquetDataset(path, columns=columns, **options) as dataset:
        assert dataset.epoch_bytes == wanted
        before = bytes_read_by_this_process()
        assert sum(batch.rows for batch in dataset) == ROWS
        after = bytes_read_by_this_process()
        counts = dataset._engine.pipeline.counts()
        read = dataset.stats().read.bytes
        assert counts["read_bytes"] == read
        # In order, pages of the first batch are read once more, to be kept in memory.
        assert wanted <= read <= (wanted if shuffle else 3 * wanted)
    # /proc/self/io counts its own text, and a few single bytes of each column chunk, by which it
    # is seen that they are in the page cache.
    assert read <= after - before <= read + 2000


def test_second_epoch_reads_again_what_is_not_kept(table, tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(table, path, row_group_size=700, compression="none")
    with FastParquetDataset(path, columns=["n00"], threads=1) as dataset:
        for passes in (1, 2, 3):
            list(dataset)
            stats = dataset.stats()
            read = stats.read.bytes + stats.read_ahead.bytes
            # What the next pass begins with may have been read by now.
            assert passes <= read / chunk_bytes(path, ["n00"]) <= passes + 1


def test_limit_reads_no_later_row_group(path):
    with FastParquetDataset(path, columns=["n00"], limit=700, threads=1) as dataset:
        list(dataset)
        assert dataset.stats().read.bytes < chunk_bytes(path, ["n00"]) / 4


def test_names_in_the_order_asked_for(path, table):
    names = ["x32", "n00", "with/slash and.dot", "n01"]
    batch = whole(path, names)
    assert list(batch) == names
    for name in names:
        assert (batch[name].numpy() == table[name].to_numpy()).all()


def test_renames_and_the_same_column_twice(path, table):
    batch = whole(path, {"one": "n01", "two": "n01", "as float": Column("n01", torch.float32)})
    assert (batch["one"].numpy() == table["n01"].to_numpy()).all()
    assert torch.equal(batch["one"], batch["two"])
    assert torch.equal(batch["as float"], batch["one"].float())


def test_the_same_column_is_read_once(path):
    columns = {f"o{k}": Column("n01", dtype) for k, dtype in enumerate([None, torch.float64])}
    with FastParquetDataset(path, columns={**columns, "again": "n01"}, threads=1) as dataset:
        list(dataset)
        # Twice for the two types, and pages of the first batch once more, to be kept.
        assert dataset.stats().read.bytes <= 3 * chunk_bytes(path, ["n01"])
        assert dataset.epoch_bytes == chunk_bytes(path, ["n01"])


def test_the_bytes_of_an_epoch_are_those_of_row_groups_with_rows(tmp_path):
    for name, rows in (("a=1", 1000), ("a=2", 0), ("a=3", 500)):
        (tmp_path / name).mkdir()
        columns = {"id": np.arange(rows), "x": np.arange(rows) / 7}
        if name == "a=3":
            del columns["x"]
        pq.write_table(pa.table(columns), tmp_path / name / "0.parquet", row_group_size=300)

    def sizes(number, column):
        metadata = pq.read_metadata(tmp_path / f"a={number}" / "0.parquet")
        groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
        return [group.column(column).total_compressed_size for group in groups]

    ids, xs, last = sizes(1, 0), sizes(1, 1), sizes(3, 0)
    source = str(tmp_path)

    def epoch_bytes(**options):
        with FastParquetDataset(source, nulls="nan", **options) as dataset:
            return dataset.epoch_bytes

    # A row group without rows is no part of an epoch, and keys of folders lie in no file.
    assert epoch_bytes() == sum(ids + xs + last)
    assert epoch_bytes(columns=["x", "a"]) == sum(xs)
    assert epoch_bytes(columns=["a"]) == 0
    assert epoch_bytes(columns=["x"], filters=[("id", "<", 300), ("a", "==", 1)]) == xs[0]
    assert epoch_bytes(columns=["id"], filters=[("id", ">=", 599)]) == sum(ids[1:])
    assert epoch_bytes(columns=["id"], filters=[("id", "<", 0)]) == 0
    # The row groups of an epoch are the same on each rank, and with a limit.
    assert epoch_bytes(columns=["id"], limit=1, rank=1, world_size=2) == sum(ids + last)


def test_struct_fields(path, table):
    batch = whole(path, ["a.b", "a.c"])
    fields = table["a"].combine_chunks()
    assert (batch["a.b"].numpy() == fields.field("b").to_numpy()).all()
    assert batch["a.c"].tolist() == fields.field("c").to_pylist()


@pytest.mark.parametrize(
    "dtype", [torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64]
)
def test_casts(path, table, dtype):
    batch = whole(path, {"n": Column("n01", dtype), "m": Column("n00", dtype)})
    for output, name in (("n", "n01"), ("m", "n00")):
        want = torch.from_numpy(table[name].to_numpy().copy()).to(dtype)
        assert torch.equal(batch[output], want)


def test_cast_that_does_not_fit(path):
    with (
        FastParquetDataset(path, columns={"n": Column("n01", torch.uint8)}, threads=1) as dataset,
        pytest.raises(ValueError, match=r"Expected .*uint8.*t\.parquet, row group 0.*`n01`"),
    ):
        list(dataset)


def test_nulls(path, table):
    columns = {
        "nan": "x64",
        "filled": Column("nullable", fill=-5),
        "zero": Column("nullable", valid=True),
        "both": Column("nullable", torch.float32, fill=0.5, valid=True),
        "text": Column("text", fill="none", valid=True),
    }
    batch = whole(path, columns, nulls="nan")
    valid = table["nullable"].is_valid().to_numpy()
    stored = table["nullable"].fill_null(0).to_numpy()
    assert (np.isnan(batch["nan"].numpy()) == table["x64"].is_null().to_numpy()).all()
    assert (batch["filled"].numpy() == np.where(valid, stored, -5)).all()
    assert (batch["zero"].numpy() == stored).all()
    assert (batch["zero__valid"].numpy() == valid).all()
    assert (batch["both"].numpy() == np.where(valid, stored, 0.5).astype(np.float32)).all()
    assert (batch["both__valid"].numpy() == valid).all()
    assert batch["text"].tolist() == table["text"].fill_null("none").to_pylist()
    assert (batch["text__valid"].numpy() == table["text"].is_valid().to_numpy()).all()


@pytest.mark.parametrize("column", ["nullable", "x64"])
@pytest.mark.parametrize("statistics", [True, False])
def test_nulls_without_a_fill(table, tmp_path, statistics, column):
    """Told by the footer before the first batch, and without statistics while iterating."""
    path = tmp_path / "n.parquet"
    pq.write_table(table, path, row_group_size=700, write_statistics=statistics)

    def read():
        with FastParquetDataset(path, columns=["n01", column], threads=1) as dataset:
            batches = iter(dataset)
            assert not statistics
            list(batches)

    place = rf"fill=.*valid=True.*n\.parquet, row group 0.*`{column}`"
    with pytest.raises(NullValueError, match=place):
        read()


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_stack_is_row_major(path, table, dtype, shuffle):
    names = [*NUMBERS, "x32", "x64", "nullable"]
    columns = {"all": Stack(names, dtype, fill=0), "n00": "n00"}
    batch = whole(path, columns, shuffle=shuffle, shuffle_window=500, provenance=True)
    stack = batch["all"]
    assert stack.shape == (ROWS, len(names))
    assert stack.is_contiguous()
    assert stack.dtype == dtype
    rows = batch["__row__"].numpy()
    for k, name in enumerate(names):
        column = torch.from_numpy(table[name].fill_null(0).to_numpy()[rows].copy())
        assert torch.equal(stack[:, k], column.to(stack.dtype)), name
    assert (batch["n00"].numpy() == table["n00"].to_numpy()[rows]).all()


@pytest.mark.parametrize("width", [1, 2, 15, 16, 17, 33])
def test_stack_widths(path, table, width):
    names = list(NUMBERS)[:width]
    stack = whole(path, {"s": Stack(names)})["s"]
    want = np.stack([table[name].to_numpy() for name in names], axis=1)
    assert (stack.numpy() == want).all()


def test_stack_keeps_nan(path, table):
    stack = whole(path, {"s": Stack(["x32", "x64"])}, nulls="nan")["s"]
    assert (torch.isnan(stack[:, 1]).numpy() == table["x64"].is_null().to_numpy()).all()
    assert not torch.isnan(stack[:, 0]).any()


@pytest.mark.parametrize("type_", [pa.int8(), pa.int16(), pa.int64(), pa.float32()])
def test_nulls_of_shuffled_dictionary_columns(tmp_path, type_):
    """Windows of more than one bucket go by dictionary codes, whatever an element's width."""
    rows = 70_000
    values = [None if i % 7 == 0 else i * 31 % 100 for i in range(rows)]
    path = tmp_path / "codes.parquet"
    pq.write_table(pa.table({"x": pa.array(values, type_)}), path)
    columns = {"x": Column("x", fill=-1, valid=True)}
    dataset = FastParquetDataset(
        path, columns=columns, batch_size=1000, shuffle=True, provenance=True
    )
    for batch in dataset:
        expected = [values[row] for row in batch["__row__"].tolist()]
        assert batch["x__valid"].tolist() == [value is not None for value in expected]
        assert batch["x"].tolist() == [-1 if value is None else value for value in expected]


@pytest.mark.parametrize("window", [None, 45_000])
@pytest.mark.parametrize("type_", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32()])
def test_stacks_of_shuffled_dictionary_columns(tmp_path, type_, window):
    """Codes of all widths, values, and columns that cease to be codes, side by side."""
    rows, row_group, limit = 90_000, 60_000, 400_000
    number = np.arange(rows)
    kinds = {
        "few": number % 7,
        "some": number % 3000,
        "many": number % 45_000,
        "dictionary_overflows": number,
        "codes_run_out": np.where(number < row_group, number % 7, number),
        "without": number,
    }
    most = 100 if type_ == pa.int8() else 30_000 if type_ == pa.int16() else rows
    table = pa.table(
        {f"{kind}_{i}": (kinds[kind] * (i + 1) % most).astype(type_.to_pandas_dtype())
         for i in range(6) for kind in kinds}
    )  # fmt: skip
    path = tmp_path / "codes.parquet"
    pq.write_table(
        table,
        path,
        row_group_size=row_group,
        use_dictionary=[name for name in table.column_names if not name.startswith("without")],
        dictionary_pagesize_limit=limit,
        data_page_size=30_000,
    )
    want = np.stack([column.to_numpy() for column in table.columns], axis=1)
    dataset = FastParquetDataset(
        path,
        columns={"all": Stack(table.column_names)},
        batch_size=7000,
        shuffle=True,
        shuffle_window=window,
        provenance=True,
    )
    for _ in range(2):
        for batch in dataset:
            assert (batch["all"].numpy() == want[batch["__row__"].numpy()]).all()


def test_nulls_of_shuffled_dictionary_columns_in_a_stack(tmp_path):
    rows = 70_000
    values = {
        name: [None if i % 7 == rest else i * 31 % 100 for i in range(rows)]
        for rest, name in enumerate("abc")
    }
    path = tmp_path / "codes.parquet"
    pq.write_table(pa.table(values), path, use_dictionary=["a", "b"])
    columns = {"all": Stack(list("abc"), fill=-1)}
    dataset = FastParquetDataset(
        path, columns=columns, batch_size=1000, shuffle=True, provenance=True
    )
    for batch in dataset:
        for column, of_column in enumerate(values.values()):
            expected = [of_column[row] for row in batch["__row__"].tolist()]
            assert batch["all"][:, column].tolist() == [-1 if v is None else v for v in expected]


def test_a_column_of_the_empty_name(tmp_path):
    pq.write_table(pa.table({"": [1, 2], "b": [3, 4]}), tmp_path / "t.parquet")
    for columns in ([""], {"a": ""}, [Column("", "int64")]):
        with FastParquetDataset(tmp_path / "t.parquet", columns=columns) as dataset:
            assert [value.tolist() for value in next(iter(dataset)).values()] == [[1, 2]]
    with FastParquetDataset(tmp_path / "t.parquet", filters=("", ">", 1)) as dataset:
        assert next(iter(dataset))["b"].tolist() == [4]
    pq.write_table(pa.table({"b": [3]}), tmp_path / "other.parquet")
    with pytest.raises(ColumnNotFoundError, match="got ``"):
        FastParquetDataset(tmp_path / "other.parquet", columns=[""])


def test_codes_of_large_unsigned_integers(tmp_path):
    ids = [5, 2**63, 2**64 - 1, 7, 2**63 - 1] * 200
    for dictionary in (False, True):
        path = tmp_path / f"{dictionary}.parquet"
        pq.write_table(
            pa.table({"id": pa.array(ids, pa.uint64())}), path, use_dictionary=dictionary
        )
        codes = Codes("id", [2**64 - 1, 2**63, 2**63 - 1, -1, 5])
        with FastParquetDataset(path, columns=[codes], batch_size=1000) as dataset:
            assert next(iter(dataset))["id"].tolist() == [4, 1, 0, -1, 2] * 200
