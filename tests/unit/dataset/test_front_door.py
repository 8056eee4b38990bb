"""The first things that a new user tries: look at a dataset, at its rows, and at its errors."""

import tracemalloc

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fastload
from fastload import (
    Batch,
    Column,
    CorruptFileError,
    FastParquetDataset,
    Pack,
    Stack,
    TokenBudget,
    mix,
)
from support.sample_files import write_files

ROWS = 10


@pytest.fixture
def path(tmp_path):
    columns = {
        "id": pa.array(range(ROWS), pa.int64()),
        "flag": pa.array([None if i % 3 == 0 else i % 2 == 0 for i in range(ROWS)]),
        "x": pa.array([None if i == 4 else i / 2 for i in range(ROWS)], pa.float32()),
        "word": pa.array([None if i == 5 else "w" * i for i in range(ROWS)]),
        "tags": pa.array([None if i == 6 else [i] * (i % 3) for i in range(ROWS)]),
        "user": pa.array([{"id": i, "age": i} for i in range(ROWS)]),
    }
    file = tmp_path / "part.parquet"
    pq.write_table(pa.table(columns), file, row_group_size=3)
    return file


def test_head_ends_no_pass_and_moves_no_epoch(path):
    with FastParquetDataset(path, nulls="zero", batch_size=2, shuffle=True) as dataset:
        passing = iter(dataset)
        next(passing)
        head = dataset.head(4)
        assert type(head) is Batch
        assert head["id"].tolist() == [0, 1, 2, 3]
        assert len(list(passing)) == 4
        assert dataset.state_dict()["epoch"] == 0


@pytest.mark.parametrize("rows", [1, 5, 1000])
def test_head_reads_over_row_groups(path, rows):
    with FastParquetDataset(path, nulls="zero", filters=[("id", "!=", 1)]) as dataset:
        kept = [i for i in range(ROWS) if i != 1]
        assert dataset.num_rows == len(kept)
        assert dataset.head(rows)["id"].tolist() == kept[:rows]


def test_head_masks_nulls_and_applies_steps(path):
    def doubled(block):
        return {"id": block["id"] * 2}

    columns = {"id": "id", "flag": Column("flag", fill=True), "x": "x"}
    with FastParquetDataset(path, columns=columns, preprocess=doubled) as dataset:
        head = dataset.head()
        assert list(head) == ["id", "flag", "x", "x__valid"]
        assert head["id"].tolist() == [0, 2, 4, 6, 8]
        assert head["flag"].tolist() == [True, False, True, True, True]
        assert head["x__valid"].tolist() == [True, True, True, True, False]


def test_head_leaves_out_damaged_row_groups(path):
    raw = bytearray(path.read_bytes())
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(0)
    at = chunk.dictionary_page_offset or chunk.data_page_offset
    raw[at : at + 4] = b"\xff" * 4
    path.write_bytes(raw)
    with FastParquetDataset(path, columns=["id"]) as dataset, pytest.raises(CorruptFileError):
        dataset.head()
    with FastParquetDataset(path, columns=["id"], on_error="skip") as dataset:
        assert dataset.head(4)["id"].tolist() == [3, 4, 5, 6]


@pytest.mark.parametrize("limit", [0, 2, 7])
def test_head_has_no_more_rows_than_limit_keeps(path, limit):
    with FastParquetDataset(path, columns=["id"], limit=limit) as dataset:
        if limit:
            assert dataset.head(5)["id"].tolist() == list(range(min(5, limit)))
            return
        with pytest.raises(ValueError, match="Expected a dataset with rows, got one without"):
            dataset.head(5)


@pytest.mark.parametrize("rows", [0, -1, 2.0, True])
def test_head_refuses_other_numbers(path, rows):
    with FastParquetDataset(path, nulls="zero") as dataset, pytest.raises((ValueError, TypeError)):
        dataset.head(rows)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"num_workers": -1}, ValueError),
        ({"num_workers": "2"}, TypeError),
        ({"num_workers": 1.5}, TypeError),
        ({"rank": 0.0}, TypeError),
        ({"rank": 1}, ValueError),
    ],
)
def test_rows_of_refuses_other_numbers(path, arguments, error):
    with FastParquetDataset(path, columns=["id"], batch_size=4) as dataset:
        assert dataset.rows_of(1)["row"].tolist() == [4, 5, 6, 7]
        with pytest.raises(error, match=r"Expected (rank|num_workers)"):
            dataset.rows_of(1, **arguments)


