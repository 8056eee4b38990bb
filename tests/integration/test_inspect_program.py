"""The program that fastload-inspect prints runs as printed, on every file."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from rich.cells import cell_len

from fastload.tools.cli.inspect import main
from fastload.tools.inspect.dataset_layout import DatasetLayout
from fastload.tools.inspect.program import program
from fastload.tools.inspect.report import report_of
from fastload.tools.inspect.text import parts_of
from support.data_files import DIRECTORY
from support.stored_dataset import write_files

REAL = sorted(
    path
    for folder in ("real", "writers")
    for path in (DIRECTORY / folder).glob("**/*.parquet")
    # Keys and damage are for other tests.
    if "broken" not in path.parts and ".enc." not in path.name
)


def printed_program(capsys, *arguments):
    """Return the program at the end of the output."""
    assert main([*map(str, arguments)]) == 0
    out = capsys.readouterr().out
    return out[out.rindex("\nfrom fastload import ") + 1 :]


def run(code, capsys):
    names = {}
    exec(compile(code, "program", "exec"), names)
    assert "Batch of " in capsys.readouterr().out
    return names["dataset"]


@pytest.mark.usefixtures("data_dir")
@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_the_program_reads_every_file(path, capsys):
    with run(printed_program(capsys, path), capsys) as dataset:
        assert sum(batch.rows for batch in dataset) == pq.read_metadata(path).num_rows


def test_files_to_test_are_there(data_dir):
    assert len(REAL) > 10


def columns():
    """Columns of each kind, with and without nulls."""
    random = np.random.default_rng(0)
    whole = random.integers(0, 99, 300)
    holes = random.random(300) < 0.2
    floats = random.random(300, np.float32)
    words = [f"w{n}" for n in whole]
    lists = [[1, 2, 3][: n % 4] for n in whole]
    fixed = [[0.5, float(n)] for n in whole]

    def masked(values):
        return [None if hole else value for value, hole in zip(values, holes, strict=True)]

    return {
        "label": pa.array(whole % 2, pa.int8()),
        "small": pa.array(whole, pa.uint8()),
        "wide": pa.array(whole, pa.uint32()),
        "big": pa.array(masked(whole.tolist()), pa.uint64()),
        "count": pa.array(masked(whole.tolist()), pa.int32()),
        "flag": pa.array(masked((whole % 2 == 0).tolist())),
        "price": pa.array(masked(floats.tolist()), pa.float32()),
        "word": pa.array(masked(words)),
        "raw": pa.array(masked([word.encode() for word in words])),
        "day": pa.array(masked(whole.tolist()), pa.date32()),
        "seen": pa.array(masked(whole.tolist()), pa.timestamp("us")),
        "cost": pa.array(masked(whole.tolist()), pa.decimal128(9, 2)),
        "items": pa.array(masked(lists), pa.list_(pa.int32())),
        "tags": pa.array([[str(k) for k in each] for each in lists]),
        "vector": pa.array(fixed, pa.list_(pa.float32())),
        "holed vector": pa.array(masked(fixed), pa.list_(pa.float32())),
        "user": pa.array(masked([{"id": int(n), "name": f"u{n}"} for n in whole])),
        "pairs": pa.array([[(f"k{n}", int(n))] for n in whole], pa.map_(pa.string(), pa.int64())),
        "nothing": pa.nulls(300),
        'odd "name"\\': pa.array(masked(whole.tolist())),
    }


def test_the_program_fills_casts_and_fixes(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table(columns()), "a.parquet", row_group_size=100)
    code = printed_program(capsys, "a.parquet")
    with run(code, capsys) as dataset:
        schema = dataset.schema
        batches = list(dataset)
    assert sum(batch.rows for batch in batches) == 300
    assert schema["label"].dtype == schema["wide"].dtype == torch.int64
    assert schema["small"].dtype == torch.uint8
    assert schema["vector"].shape == (2,)
    assert schema["items"].ragged
    assert 'Column("count", fill=0),' in code
    assert re.search(r'"word": Column\("word", fill=""\),  # \d+ nulls', code)
    assert 'pack=Pack("items", length)' in code
    assert 'Pad("items", 3) for a tensor (B, 3)' in code
    assert set(schema) == set(DatasetLayout.of("a.parquet").fields)


@pytest.mark.parametrize("name", columns())
def test_the_program_reads_each_kind_by_itself(tmp_path, capsys, name):
    path = tmp_path / "a.parquet"
    for statistics in (True, False):
        pq.write_table(pa.table({name: columns()[name]}), path, write_statistics=statistics)
        with run(printed_program(capsys, path), capsys) as dataset:
            assert sum(batch.rows for batch in dataset) == 300


def test_the_program_reads_several_files_and_chosen_columns(tmp_path, capsys):
    write_files(tmp_path)
    with run(printed_program(capsys, tmp_path), capsys) as dataset:
        everything = list(dataset.schema)
    chosen = everything[:2][::-1]
    arguments = (f"{tmp_path}/*.parquet", "--columns", ",".join(chosen))
    with run(printed_program(capsys, *arguments), capsys) as dataset:
        assert set(dataset.schema) == set(chosen)


def test_lists_that_only_begin_alike_are_no_tensor(tmp_path):
    rows = [[1.0, 2.0]] * 100 + [[1.0], [1.0, 2.0, 3.0], *[[1.0, 2.0]] * 97, [1.0]]
    pq.write_table(pa.table({"v": rows}), tmp_path / "a.parquet", row_group_size=100)
    assert "Fixed" not in program(DatasetLayout.of(tmp_path / "a.parquet"), "a.parquet")


def test_a_file_without_columns_to_read_has_no_program(tmp_path):
    layout = DatasetLayout.of(write_files(tmp_path)[0])
    assert program(layout, "a") is not None
    for name in list(layout.fields):
        del layout.fields[name]
    assert program(layout, "a") is None


def test_tables_fit_eighty_columns(tmp_path, capsys):
    for index, rows in enumerate((1000, 400)):
        numbers = {f"a_rather_long_name_of_a_column_{j}": np.arange(rows) for j in range(3)}
        pq.write_table(pa.table(numbers), tmp_path / f"part-{index}.parquet", row_group_size=250)
    report = report_of(DatasetLayout.of(tmp_path), str(tmp_path))
    assert main([str(tmp_path)]) == 0
    out = capsys.readouterr().out
    lines = out[: out.index("A pass takes")].splitlines()
    tables = [line for line in lines if str(tmp_path) not in line and "written by" not in line]
    assert max(map(cell_len, tables)) <= 80
    found = out.splitlines()
    for start, end in (
        ("part-0.parquet  ████▌████▌████▌█████ ", "4 row groups of 250 rows"),
        ("part-1.parquet  ████▌███ ", "2 row groups of 150 to 250 rows"),
    ):
        assert any(line.startswith(start) and line.endswith(end) for line in found)
    assert re.search(r"A pass takes about [\d.]+ us of CPU time", out)
    assert list(parts_of(report))


def test_columns_without_values_are_left_out(tmp_path, capsys):
    table = {"x": [1.5, None], "none": pa.nulls(2, pa.float64()), "tokens": [[1], [2, 3]]}
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    code = printed_program(capsys, tmp_path / "a.parquet")
    assert 'exclude=["none"],  # without values' in code
    with run(code, capsys) as dataset:
        assert set(dataset.schema) == {"x", "tokens"}
        assert not next(iter(dataset))["x"].isnan().any()
