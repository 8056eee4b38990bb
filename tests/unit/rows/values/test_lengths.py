"""Lengths of lists: found once for each version of a file, from levels alone."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from fastload import FastParquetDataset, Fixed, NullValueError, Pack, Pad, TokenBudget
from fastload.errors import ColumnNotFoundError, CorruptFileError, SchemaError
from fastload.rows.values import tokens as module
from support.token_files import documents_of, write_documents

LENGTHS = np.random.default_rng(5).integers(0, 300, 500).tolist()


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "a.parquet"
    write_documents(path, LENGTHS, group_rows=70)
    return path


@pytest.fixture
def reads(monkeypatch):
    """The numbers of the files whose lengths have been found."""
    files = []
    real = module.read_files

    def counted(source, column, missing, *rest):
        files.extend(missing)
        return real(source, column, missing, *rest)

    monkeypatch.setattr(module, "read_files", counted)
    return files


def lengths_of(source, column="t", **options):
    dataset = FastParquetDataset(
        source, columns=[column], batch_size=TokenBudget(column, 10**9), **options
    )
    return dataset._units._lengths.values.tolist()


def entries(home):
    return sorted(path for path in home.glob("lengths/**/*") if path.is_file())


def test_found_once_per_version_of_a_file(home, source, reads):
    assert lengths_of(source) == LENGTHS
    assert lengths_of(source) == LENGTHS
    assert reads == [0]
    (entry,) = entries(home)
    assert entry.stat().st_size == 24 + 2 * len(LENGTHS)
    os.utime(source, ns=(1, 1))
    assert lengths_of(source) == LENGTHS
    assert reads == [0, 0]
    changed = [*LENGTHS[::-1], 7]
    write_documents(source, changed)
    assert lengths_of(source) == changed
    assert lengths_of(source, "l") == changed  # another column
    assert len(reads) == 4


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "magic", "width"])
def test_a_damaged_entry_is_found_anew(home, source, reads, damage):
    lengths_of(source)
    (entry,) = entries(home)
    sound = entry.read_bytes()
    damaged = bytearray(sound)
    if damage == "flip":
        damaged[-1] ^= 1
    elif damage == "cut":
        del damaged[-1]
    elif damage == "empty":
        damaged.clear()
    elif damage == "magic":
        damaged[0] ^= 1
    else:
        damaged[8] = 3
    entry.write_bytes(damaged)
    assert lengths_of(source) == LENGTHS
    assert len(reads) == 2
    assert entry.read_bytes() == sound


@pytest.mark.parametrize(("most", "width"), [(255, 1), (256, 2), (65_535, 2), (65_536, 4)])
def test_entries_take_the_narrowest_integers(home, tmp_path, most, width):
    lengths = [0, most, 3]
    write_documents(tmp_path / "a.parquet", lengths)
    assert lengths_of(tmp_path / "a.parquet") == lengths
    assert lengths_of(tmp_path / "a.parquet") == lengths
    (entry,) = entries(home)
    assert entry.stat().st_size == 24 + 3 * width


def test_without_a_directory_nothing_is_kept(source, reads, monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(blocked))
    with pytest.warns(UserWarning, match="the lengths of lists"):
        assert lengths_of(source) == LENGTHS
    assert reads == [0]


def test_only_new_files_are_read(home, tmp_path, reads):
    directory = tmp_path / "files"
    directory.mkdir()
    parts = [LENGTHS[:100], LENGTHS[100:101], LENGTHS[101:300]]
    for number in (0, 2):
        write_documents(directory / f"{number}.parquet", parts[number], group_rows=33)
    assert lengths_of(directory) == parts[0] + parts[2]
    write_documents(directory / "1.parquet", parts[1])
    assert lengths_of(directory) == [length for part in parts for length in part]
    assert reads == [0, 1, 1]


def test_progress_is_shown_by_files(home, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("fastload.runtime.progress._EVERY_S", 0)
    directory = tmp_path / "files"
    directory.mkdir()
    for number in range(3):
        write_documents(directory / f"{number}.parquet", LENGTHS[:5])
    lengths_of(directory)
    shown = [line for line in capsys.readouterr().err.splitlines() if "lists" in line]
    assert [line.split(" in ")[0] for line in shown] == [
        f"fastload: measured lists of {done} of 3 files" for done in (1, 2, 3)
    ]
    lengths_of(directory)
    assert "lists" not in capsys.readouterr().err


def test_files_and_row_groups_without_rows(home, tmp_path):
    directory = tmp_path / "files"
    directory.mkdir()
    write_documents(directory / "0.parquet", [])
    write_documents(directory / "1.parquet", [3, 0, 1], group_rows=[0, 2, 0, 1])
    write_documents(directory / "2.parquet", [])
    assert lengths_of(directory) == [3, 0, 1]


@pytest.mark.parametrize("options", [{"filters": pc.field("id") >= 260}, {"split": ("id", 0, 0.3)}])
def test_filters_and_splits_select_lengths(home, source, reads, options):
    ids = [
        number
        for batch in FastParquetDataset(source, columns=["id"], **options)
        for number in batch["id"].tolist()
    ]
    assert 0 < len(ids) < len(LENGTHS)
    assert lengths_of(source, **options) == [LENGTHS[number] for number in ids]
    # The entry has all rows, so other filters need no other entry.
    assert lengths_of(source) == LENGTHS
    assert reads == [0]
    assert lengths_of(source, filters=pc.field("id") < 0) == []


VARIANTS = [
    {"data_page_version": version, "use_dictionary": dictionary, "compression": compression}
    for version in ("1.0", "2.0")
    for dictionary in (False, True)
    for compression in ("none", "snappy", "zstd")
]


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: "-".join(map(str, v.values())))
def test_pages_of_each_form(home, tmp_path, variant):
    path = tmp_path / "a.parquet"
    write_documents(path, LENGTHS, group_rows=120, data_page_size=500, **variant)
    want = pc.list_value_length(pq.read_table(path)["t"]).to_pylist()
    assert lengths_of(path) == want == LENGTHS


def test_null_lists_and_null_tokens(home, tmp_path):
    path = tmp_path / "a.parquet"
    lists = [[1, 2], None, [], [None, 3, None], None, [4]]
    pq.write_table(pa.table({"t": pa.array(lists, pa.list_(pa.int64()))}), path, row_group_size=2)
    with pytest.raises(NullValueError):
        lengths_of(path)
    with pytest.raises(NullValueError):
        lengths_of(path)  # nothing was kept of the file
    for nulls in ("zero", "mask"):
        assert lengths_of(path, nulls=nulls) == [2, 0, 0, 3, 0, 1]


def test_null_lists_in_rows_that_do_not_stay(home, tmp_path, reads):
    lists = [None if i % 10 == 3 else list(range(i % 9)) for i in range(500)]
    for number, some in enumerate([lists[4:10], lists, lists[::-1], [None]]):
        rows = pa.table({"t": pa.array(some, pa.list_(pa.int64())), "n": range(len(some))})
        pq.write_table(rows, tmp_path / f"{number}.parquet", row_group_size=70)
    valid = pc.field("t").is_valid()
    stay = [row for some in (lists[4:10], lists, lists[::-1]) for row in some if row is not None]
    for _ in range(2):
        assert lengths_of(tmp_path / "*.parquet", filters=valid) == [len(row) for row in stay]
    assert reads == [0, 1, 2, 3] * 3  # all rows, those that stay, then all rows again
    packed = FastParquetDataset(
        tmp_path / "*.parquet", columns=["t"], filters=valid, pack=Pack("t", 10**5)
    )
    (batch,) = packed
    tokens = [token for row in stay for token in row]
    assert batch["t"][0, : len(tokens)].tolist() == tokens
    with pytest.raises(NullValueError, match=r"1\.parquet, row group 0, .* row 3"):
        lengths_of(tmp_path / "*.parquet", filters=valid | (pc.field("n") == 3))


def test_a_null_list_among_lengths_already_kept(home, tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"t": pa.array([[1], None], pa.list_(pa.int64()))}), path)
    assert lengths_of(path, nulls="zero") == [1, 0]
    with pytest.raises(NullValueError):
        lengths_of(path)


@pytest.mark.parametrize("kind", [pa.large_list(pa.int32()), pa.list_(pa.float32(), 3)])
def test_lists_of_other_types(home, tmp_path, kind):
    path = tmp_path / "a.parquet"
    lists = [[1, 2, 3], [4, 5, 6]]
    pq.write_table(pa.table({"t": pa.array(lists, kind)}), path)
    if pa.types.is_fixed_size_list(kind):
        with pytest.raises(SchemaError, match="Expected lists of numbers of varying lengths"):
            lengths_of(path)
    else:
        assert lengths_of(path) == [3, 3]


@pytest.mark.parametrize(
    ("lists", "columns", "message"),
    [
        (pa.list_(pa.int32(), 2), ["t"], r"got int32 \(B, 2\): .* column.cast\(pyarrow.list_\("),
        (pa.list_(pa.int32()), [Pad("t", 3)], r"got int32 \(B, 3\): .* name the column itself"),
        (pa.list_(pa.int32()), [Fixed("t", 2)], r"got int32 \(B, 2\): .* name the column itself"),
        (pa.list_(pa.string()), ["t"], "got str Ragged, lists: Hash and Codes"),
    ],
)
def test_the_error_for_other_lists_names_the_way_out(home, tmp_path, lists, columns, message):
    values = [["1", "2"], ["3", "4"]] if lists.value_type == pa.string() else [[1, 2], [3, 4]]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"t": pa.array(values, lists)}), path)
    for options in ({"pack": Pack("t", 8)}, {"batch_size": TokenBudget("t", 8)}):
        with pytest.raises(SchemaError, match=message):
            FastParquetDataset(path, columns=columns, **options)


def test_lists_of_a_fixed_size_are_packed_once_they_are_cast_as_the_error_says(home, tmp_path):
    path = tmp_path / "a.parquet"
    column = pa.array([[1, 2], [3, 4]], pa.list_(pa.int32(), 2))
    cast = column.cast(pa.list_(column.type.value_type))
    pq.write_table(pa.table({"t": cast}), path)
    (batch,) = FastParquetDataset(path, pack=Pack("t", 4))
    assert batch["t"].tolist() == [[1, 2, 3, 4]]


def test_pack_beside_a_mask_of_null_lists_says_where_the_mask_comes_from(home, tmp_path):
    path = tmp_path / "a.parquet"
    columns = {"t": pa.array([[1], None], pa.list_(pa.int64())), "s": ["a", None]}
    pq.write_table(pa.table(columns), path)
    with pytest.raises(ValueError, match='got t__valid too: nulls="mask" or valid=True adds it'):
        FastParquetDataset(path, pack=Pack("t", 8), nulls="mask")
    with pytest.raises(ValueError, match="got s too: name lists to cut alike in along="):
        FastParquetDataset(path, columns=["t", "s"], pack=Pack("t", 8), nulls="mask")


@pytest.mark.parametrize(
    "values",
    [[1, 2], ["a", "b"], [["a"], ["b"]], [[[1]], [[2]]], [{"x": 1}, {"x": 2}]],
    ids=["numbers", "strings", "lists of strings", "lists of lists", "structs"],
)
def test_other_columns_are_refused(home, tmp_path, values):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"t": values}), path)
    column = "t.x" if isinstance(values[0], dict) else "t"
    with pytest.raises(SchemaError, match="Expected lists of numbers of varying lengths"):
        FastParquetDataset(path, columns=[column], batch_size=TokenBudget(column, 9))
    with pytest.raises(SchemaError, match="Expected lists of numbers of varying lengths"):
        FastParquetDataset(path, pack=Pack(column, 9))


def test_a_column_that_is_missing(home, source):
    with pytest.raises(ColumnNotFoundError):
        FastParquetDataset(source, pack=Pack("tokens", 9))
    with pytest.raises(ColumnNotFoundError, match="TokenBudget names, got no `tt`; "):
        FastParquetDataset(source, columns=["t"], batch_size=TokenBudget("tt", 9))


def test_an_output_that_columns_leaves_out(home, tmp_path):
    path = tmp_path / "documents.parquet"
    pq.write_table(pa.table({"t": [[1, 2]], "mask": [[0, 1]]}), path)
    with pytest.raises(ColumnNotFoundError, match=r"got no `mask`; .* name it in columns= too"):
        FastParquetDataset(path, columns=["t"], pack=Pack("t", 9, along=["mask"]))


def test_a_file_that_lacks_the_column_has_null_lists(home, tmp_path):
    directory = tmp_path / "files"
    directory.mkdir()
    write_documents(directory / "0.parquet", [2, 1])
    pq.write_table(pa.table({"id": [7, 8]}), directory / "1.parquet")
    assert lengths_of(directory, nulls="zero") == [2, 1, 0, 0]
    with pytest.raises(NullValueError):
        lengths_of(directory)


def test_values_are_not_decoded(home, tmp_path):
    path = tmp_path / "a.parquet"
    write_documents(
        path,
        LENGTHS,
        group_rows=len(LENGTHS),
        use_dictionary=False,
        column_encoding={"t.list.element": "DELTA_BINARY_PACKED"},
        compression="none",
        data_page_version="2.0",
    )
    # The values of the page begin after the levels, with the sizes of blocks. Each block begins
    # with widths of numbers, and no decoder takes widths of 255 bits.
    chunk = next(
        chunk
        for chunk in map(pq.read_metadata(path).row_group(0).column, range(3))
        if chunk.path_in_schema == "t.list.element"
    )
    end = chunk.data_page_offset + chunk.total_compressed_size
    data = bytearray(path.read_bytes())
    values = bytes(data[chunk.data_page_offset : end]).index(b"\x80\x02\x04") + 8
    data[chunk.data_page_offset + values : end] = b"\xff" * (end - chunk.data_page_offset - values)
    path.write_bytes(data)
    with pytest.raises(CorruptFileError):
        list(FastParquetDataset(path, columns=["t"]))
    assert lengths_of(path) == LENGTHS


def test_long_lists_are_named_by_their_place(home, tmp_path):
    directory = tmp_path / "files"
    directory.mkdir()
    write_documents(directory / "0.parquet", [1, 2, 3])
    write_documents(directory / "1.parquet", [4, 0, 11, 12], group_rows=2)
    longer = (
        r"got 2 longer ones, the first of 11 tokens \({} .*1\.parquet, row group 1, row 0, column"
    )
    place = longer.format('long="split", "truncate" or "drop" of Pack')
    with pytest.raises(ValueError, match=place):
        FastParquetDataset(directory, pack=Pack("t", 10, long="raise"))
    place = longer.format(r'TokenBudget\(long="alone"\)')
    with pytest.raises(ValueError, match=place):
        FastParquetDataset(directory, columns=["t"], batch_size=TokenBudget("t", 10))
    FastParquetDataset(directory, pack=Pack("t", 12, long="raise"))
    some = {"filters": pc.field("t").is_valid() & (pc.field("id") != 1)}
    with pytest.raises(ValueError, match="row group 1, selected row 0"):
        FastParquetDataset(directory, pack=Pack("t", 10, long="raise"), **some)


def test_tokens_of_a_hashed_column_have_the_same_lengths(home, source):
    from fastload import Hash

    dataset = FastParquetDataset(source, pack=Pack(Hash("t", 50), 64), batch_size=10_000)
    (batch,) = dataset
    assert int((batch["t__document"] >= 0).sum()) == sum(LENGTHS)
    assert dataset.num_rows == len(documents_of(LENGTHS))
