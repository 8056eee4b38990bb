"""What the features of Hugging Face datasets say about columns."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from fastload import Codes, Column, CorruptFileError, FastParquetDataset, Fixed, Pad, Ragged, Stack
from fastload.schema.hub_features import Feature, common_names, features_of
from fastload.source.source import Source

LABEL = {"names": ["cat", "dog"], "_type": "ClassLabel"}


def write(path, table, features, **options):
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    rows = options.pop("row_group_size", None)
    with pq.ParquetWriter(path, table.schema, **options) as writer:
        writer.add_key_value_metadata(metadata)
        writer.write_table(table, rows)
    return str(path)


def array(*shape, dtype="int64"):
    return {"shape": shape, "dtype": dtype, "_type": f"Array{len(shape)}D"}


def nested(values, levels, kind=None):
    for _ in range(levels):
        kind = pa.list_(kind or pa.int64())
    return pa.array([None if value is None else value.tolist() for value in values], kind)


def read(path, **options):
    with FastParquetDataset(path, batch_size=7, **options) as dataset:
        batches = list(dataset)
        return dataset.schema, batches


def test_names_of_labels(tmp_path):
    table = pa.table(
        {
            "label": [0, 1, -1],
            "tags": [[0, 1], [], [1]],
            "s": pa.array([{"a": 1}, {"a": 0}, {"a": 1}]),
            "x": [1, 2, 3],
        }
    )
    features = {
        "label": LABEL,
        "tags": {"feature": LABEL, "_type": "List"},
        "s": {"a": LABEL},
        "x": {"dtype": "int64", "_type": "Value"},
    }
    path = write(tmp_path / "a.parquet", table, features)
    schema, _ = read(path)
    assert {name: entry.names for name, entry in schema.items()} == {
        "label": ("cat", "dog"),
        "tags": ("cat", "dog"),
        "s.a": ("cat", "dog"),
        "x": (),
    }
    assert "(B,)           2 labels: cat, dog\n" in repr(schema)
    assert "2 labels: cat, dog" in schema._repr_html_()


def test_names_stay_with_numbers_of_classes_alone(tmp_path):
    table = pa.table({"label": [0, 1], "other": [1, 0], "tags": [[0], [1]]})
    path = write(tmp_path / "a.parquet", table, {"label": LABEL, "other": LABEL, "tags": [LABEL]})
    columns = {
        "int32": Column("label", dtype=torch.int32),
        "float": Column("label", dtype=torch.float32),
        "codes": Codes("label", [1, 0]),
        "stack": Stack(["label", "other"]),
        "pad": Pad("tags", 3),
        "fixed": Fixed("tags", 1),
    }
    schema, _ = read(path, columns=columns)
    named = {name for name, entry in schema.items() if entry.names}
    assert named == {"int32", "pad", "fixed"}


def test_many_names_are_cut_in_print(tmp_path):
    label = {"names": [f"class {n}" for n in range(1000)], "_type": "ClassLabel"}
    path = write(tmp_path / "a.parquet", pa.table({"label": [0]}), {"label": label})
    schema, _ = read(path)
    assert repr(schema).endswith("1,000 labels: class 0, class 1, class 2, class 3, ...")
    assert len(schema["label"].names) == 1000


def test_steps_keep_the_names_of_what_they_leave(tmp_path):
    path = write(tmp_path / "a.parquet", pa.table({"label": [0, 1], "x": [1, 2]}), {"label": LABEL})

    def step(block):
        return {"x": block["x"] + 1}

    schema, _ = read(path, preprocess=step)
    assert schema["label"].names == ("cat", "dog")
    with FastParquetDataset(path, preprocess=step, cache=tmp_path / "cache") as dataset:
        for _ in range(3):
            assert [batch["label"].tolist() for batch in dataset] == [[0, 1]]
        assert dataset.schema["label"].names == ("cat", "dog")


@pytest.mark.parametrize("first", [None, ["cat"], ["cat", "dog"]])
def test_files_with_fewer_names(tmp_path, first):
    features = {} if first is None else {"label": {**LABEL, "names": first}}
    # Another column, so that the files' schemas differ.
    write(tmp_path / "a.parquet", pa.table({"label": [0], "x": [1]}), features)
    write(tmp_path / "b.parquet", pa.table({"label": [1]}), {"label": LABEL})
    schema, _ = read(str(tmp_path), nulls="zero")
    assert schema["label"].names == ("cat", "dog")


def test_files_with_other_names(tmp_path):
    write(tmp_path / "a.parquet", pa.table({"label": [0], "x": [1]}), {"label": LABEL})
    other = {"label": {**LABEL, "names": ["dog", "cat"]}}
    write(tmp_path / "b.parquet", pa.table({"label": [1]}), other)
    with pytest.warns(UserWarning, match=r"one class differently.* - at .*, column `label`"):
        schema, batches = read(str(tmp_path), nulls="zero")
    assert schema["label"].names == ()
    assert batches[0]["label"].tolist() == [0, 1]


@pytest.mark.parametrize(
    "shape", [(2, 3), (3, 2), (1, 1), (2, 3, 4), (2, 1, 2, 2), (1, 2, 1, 2, 2)]
)
@pytest.mark.parametrize("options", [{}, {"store_schema": False, "compression": "none"}])
def test_arrays_of_fixed_shapes(tmp_path, shape, options):
    random = np.random.default_rng(0)
    values = random.integers(-99, 99, (50, *shape))
    table = pa.table({"a": nested(values, len(shape)), "x": range(50)})
    path = write(tmp_path / "a.parquet", table, {"a": array(*shape)}, row_group_size=11, **options)
    schema, batches = read(path)
    assert schema["a"].shape == shape
    assert not schema["a"].ragged
    assert np.array_equal(torch.cat([batch["a"] for batch in batches]).numpy(), values)
    _, batches = read(path, shuffle=True, seed=3)
    for batch in batches:
        assert np.array_equal(batch["a"].numpy(), values[batch["x"].numpy()])
    _, batches = read(path, filters=[("x", ">", 30)])
    assert np.array_equal(torch.cat([batch["a"] for batch in batches]).numpy(), values[31:])


def test_arrays_in_structs_and_lists(tmp_path):
    values = np.arange(24).reshape(4, 6)
    structs = pa.array([{"a": value.reshape(2, 3).tolist()} for value in values])
    lists = pa.array([[value.reshape(3, 2).tolist()] * n for n, value in enumerate(values)])
    features = {"s": {"a": array(2, 3)}, "l": {"feature": array(3, 2), "_type": "Sequence"}}
    path = write(tmp_path / "a.parquet", pa.table({"s": structs, "l": lists}), features)
    schema, (batch,) = read(path)
    assert np.array_equal(batch["s.a"].numpy(), values.reshape(4, 2, 3))
    assert (schema["l"].shape, schema["l"].depth) == ((3, 2), 1)
    assert isinstance(batch["l"], Ragged)
    assert [row.tolist() for row in batch["l"]] == lists.to_pylist()


def test_lists_of_a_fixed_length(tmp_path):
    features = {"a": {"feature": {"_type": "Value"}, "length": 2, "_type": "Sequence"}}
    table = pa.table({"a": [[1, 2], [3, 4]]})
    schema, (batch,) = read(write(tmp_path / "a.parquet", table, features))
    assert schema["a"].shape == (2,)
    assert batch["a"].tolist() == [[1, 2], [3, 4]]


def test_a_first_dimension_that_varies(tmp_path):
    values = [np.arange(3 * n).reshape(n, 3) for n in (2, 1, 4)]
    path = write(tmp_path / "a.parquet", pa.table({"a": nested(values, 2)}), {"a": array(None, 3)})
    schema, (batch,) = read(path)
    assert (schema["a"].shape, schema["a"].depth) == ((3,), 1)
    assert [row.tolist() for row in batch["a"]] == [value.tolist() for value in values]


def test_nulls_in_arrays(tmp_path):
    values = [np.arange(6).reshape(2, 3), None]
    path = write(tmp_path / "a.parquet", pa.table({"a": nested(values, 2)}), {"a": array(2, 3)})
    _, (batch,) = read(path, nulls="mask")
    assert batch["a"].tolist() == [[[0, 1, 2], [3, 4, 5]], [[0, 0, 0], [0, 0, 0]]]
    assert batch["a__valid"].tolist() == [True, False]


@pytest.mark.parametrize("values", [[[1, 2, 3]], [[1, 2], [3, 4], [5, 6]], []])
def test_arrays_of_another_shape_are_refused(tmp_path, values):
    table = pa.table({"a": pa.array([[[1, 2], [3, 4]], values], pa.list_(pa.list_(pa.int64())))})
    path = write(tmp_path / "a.parquet", table, {"a": array(2, 2)})
    with pytest.raises(CorruptFileError, match="column `a`"):
        read(path)


def test_files_of_other_shapes_give_lists(tmp_path):
    for name, shape in (("a", (2, 3)), ("b", (3, 3))):
        values = np.zeros((2, *shape), int)
        table = pa.table({"a": nested(values, 2), f"only {name}": [1, 2]})
        write(tmp_path / f"{name}.parquet", table, {"a": array(*shape)})
    schema, (batch,) = read(str(tmp_path), columns=["a"])
    assert (schema["a"].shape, schema["a"].depth) == ((3,), 1)
    assert [len(row) for row in batch["a"]] == [2, 2, 3, 3]


@pytest.mark.parametrize(
    "metadata",
    [
        "",
        "{",
        "[]",
        "null",
        '{"info": 1}',
        '{"info": {"features": []}}',
        '{"info": {"features": {"a": 1}}}',
        '{"info": {"features": {"a": []}}}',
        '{"info": {"features": {"a": {"_type": "ClassLabel", "names": 1}}}}',
        '{"info": {"features": {"a": {"_type": "ClassLabel", "names": [1]}}}}',
        '{"info": {"features": {"a": {"_type": "ClassLabel"}}}}',
        '{"info": {"features": {"a": {"_type": "Array2D", "shape": 3}}}}',
        '{"info": {"features": {"a": {"_type": "Array2D", "shape": [-1, true]}}}}',
        '{"info": {"features": {"a": {"_type": "List"}}}}',
        '{"info": {"features": {"a": ' + '{"_type": "List", "feature": ' * 500 + "1" + "}" * 503,
        "[" * 100_000,
        "\ud800".encode("utf-8", "surrogatepass"),
    ],
    ids=range(17),
)
def test_metadata_of_others_is_left_alone(tmp_path, metadata):
    table = pa.table({"a": [[[1]], [[2], [3]]]}).replace_schema_metadata({"huggingface": metadata})
    path = str(tmp_path / "a.parquet")
    pq.write_table(table, path)
    schema, _ = read(path)
    assert schema["a"].ragged
    assert schema["a"].names == ()
    assert features_of(Source.open(path).files[0].footer) == {}


def test_sizes_that_contradict_the_schema_are_left_alone():
    assert Feature(sizes=(3,)).fixed_sizes((2,)) == (2,)
    assert Feature(sizes=(3, 2)).fixed_sizes((0,)) == (0,)
    assert Feature(sizes=(0, 2)).fixed_sizes((4, 0)) == (4, 2)


def test_common_names():
    assert common_names([(), ("a",), ("a", "b")]) == ("a", "b")
    assert common_names([]) == ()
    assert common_names([("a",), ("b", "a")]) is None


def test_as_the_library_writes_them(tmp_path):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {
            "label": datasets.ClassLabel(names=["cat", "dog"]),
            "tags": datasets.Sequence(datasets.ClassLabel(names=["a", "b"])),
            "pair": datasets.Sequence(datasets.Value("float32"), length=2),
            "mask": datasets.Array2D((2, 3), "uint8"),
            "frames": datasets.Array3D((None, 2, 2), "float32"),
            "s": {"x": datasets.ClassLabel(names=["u", "v"])},
            "image": datasets.Image(),
        }
    )
    rows = {
        "label": [0, 1, -1],
        "tags": [[0], [1, 0], []],
        "pair": [[1, 2], [3, 4], [5, 6]],
        "mask": [np.arange(6).reshape(2, 3) + n for n in range(3)],
        "frames": [np.ones((n, 2, 2), np.float32) for n in (1, 2, 3)],
        "s": [{"x": 0}, {"x": 1}, {"x": 0}],
        "image": [{"bytes": b"png", "path": None}] * 3,
    }
    path = str(tmp_path / "a.parquet")
    datasets.disable_progress_bars()
    datasets.Dataset.from_dict(rows, features=features).to_parquet(path)
    schema, (batch,) = read(path, nulls="zero")
    assert {name: entry.names for name, entry in schema.items() if entry.names} == {
        "label": ("cat", "dog"),
        "tags": ("a", "b"),
        "s.x": ("u", "v"),
    }
    assert batch["mask"].dtype == torch.uint8
    assert np.array_equal(batch["mask"].numpy(), np.stack(rows["mask"]))
    assert batch["pair"].tolist() == rows["pair"]
    assert [row.tolist() for row in batch["frames"]] == [row.tolist() for row in rows["frames"]]
    assert list(batch["image.bytes"]) == [b"png"] * 3
    assert schema["image.path"].kind == "str"
