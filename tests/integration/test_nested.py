"""Columns of lists, structs and maps through the dataset, against what pyarrow reads."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from fastload import (
    Codes,
    Column,
    FastParquetDataset,
    Hash,
    NullValueError,
    Pack,
    Pad,
    Ragged,
    SchemaError,
    Stack,
)
from fastload.testing import assert_same_batches
from support.same_rows import assert_same_rows
from support.stored_tables import StoredTables, fill_of

ROWS = 1000
NULLS = 0.2


def some(rng, make, least=0, most=5, nulls=NULLS):
    """Lists of what `make` makes, some of them null."""
    return [
        None if rng.random() < nulls else [make() for _ in range(int(rng.integers(least, most)))]
        for _ in range(ROWS)
    ]


def tables(nulls):
    """A column of every shape, with a share of nulls at every level."""
    rng = np.random.default_rng(7)

    def maybe(make):
        return lambda: None if rng.random() < nulls else make()

    number = maybe(lambda: int(rng.integers(-100, 100)))
    real = maybe(lambda: float(rng.random()))
    word = maybe(lambda: str(rng.integers(0, 30)) * int(rng.integers(0, 4)))
    pair = maybe(lambda: [real(), real()])
    inner = maybe(lambda: [number() for _ in range(int(rng.integers(0, 4)))])
    point = maybe(lambda: {"x": real(), "name": word(), "tags": maybe(lambda: [word()])()})
    entries = maybe(lambda: [(str(k), number()) for k in range(int(rng.integers(0, 4)))])
    point_type = pa.struct({"x": pa.float32(), "name": pa.string(), "tags": pa.list_(pa.binary())})

    def column(make, kind):
        return pa.array([maybe(make)() for _ in range(ROWS)], kind)

    tensor = pa.fixed_shape_tensor(pa.float32(), [2, 2], permutation=[1, 0])
    return pa.table(
        {
            "id": np.arange(ROWS),
            "l": pa.array(some(rng, number, nulls=nulls), pa.list_(pa.int32())),
            "lf": pa.array(some(rng, real, nulls=nulls), pa.large_list(pa.float64())),
            "ls": pa.array(some(rng, word, nulls=nulls), pa.list_(pa.string())),
            "ll": pa.array(some(rng, inner, nulls=nulls), pa.list_(pa.list_(pa.int16()))),
            "lll": column(lambda: [[inner()], []], pa.list_(pa.list_(pa.list_(pa.int64())))),
            "e": column(lambda: [real(), real(), real()], pa.list_(pa.float32(), 3)),
            "es": column(lambda: [word(), word()], pa.list_(pa.string(), 2)),
            "le": pa.array(some(rng, pair, nulls=nulls), pa.list_(pa.list_(pa.float32(), 2))),
            "el": column(lambda: [inner(), inner()], pa.list_(pa.list_(pa.int8()), 2)),
            "p": column(point, point_type),
            "lp": pa.array(some(rng, point, nulls=nulls), pa.list_(point_type)),
            "m": column(entries, pa.map_(pa.string(), pa.int64())),
            "t": pa.ExtensionArray.from_storage(
                tensor, column(lambda: [real() for _ in range(4)], tensor.storage_type)
            ),
            "b": pa.array(some(rng, maybe(lambda: bool(rng.integers(2))), nulls=nulls)),
            "d": pa.array(some(rng, number, nulls=nulls), pa.list_(pa.int64())).cast(
                pa.list_(pa.timestamp("us"))
            ),
            "u": column(lambda: int(rng.integers(0, 2**63)), pa.uint64()),
            "w": column(word, pa.string()),
        }
    )


@pytest.fixture(scope="module", params=["plain", "dictionary", "small pages"])
def paths(request, tmp_path_factory):
    options = {
        "plain": {"use_dictionary": False, "compression": "none"},
        "dictionary": {"data_page_version": "2.0", "compression": "zstd"},
        "small pages": {"data_page_size": 200, "write_batch_size": 16},
    }[request.param]
    directory = tmp_path_factory.mktemp("nested")
    for name, nulls in (("none", 0), ("some", NULLS)):
        pq.write_table(tables(nulls), directory / f"{name}.parquet", row_group_size=300, **options)
    return {name: str(directory / f"{name}.parquet") for name in ("none", "some")}


def with_fill(stored):
    return {name: Column(name, fill=fill_of(leaf)) for name, leaf in stored.leaves.items()}


# Batches of a row cross the end of the first row group.
@pytest.mark.parametrize(
    ("batch_size", "threads", "limit"), [(1, 2, 310), (77, 0, None), (77, 2, None), (5000, 2, None)]
)
def test_in_order(paths, batch_size, threads, limit):
    stored = StoredTables([paths["some"]])
    columns = with_fill(stored)
    with FastParquetDataset(
        paths["some"], columns=columns, batch_size=batch_size, threads=threads, limit=limit
    ) as dataset:
        assert_same_rows(dataset, stored.table[:limit], columns)


@pytest.mark.parametrize("window", [1, 50, 700, 10_000])
def test_shuffled(paths, window):
    stored = StoredTables([paths["some"]])
    columns = {name: Column(name, valid=True) for name in stored.leaves}
    with FastParquetDataset(
        paths["some"],
        columns=columns,
        batch_size=64,
        shuffle=True,
        shuffle_window=window,
        provenance=True,
        threads=2,
    ) as dataset:
        batches = list(dataset)
    rows = np.concatenate([stored.indices_of(batch) for batch in batches])
    assert sorted(rows.tolist()) == list(range(ROWS))
    assert_same_rows(batches, stored.table.take(pa.array(rows)), columns)
    assert_same_rows(batches, stored.table, columns, ordered=False)


def test_without_nulls_nothing_is_asked_for(paths):
    stored = StoredTables([paths["none"]])
    with FastParquetDataset(paths["none"], batch_size=128) as dataset:
        assert list(dataset.schema) == list(stored.leaves)
        assert dataset.schema["t"].shape == (2, 2)
        assert dataset.schema["e"].shape == (3,)
        batches = list(dataset)
    assert_same_rows(batches, stored.table)
    assert batches[0]["e"].is_contiguous()
    assert batches[0]["e"].data_ptr() % 64 == 0
    assert isinstance(batches[0]["ls"][0], Ragged)


def test_one_leaf_of_a_struct_reads_only_that(paths):
    def read(columns):
        with FastParquetDataset(paths["none"], columns=columns) as dataset:
            batches = list(dataset)
            return dataset.stats().read.bytes, batches

    one, batches = read(["lp.x"])
    all_of_it, others = read(["lp"])
    assert list(batches[0]) == ["lp.x"]
    assert list(others[0]) == ["lp.x", "lp.name", "lp.tags"]
    assert batches[0]["lp.x"] == others[0]["lp.x"]
    assert 0 < one < all_of_it


@pytest.mark.parametrize("shuffle", [False, True])
def test_specs_over_lists(paths, shuffle):
    table = pq.read_table(paths["some"])
    columns = {
        "l": Column("l", dtype=torch.float32, valid=True),
        "half": Column("lf", dtype=torch.bfloat16, fill=0),
        "short": Pad(Column("l", fill=-7), 2, value=-1),
        "long": Pad(Column("lf", valid=True), 12, value=float("inf")),
        "pairs": Pad(Column("le", fill=0), 3),
        "cut": Pad(Column("e", fill=0), 2),
        "hashes": Hash("ls", 1000, seed=3, fill=""),
        "buckets": Pad(Hash("ls", 1000, fill="x"), 4, value=-1),
        "numbers": Hash("l", 50, fill=0),
        "codes": Codes("ls", [str(k) for k in range(30)]),
        "dense": Codes("es", ["1", "22"], unknown=9),
        "keys": Pad(Codes("m.key", ["0", "1"]), 3),
        "word": Hash("w", 2**40, fill="none"),
        "big": Hash("u", 2**62, fill=2**64 - 1),
        "stack": Stack(["id", "u"], dtype=torch.float64, fill=-1),
        "id": "id",
    }
    with FastParquetDataset(
        paths["some"], columns=columns, batch_size=90, shuffle=shuffle, shuffle_window=400
    ) as dataset:
        batches = list(dataset)
    order = torch.cat([batch["id"] for batch in batches]).numpy()
    assert_same_rows(batches, table.take(pa.array(order)), columns)


@pytest.mark.parametrize(
    ("spec", "place"),
    [
        (Column("l"), "column `l`"),
        (Column("ls"), "column `ls`"),
        (Column("e"), "column `e`"),
        (Column("p.name"), "column `p.name`"),
        (Column("m.key"), "column `m.key`"),
        (Hash("ls", 10), "column `ls`"),
        (Pad("l", 3), "column `l`"),
    ],
)
def test_nulls_without_fill_are_named(paths, spec, place):
    with pytest.raises(NullValueError, match=rf"fill=.*some\.parquet, row group 0.*{place}"):
        list(FastParquetDataset(paths["some"], columns={"x": spec}))


def test_null_elements_of_floats_are_nan(tmp_path):
    table = pa.table(
        {"l": [[1.0, None], []], "e": pa.array([[None, 2.0]] * 2, pa.list_(pa.float32(), 2))}
    )
    pq.write_table(table, tmp_path / "a.parquet")
    with FastParquetDataset(tmp_path / "a.parquet", nulls="nan") as dataset:
        assert_same_rows(dataset, table)
        (batch,) = dataset
        assert str(batch["l"].tolist()) == "[[1.0, nan], []]"
    with FastParquetDataset(tmp_path / "a.parquet", nulls="zero") as dataset:
        assert_same_rows(dataset, table)
        (batch,) = dataset
        assert batch["l"].tolist() == [[1.0, 0.0], []]
    for column in ("l", "e"):
        with pytest.raises(NullValueError, match=f"row group 0, column `{column}`"):
            list(FastParquetDataset(tmp_path / "a.parquet", columns=[column]))


@pytest.mark.parametrize("shuffle", [False, True])
def test_tensors_without_dimensions(tmp_path, shuffle):
    kind = pa.fixed_shape_tensor(pa.float32(), [])
    values = pa.array([[float(k)] if k % 3 else None for k in range(100)], kind.storage_type)
    column = pa.ExtensionArray.from_storage(kind, values)
    table = pa.table({"x": np.arange(100, dtype=np.int8), "t": column, "y": np.arange(100)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=30)
    columns = {"t": Column("t", fill=-1), "x": "x", "y": "y"}
    with FastParquetDataset(
        tmp_path / "a.parquet", columns=columns, batch_size=7, shuffle=shuffle
    ) as dataset:
        assert dataset.schema["t"].shape == ()
        assert_same_rows(dataset, table, columns, ordered=not shuffle)


def test_rows_of_a_batch(paths):
    with FastParquetDataset(paths["none"], columns=["id", "e", "l", "ls"]) as dataset:
        first = next(next(iter(dataset)).iter_rows())
    table = pq.read_table(paths["none"], columns=["e", "l", "ls"]).slice(0, 1).to_pydict()
    assert first["e"].tolist() == table["e"][0]
    assert first["l"].tolist() == table["l"][0]
    assert first["ls"].tolist() == table["ls"][0]


@pytest.mark.parametrize("threads", [1, 4, 7])
def test_thread_counts_agree(paths, threads):
    options = {"batch_size": 100, "shuffle": True, "shuffle_window": 300}
    with FastParquetDataset(paths["none"], threads=0, **options) as dataset:
        first = list(dataset)
    with FastParquetDataset(paths["none"], threads=threads, **options) as dataset:
        assert_same_batches(dataset, first)


def test_images_as_hugging_face_writes_them(tmp_path):
    kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    images = [{"bytes": bytes([k]) * k * 100, "path": f"{k}.png"} for k in range(20)]
    table = pa.table({"image": pa.array(images, kind), "label": np.arange(20)})
    pq.write_table(table, tmp_path / "a.parquet")
    with FastParquetDataset(tmp_path / "a.parquet", batch_size=7) as dataset:
        batches = list(dataset)
    assert list(batches[0]) == ["image.bytes", "image.path", "label"]
    assert batches[1]["image.bytes"][0] == bytes([7]) * 700
    assert_same_rows(batches, table)


# Of each shape, the rows of a file without the field `f`, and those of a file with it.
POINT = pa.struct({"a": pa.int32(), "s": pa.string()})
FIELDS = {
    "number": (pa.int32(), 7),
    "float": (pa.float32(), 0.5),
    "string": (pa.string(), "word"),
    "list": (pa.list_(pa.int64()), [1, None, 2]),
    "list of strings": (pa.list_(pa.string()), ["a", "bc"]),
    "fixed list": (pa.list_(pa.float32(), 2), [1.5, 2.5]),
    "struct": (POINT, {"a": 1, "s": "x"}),
    "list of structs": (pa.list_(POINT), [{"a": 1, "s": "x"}, None]),
    "map": (pa.map_(pa.string(), pa.int16()), [("k", 3)]),
}


def lists_of(items):
    return [[items[0], items[1]], [], None, [items[2]], [None, items[0], items[0]]]


def around(kind, items):
    """Return columns that hold structs of a type, by the lists around them."""
    lists, pairs = lists_of(items), [[items[0], items[1]], None, [items[2], None]] * 2
    return {
        "list": pa.array(lists, pa.list_(kind)),
        "list of lists": pa.array(
            [lists, [], None, [None, lists[0]], [[]]], pa.list_(pa.list_(kind))
        ),
        "struct": pa.array([{"l": each} for each in lists], pa.struct({"l": pa.list_(kind)})),
        "map": pa.array(
            [None if each is None else [(str(k), v) for k, v in enumerate(each)] for each in lists],
            pa.map_(pa.string(), kind),
        ),
        "fixed": pa.array(pairs[:5], pa.list_(kind, 2)),
        "list of fixed": pa.array(
            [pairs, [], None, pairs[:1], [None]], pa.list_(pa.list_(kind, 2))
        ),
        "fixed of lists": pa.array(
            [[lists, None], None, [[], lists], [lists, lists], [[], []]],
            pa.list_(pa.list_(pa.list_(kind)), 2),
        ),
        "plain": pa.array([*items, None, items[0]], kind),
    }


def evolved(field, siblings):
    """Return a table without the field `f`, and one with it."""
    kind, value = FIELDS[field]
    old = [{name: made(k) for name, (_, made) in siblings.items()} for k in range(3)]
    new = [{**old[0], "f": value}, {**old[1], "f": None}, {**old[2], "f": value}]
    of_siblings = {name: kind for name, (kind, _) in siblings.items()}
    return [
        pa.table(around(pa.struct(fields), items))
        for fields, items in ((of_siblings, old), ({**of_siblings, "f": kind}, new))
    ]


SIBLINGS = {
    "number": {"a": (pa.int64(), lambda k: k)},
    "string": {"a": (pa.string(), "x".__mul__)},
    "list": {"a": (pa.list_(pa.int64()), lambda k: [[4, 5, 6], [], None][k])},
    "lists": {"a": (pa.list_(pa.list_(pa.string())), lambda k: [[["a", "b"], []], None, [[]]][k])},
    "null": {"a": (pa.int8(), lambda k: None)},
}


@pytest.mark.parametrize("siblings", SIBLINGS)
@pytest.mark.parametrize("field", FIELDS)
def test_a_field_of_structs_that_a_file_lacks(tmp_path, field, siblings):
    """A list of the field has as many nulls as structs, as pyarrow unifies the files."""
    old, new = evolved(field, SIBLINGS[siblings])
    old = pa.concat_tables([old] * 3)
    whole = pa.concat_tables([old, new], promote_options="permissive")
    pages = {"data_page_size": 1, "write_batch_size": 1}
    pq.write_table(old, tmp_path / "0.parquet", row_group_size=8, **pages)
    pq.write_table(new, tmp_path / "1.parquet")
    pq.write_table(whole, tmp_path / "whole.parquet")
    paths = [tmp_path / "0.parquet", tmp_path / "1.parquet"]
    columns = with_fill(StoredTables([tmp_path / "whole.parquet"]))
    with FastParquetDataset(paths, columns=columns, batch_size=13) as dataset:
        batches = list(dataset)
        assert_same_rows(batches, whole, columns)
        assert_same_rows([dataset.take([19, 0, 6, 14])], whole.take([19, 0, 6, 14]), columns)
    one = FastParquetDataset(tmp_path / "whole.parquet", columns=columns, batch_size=13)
    assert_same_batches(one, batches)
    with FastParquetDataset(paths, nulls="mask") as dataset:
        assert_same_rows(dataset, whole)


def test_nulls_of_a_field_that_a_file_lacks(tmp_path):
    """The nulls are those of stored rows: an error, or as `nulls` says; packed rows count them."""
    boxes = [[{"cls": 1}, {"cls": 2}]], [[{"cls": 4, "score": 0.5, "id": 7}]]
    for number, rows in enumerate(boxes):
        pq.write_table(pa.table({"boxes": rows}), tmp_path / f"{number}.parquet")
    (batch,) = FastParquetDataset(tmp_path, columns=["boxes.score"], nulls="nan")
    assert str(batch["boxes.score"].tolist()) == "[[nan, nan], [0.5]]"
    (batch,) = FastParquetDataset(tmp_path, columns=["boxes.score"], nulls="zero")
    assert batch["boxes.score"].tolist() == [[0.0, 0.0], [0.5]]
    for column, nulls in (("id", "raise"), ("id", "nan"), ("score", "raise")):
        place = rf"0\.parquet, row group 0, column `boxes.{column}`.*, row 0"
        with pytest.raises(NullValueError, match=place):
            list(FastParquetDataset(tmp_path, columns=[f"boxes.{column}"], nulls=nulls))
    columns = ["boxes.cls", "boxes.id"]
    pack = Pack("boxes.cls", 3, along=["boxes.id"])
    (packed,) = FastParquetDataset(tmp_path, columns=columns, nulls="zero", pack=pack)
    assert packed["boxes.cls"].tolist() == [[1, 2, 4]]
    assert packed["boxes.id"].tolist() == [[0, 0, 7]]


def test_lists_of_another_depth_around_a_field_that_a_file_lacks(tmp_path):
    rows = [[{"a": 1}]], [[[{"a": 1, "b": 2}]]]
    for number, stored in enumerate(rows):
        pq.write_table(pa.table({"l": stored}), tmp_path / f"{number}.parquet")
    message = (
        r"got 2 in .*1\.parquet and 1 in .*0\.parquet, which lacks the column - at column `l.b`"
    )
    with pytest.raises(SchemaError, match=message):
        FastParquetDataset(tmp_path, columns=["l.b"])
