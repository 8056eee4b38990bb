"""`fastload.prepare`: the rows after `preprocess`, written once and read as any files."""

from __future__ import annotations

import datetime
import json
import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fastload
from fastload import FastParquetDataset, Pack, Ragged
from fastload.plan import parts
from support.every_output import of_every_kind, sums

ROWS = 3_000


def write(directory, rows=ROWS, files=3, group=70):
    directory.mkdir()
    for number in range(files):
        x = np.arange(rows // files) + number * (rows // files)
        table = pa.table(
            {
                "x": x,
                "s": [f"größe {k}" if k % 3 else "" for k in x.tolist()],
                "b": pa.array([bytes([k % 256]) * (k % 4) for k in x.tolist()], pa.binary()),
                "t": pa.array(x, pa.timestamp("us")),
                "d": [datetime.date(2020, 1, 1) + datetime.timedelta(int(k)) for k in x % 99],
                "n": pa.array([None if k % 5 == 0 else k for k in x.tolist()], pa.int16()),
                "ll": [[[int(k)] * (k % 3)] * (k % 2) for k in x.tolist()],
            }
        )
        pq.write_table(table, directory / f"{number}.parquet", row_group_size=group)
    return directory


@pytest.fixture
def source(tmp_path):
    return write(tmp_path / "source")


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(parts, "_PART_BYTES", 1 << 12)


def tokens_of(block):
    """Each row with an odd number becomes as many rows as its number has digits."""
    made = [n for n in block["x"].tolist() if n % 2 for _ in str(n)]
    lengths = torch.tensor([n % 7 + 1 for n in made], dtype=torch.int64)
    values = torch.repeat_interleave(torch.tensor(made, dtype=torch.int64), lengths)
    return {"tokens": Ragged(values, sums(lengths)), "of": np.array(made, np.int64)}


def assert_same(got, expected):
    for one, other in zip(got, expected, strict=True):
        assert list(one) == list(other)
        for name, value in other.items():
            if isinstance(value, Ragged):
                assert one[name] == value, name
            else:
                assert one[name].dtype == value.dtype, name
                assert torch.equal(one[name], value), name


def prepared(dataset, path, **options):
    return fastload.prepare(dataset, path, progress=False, **options)


def test_every_output_comes_back_as_it_was(source, tmp_path):
    columns = ["x", "s", "b", "t", "d", "ll"]
    dataset = FastParquetDataset(source, columns=columns, batch_size=256, preprocess=of_every_kind)
    path = prepared(dataset, tmp_path / "prepared")
    again = FastParquetDataset(path, batch_size=256)
    assert dict(again.schema) == dict(dataset.schema)
    assert_same(again, dataset)
    # Other programs read the rows, too.
    table = pq.read_table(path)
    assert table["bfloat16"].to_pylist() == [k % 9 for k in range(ROWS)]
    assert table["image"].type == pa.fixed_shape_tensor(pa.uint8(), (3, 4, 2))


@pytest.mark.parametrize(
    "options",
    [
        {"filters": [("x", ">", 200)]},
        {"split": (None, 0, 0.3)},
        {"nulls": "mask", "columns": ["x", "n"]},
        {"nulls": "zero", "columns": ["x", "n"], "filters": [("n", "<", 900)]},
    ],
)
def test_the_order_is_that_of_the_source(source, tmp_path, small_parts, options):
    """So the rows come in the same order with shuffle, on every rank."""
    options = {"columns": ["x", "s"], **options}
    order = {"batch_size": 64, "shuffle": True, "shuffle_window": 500, "seed": 3}
    double = lambda block: {"double": 2 * block["x"]}  # noqa: E731
    dataset = FastParquetDataset(source, **options, preprocess=double)
    path = prepared(dataset, tmp_path / "prepared")
    assert len(list(Path(path).glob("*.parquet"))) > 1
    for rank in range(2):
        ranks = {"rank": rank, "world_size": 2, **order}
        expected = FastParquetDataset(source, **options, **ranks, preprocess=double)
        assert_same(FastParquetDataset(path, **ranks), expected)


def test_order_options_and_augment_play_no_part(source, tmp_path):
    options = {"columns": ["x"], "limit": 10, "offset": 5, "rank": 1, "world_size": 2}
    dataset = FastParquetDataset(
        source, shuffle=True, augment=lambda batch, seeds: {"x": batch["x"] * 0}, **options
    )
    path = prepared(dataset, tmp_path / "prepared")
    assert pq.read_table(path)["x"].to_pylist() == list(range(ROWS))


def test_a_function_may_return_more_or_fewer_rows(source, tmp_path, small_parts):
    dataset = FastParquetDataset(source, columns=["x", "s"], preprocess=tokens_of)
    path = prepared(dataset, tmp_path / "prepared")
    expected = tokens_of({"x": np.arange(ROWS)})
    table = pq.read_table(path)
    assert table.column_names == ["tokens", "of"]
    assert table["tokens"].to_pylist() == expected["tokens"].tolist()
    assert table["of"].to_pylist() == expected["of"].tolist()
    rows = FastParquetDataset(path, pack=Pack("tokens", 64), batch_size=4, shuffle=True)
    packed = torch.cat([batch["tokens"][batch["tokens__document"] >= 0] for batch in rows])
    assert packed.sort().values.equal(expected["tokens"].values.sort().values)
    with pytest.raises(ValueError, match=r"Expected .* rows in output `tokens`"):
        list(dataset)  # without prepare the number of rows stays


def twice_at_first(block):
    """Twice the rows, but for blocks whose number of rows stays by chance."""
    times = 2 if block["x"][0] < 1_000 else 1
    return {"y": np.repeat(block["x"], times)}


def test_a_number_of_rows_that_stays_by_chance(source, tmp_path, small_parts):
    dataset = FastParquetDataset(source, columns=["x", "s"], preprocess=twice_at_first)
    table = pq.read_table(prepared(dataset, tmp_path / "prepared"))
    assert table.column_names == ["y"]
    assert sorted(set(table["y"].to_pylist())) == list(range(ROWS))
    assert ROWS < len(table) < 2 * ROWS

    def once_at_first(block):
        return {"y": np.repeat(block["x"], 3 - len(twice_at_first(block)["y"]) // len(block["x"]))}

    other = FastParquetDataset(source, columns=["x", "s"], preprocess=once_at_first)
    with pytest.raises(ValueError, match="return all outputs that it keeps"):
        prepared(other, tmp_path / "other")


def test_a_later_step_gets_the_rows_of_the_step_before(source, tmp_path):
    steps = [tokens_of, fastload.per_row(lambda n: n // 2, inputs=["of"], outputs=["half"])]
    dataset = FastParquetDataset(source, columns=["x"], preprocess=steps)
    table = pq.read_table(prepared(dataset, tmp_path / "prepared"))
    assert table["half"].to_pylist() == [n // 2 for n in table["of"].to_pylist()]


def test_it_goes_on_where_it_was(source, tmp_path, small_parts):
    path, calls, broken = tmp_path / "prepared", [], [True]

    def step(block):
        calls.append(len(block["x"]))
        if broken[0] and block["x"][0] > 2_000:
            raise RuntimeError("no more")
        return {"y": block["x"] + 1}

    def dataset(filters=None):
        return FastParquetDataset(source, columns=["x"], preprocess=step, filters=filters)

    fastload_step = dataset()
    with pytest.raises(RuntimeError, match="no more"):
        prepared(fastload_step, path)
    done = sorted(path.glob("*.parquet"))
    assert len(done) > 1
    with pytest.raises(fastload.UnsupportedTypeError, match="call it again"):
        FastParquetDataset(path)
    times = {file: file.stat().st_mtime_ns for file in done}
    broken[0], calls[:] = False, []
    # The step's code refers to a list whose content has changed.
    with pytest.raises(ValueError, match="prepared of others"):
        prepared(dataset(), path)
    broken[0] = True
    calls[:] = []
    with pytest.raises(RuntimeError, match="no more"):
        prepared(dataset(), path)
    assert {file: file.stat().st_mtime_ns for file in done} == times


def plus_one(block):
    return {"y": block["x"] + 1}


def slow_plus_one(block):
    time.sleep(0.02)
    return plus_one(block)


def prepare_slowly(source, path):
    dataset = FastParquetDataset(source, columns=["x"], preprocess=slow_plus_one)
    parts._PART_BYTES = 1 << 12
    prepared(dataset, path)


def test_after_kill_9_the_rest_is_written(source, tmp_path, small_parts):
    path = tmp_path / "prepared"
    for _ in range(3):
        child = multiprocessing.get_context("fork").Process(
            target=prepare_slowly, args=(source, path)
        )
        child.start()
        time.sleep(0.25)
        os.kill(child.pid, signal.SIGKILL)
        child.join()
    prepare_slowly(source, path)
    assert pq.read_table(path)["y"].to_pylist() == list(range(1, ROWS + 1))
    left = sorted(name for name in os.listdir(path) if not name.endswith(".parquet"))
    assert [name for name in left if not name.startswith(".new-")] == ["_prepared.json"]


def test_processes_share_the_work(source, tmp_path, small_parts):
    path = tmp_path / "prepared"
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=prepare_slowly, args=(source, path)) for _ in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join()
        assert child.exitcode == 0
    assert pq.read_table(path)["y"].to_pylist() == list(range(1, ROWS + 1))


def test_jobs(source, tmp_path, small_parts):
    dataset = FastParquetDataset(source, columns=["x"], preprocess=plus_one, threads=1)
    told = []
    path = fastload.prepare(
        dataset, tmp_path / "prepared", jobs=2, progress=lambda done, total: told.append(done)
    )
    assert pq.read_table(path)["y"].to_pylist() == list(range(1, ROWS + 1))
    assert told[-1] == ROWS


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_url(source, small_parts, tmp_path, jobs):
    """Any store that fsspec writes to; files of one machine are enough to see the whole way."""
    url = f"local://{tmp_path}/prepared"
    options = {"columns": ["x"], "storage_options": {"auto_mkdir": True}}
    dataset = FastParquetDataset(source, preprocess=plus_one, **options)
    assert prepared(dataset, url, jobs=jobs) == url
    table = pq.read_table(tmp_path / "prepared")
    assert table["y"].to_pylist() == list(range(1, ROWS + 1))
    assert prepared(dataset, url) == url
    other = FastParquetDataset(source, preprocess=slow_plus_one, **options)
    with pytest.raises(ValueError, match="prepared of others"):
        prepared(other, url)
    assert not list((tmp_path / "prepared").glob("_fastload_preparing/*"))


def test_a_url_without_a_filesystem(source):
    dataset = FastParquetDataset(source, columns=["x"])
    with pytest.raises(fastload.StorageError, match="Expected a filesystem that writes to nosuch"):
        prepared(dataset, "nosuch://bucket/prepared")


def test_other_folders_are_refused(source, tmp_path):
    dataset = FastParquetDataset(source, columns=["x"], preprocess=plus_one)
    with pytest.raises(ValueError, match="Expected an empty folder"):
        prepared(dataset, source)
    path = prepared(dataset, tmp_path / "prepared")
    assert prepared(dataset, path) == path
    other = FastParquetDataset(source, columns=["x"], preprocess=slow_plus_one)
    with pytest.raises(ValueError, match="prepared of others"):
        prepared(other, path)
    with pytest.raises(TypeError, match="Expected a FastParquetDataset"):
        prepared(fastload.mix({"a": dataset}), tmp_path / "mixed")
    with pytest.raises(ValueError, match="Expected jobs as an int"):
        prepared(dataset, tmp_path / "jobs", jobs=0)


def test_outputs_that_parquet_lacks_are_refused(source, tmp_path):
    none = FastParquetDataset(
        source, columns=["x"], preprocess=lambda b: {"e": np.zeros((len(b["x"]), 0))}
    )
    with pytest.raises(ValueError, match="Expected output `e` of a dtype and shape"):
        prepared(none, tmp_path / "none")


def test_without_rows(source, tmp_path):
    none = FastParquetDataset(source, columns=["x", "s"], filters=[("x", "<", 0)])
    again = FastParquetDataset(prepared(none, tmp_path / "none"))
    assert again.num_rows == 0
    assert dict(again.schema) == dict(none.schema)
    pq.write_table(pa.table({"x": pa.array([], pa.int64())}), tmp_path / "empty.parquet")
    empty = FastParquetDataset(tmp_path / "empty.parquet")
    assert list(FastParquetDataset(prepared(empty, tmp_path / "empty")).schema) == ["x"]
    stepped = FastParquetDataset(tmp_path / "empty.parquet", preprocess=plus_one)
    with pytest.raises(ValueError, match="Expected a dataset with rows, got one without"):
        prepared(stepped, tmp_path / "stepped")


def test_many_small_row_groups(tmp_path):
    path = write(tmp_path / "source", rows=20_000, files=2, group=10)
    start = time.monotonic()
    calls = []

    def count(block):
        calls.append(len(block["x"]))
        return {"y": block["x"]}

    found = prepared(FastParquetDataset(path, columns=["x"], preprocess=count), tmp_path / "out")
    assert len(list(Path(found).glob("*.parquet"))) == 1
    assert len(calls) < 20
    assert pq.read_metadata(Path(found) / "part-00000.parquet").num_row_groups == 2_000
    assert time.monotonic() - start < 60


def test_metadata_of_others_says_nothing(tmp_path):
    for text in (b"x", b"[]", b'{"columns": {"x": {"dtype": "int4", "unit": 3}}}', b"{}"):
        table = pa.table({"x": np.arange(3.0)}).replace_schema_metadata({b"fastload": text})
        pq.write_table(table, tmp_path / "a.parquet")
        field = FastParquetDataset(tmp_path / "a.parquet").schema["x"]
        assert (field.dtype, field.unit) == (torch.float64, None)
    said = json.dumps({"columns": {"x": {"unit": "ms"}}}).encode()
    table = pa.table({"x": np.arange(3)}).replace_schema_metadata({b"fastload": said})
    pq.write_table(table, tmp_path / "a.parquet")
    assert FastParquetDataset(tmp_path / "a.parquet").schema["x"].unit == "ms"


def test_threads_of_steps_end(source, tmp_path):
    step = fastload.per_row(lambda n: n + 1, inputs=["x"], outputs=["y"], threads=3)
    dataset = FastParquetDataset(source, columns=["x"], preprocess=step)
    path = prepared(dataset, tmp_path / "prepared")
    assert pq.read_table(path)["y"].to_pylist() == list(range(1, ROWS + 1))
    assert not [t for t in threading.enumerate() if t.name.startswith("fastload-steps")]