def test_print_of_a_dataset_reads_like_a_table(path):
    dataset = FastParquetDataset(
        path, nulls="zero", exclude=["user"], batch_size=4, shuffle=True, limit=7
    )
    assert str(dataset).splitlines() == [
        f"FastParquetDataset({str(path)!r})",
        "  rows     10 in 1 file, of which limit keeps 7",
        "  batches  of 4 rows",
        "  order    shuffled in windows of 524,288 rows, seed 0",
        "  5 outputs",
        "    id    int64    (B,)",
        "    flag  bool     (B,)           4 nulls",
        "    x     float32  (B,)           1 null",
        "    word  str      Ragged         1 null",
        "    tags  int64    Ragged, lists",
    ]
    assert str(dataset.schema).splitlines()[:2] == ["Schema of 5 outputs", "  id    int64    (B,)"]


def test_print_of_a_dataset_names_the_seed_of_the_loaded_state(path):
    one, other = (
        FastParquetDataset(path, columns=["id"], shuffle=True, seed=seed) for seed in (3, 4)
    )
    other.load_state_dict(one.state_dict())
    assert str(other) == str(one)
    assert "seed 3" in other._repr_html_()


def test_html_escapes_names_and_values(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"<b>": ["<i>x</i>"] * 20}), path)
    dataset = FastParquetDataset(path)
    for html in (
        dataset._repr_html_(),
        dataset.schema._repr_html_(),
        dataset.head(20)._repr_html_(),
    ):
        assert "&lt;b&gt;" in html
        assert "<b>" not in html.replace("<b>FastParquetDataset</b>", "")
    assert html.count("<tr>") == 1 + 10 + 1


def test_print_of_a_batch_reads_like_a_table(path):
    batch = FastParquetDataset(path, nulls="zero", columns=["id", "x", "word", "tags"]).head(4)
    batch["m"] = torch.zeros(4, 3)
    assert str(batch).splitlines() == [
        "Batch of 4 rows, 8 outputs, 218 bytes",
        "  id           int64    (4,)       0, 1, 2, 3",
        "  x            float32  (4,)       0, 0.5, 1, 1.5",
        "  x__valid     bool     (4,)       True, True, True, True",
        "  word         str      4 strings  '', 'w', 'ww', ...",
        "  word__valid  bool     (4,)       True, True, True, True",
        "  tags         int64    4 lists    [], [1], [2, 2], ...",
        "  tags__valid  bool     (4,)       True, True, True, True",
        "  m            float32  (4, 3)     [0, 0, 0, ...]",
    ]


def test_a_missing_output_names_the_fields_of_a_struct_or_similar_outputs(path):
    batch = FastParquetDataset(path, nulls="zero").head(1)
    with pytest.raises(KeyError, match=r"'user' is a struct .* 'user.id', 'user.age'"):
        batch["user"]
    with pytest.raises(KeyError, match="no output 'wrod'; similar outputs: 'word'"):
        batch["wrod"]
    assert batch.get("wrod") is None


def test_the_text_of_a_dataset_counts_its_files(path, tmp_path):
    alone = FastParquetDataset(path, columns=["id"])
    assert repr(alone).splitlines()[0] == f"FastParquetDataset({str(path)!r})"
    paths = write_files(tmp_path, [[3], [4], [5]])
    dataset = FastParquetDataset(tmp_path / "part-*.parquet")
    assert repr(dataset).splitlines()[0] == f"FastParquetDataset({paths[0]!r} and 2 more files)"
    assert "part-000.parquet&#x27; and 2 more files</code>" in dataset._repr_html_()


@pytest.mark.parametrize(
    ("keyword", "hint"),
    [
        ("num_workers", "parameter of DataLoader"),
        ("shuffle_buffer", "shuffle_window="),
        ("transform", "preprocess="),
        ("max_tokens", r"batch_size=TokenBudget\(column, tokens\)"),
        ("seq_length", r"pack=Pack\(column, length\) .* Pad\(column, length\)"),
        ("streaming", "leave streaming out: .* always reads the files while you iterate"),
        ("batched", "leave batched out and pass batch_size="),
        ("skip_batches", r"call load_state_dict\(fastload.skip\(state, steps\)\)"),
        ("batchsize", "did you mean 'batch_size'"),
        ("qqq", "its parameters are source, columns"),
    ],
)
def test_a_keyword_of_another_library_is_answered_with_a_hint(path, keyword, hint):
    with pytest.raises(TypeError, match=hint):
        FastParquetDataset(path, **{keyword: 1})


def test_the_package_shows_its_public_names_alone():
    assert dir(fastload) == sorted(fastload.__all__)


def test_batches_go_to_arrow_and_pandas(path):
    batch = FastParquetDataset(path, columns=["id", "x", "word", "tags"], nulls="zero").head(7)
    batch["half"] = batch["x"].bfloat16()
    batch["m"] = torch.arange(14).reshape(7, 2)
    table = batch.to_arrow()
    assert table.schema.names == list(batch)
    assert table["id"].to_pylist() == list(range(7))
    assert table["word"].to_pylist() == ["", "w", "ww", "www", "wwww", "", "w" * 6]
    assert table["tags"].to_pylist() == batch["tags"].tolist()
    assert table["x__valid"].to_pylist() == [i != 4 for i in range(7)]
    assert table["half"].type == pa.float32()
    assert table["m"].to_pylist() == batch["m"].tolist()
    sliced = batch.slice(2, 5)
    assert sliced.to_arrow()["word"].to_pylist() == ["ww", "www", "wwww"]
    assert sliced["id"].data_ptr() == batch["id"][2:].data_ptr()
    assert batch.slice(-1).rows == 1
    pytest.importorskip("pandas")
    assert list(batch.to_pandas()["id"]) == list(range(7))


def test_columns_in_the_forms_that_users_write(path):
    columns = {
        "y": Column("flag", "int8", fill=0),
        "id": torch.float32,
        "m": ["user.id", "user.age"],
        "*": ...,
    }
    with FastParquetDataset(path, columns=columns, nulls="zero", exclude=["tags"]) as dataset:
        assert list(dataset.schema) == ["y", "id", "m", "x", "word"]
        assert dataset.schema["id"].dtype == torch.float32
        assert dataset.schema["m"].shape == (2,)
        assert dataset.head(2)["m"].tolist() == [[0, 0], [1, 1]]
    listed = FastParquetDataset(path, columns=["id", Column("x", "float64")])
    assert listed.schema["x"].dtype == torch.float64


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"columns": {"x": ...}}, r"key '\*'"),
        ({"columns": [Stack(["id"])]}, "write a mapping"),
        ({"columns": ["id"], "exclude": ["id"]}, "both in columns and in exclude"),
        ({"exclude": ["idd"]}, "`id`"),
        ({"exclude": "id"}, "a list of column names"),
        ({"exclude": ["id", "flag", "x", "word", "tags", "user"]}, "names all"),
        ({"nulls": "drop"}, "'raise', 'nan', 'zero' or 'mask'"),
        ({"columns": {"x": 3}}, "dtype, list of names"),
        ({"seed": None}, "Expected seed as int, got None"),
        ({"prefetch": None}, "Expected prefetch as int, got None"),
        ({"offset": None}, "Expected offset as int, got None"),
    ],
)
def test_wrong_arguments_are_refused_with_a_sentence(path, arguments, message):
    with pytest.raises((TypeError, ValueError, KeyError), match=message):
        FastParquetDataset(path, **arguments)


def test_rows_of_ends_a_range_at_the_first_step_that_the_epoch_lacks(path):
    """A range that is too long for memory takes no more of it than the steps of the epoch."""
    with FastParquetDataset(path, columns=["id"], batch_size=4) as dataset:
        mixed = mix({"all": FastParquetDataset(path, columns=["id"], batch_size=4)})
        for one in (dataset, mixed):
            steps = len(one)
            tracemalloc.start()
            with pytest.raises(
                ValueError, match=f"{steps} steps, counted from 0, got step {steps}$"
            ):
                one.rows_of(range(10**5))
            most = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert most < 1 << 20


@pytest.mark.parametrize(
    "arguments",
    [
        {"pack": Pack("tags", 4), "nulls": "zero"},
        {"batch_size": TokenBudget("tags", 4)},
        {"batch_size": TokenBudget("tags", 4), "canonical_ranks": 1},
        {"global_batch_size": 4},
        {"weights": "id"},
    ],
)
def test_where_skip_is_refused_the_error_says_what_to_do_with_damaged_files(path, arguments):
    with pytest.raises(ValueError, match=r'on_error="raise" beside .* leave damaged files out of'):
        FastParquetDataset(path, on_error="skip", **arguments)
