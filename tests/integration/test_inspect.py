"""fastload-inspect: true of every file, from footers alone, and its advice helps."""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from fastload import FastParquetDataset
from fastload.errors import FastloadError
from fastload.tools.cli.inspect import main
from support.data_files import DIRECTORY
from support.stepped_dataset import until
from support.stored_dataset import FILES, ROWS, served, write_files
from support.stores import Fault

EVERY_FILE = sorted(
    path
    for path in chain(DIRECTORY.glob("parquet-testing/**/*"), DIRECTORY.glob("[rw]*/**/*.parquet"))
    if ".parquet" in path.name
)


def report_of(capsys, *arguments):
    assert main([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def text_of(capsys, *arguments):
    assert main([*map(str, arguments)]) == 0
    return capsys.readouterr().out


@pytest.mark.usefixtures("data_dir")
def test_every_file_is_told_of_or_refused_in_a_sentence(capsys):
    assert len(EVERY_FILE) > 60
    told = 0
    for path in EVERY_FILE:
        code = main([str(path)])
        captured = capsys.readouterr()
        if code == 2:
            assert captured.err.startswith("fastload-inspect: "), path
            assert path.name in captured.err
            with pytest.raises(FastloadError):
                FastParquetDataset(path)
        else:
            assert (code, captured.err) == (0, ""), path
            told += 1
            assert path.name in captured.out
        main([str(path), "--json"])
        capsys.readouterr()
    assert told > 60


def test_numbers_are_those_of_the_footers(tmp_path, capsys):
    paths = write_files(tmp_path)
    report = report_of(capsys, tmp_path)
    footers = [pq.read_metadata(path) for path in paths]
    groups = [f.row_group(g) for f in footers for g in range(f.num_row_groups)]
    assert report["files"] == report["files_seen"] == FILES
    assert report["rows"] == sum(f.num_rows for f in footers)
    assert report["row_groups"]["count"] == len(groups)
    assert report["row_groups"]["rows"]["most"] == max(g.num_rows for g in groups)
    assert list(report["schema"]) == list(FastParquetDataset(tmp_path).schema)
    for place, column in enumerate(report["columns"]):
        chunks = [group.column(place) for group in groups]
        assert column["name"] == chunks[0].path_in_schema
        assert column["chunks"] == len(chunks)
        assert column["stored_bytes"] == sum(c.total_compressed_size for c in chunks)
        assert column["codecs"] == {"none": len(chunks)}
        assert column["bounds"] == len(chunks)
        assert column["encodings"] == {
            "RLE_DICTIONARY" if column["name"] == "s" else "PLAIN": len(chunks)
        }


def test_schema_is_that_of_the_dataset(tmp_path, capsys):
    table = pa.table(
        {
            "n": pa.array([1, None, 3], pa.int32()),
            "l": pa.array([[1.0], [], [2.0, 3.0]], pa.list_(pa.float32())),
            "e": pa.array([[1.0, 2.0]] * 3, pa.list_(pa.float32(), 2)),
            "t": pa.array([0, 1, 2], pa.timestamp("us")),
            "s": ["a", "b", "c"],
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    lines = [line.split() for line in text_of(capsys, tmp_path / "a.parquet").splitlines()]
    for line in (
        "output tensor nulls lengths",
        "n int32 (B,) 1",
        "l list<float32> 0..2, median 1",
        "e float32 (B, 2)",
        "t int64 (B,) in us",
        "s str",
    ):
        assert line.split() in lines
    few = report_of(capsys, tmp_path / "a.parquet", "--columns", "e,s")
    assert list(few["schema"]) == ["e", "s"]
    assert [column["name"] for column in few["columns"]] == ["e", "s"]


def test_what_is_there_is_named(tmp_path, capsys):
    rng = np.random.default_rng(0)
    table = pa.table({"unique": rng.integers(0, 1 << 60, 300_000), "few": np.arange(300_000) % 7})
    path = tmp_path / "a.parquet"
    with_bloom = "bloom_filter_options" in inspect.signature(pq.write_table).parameters
    options = {"bloom_filter_options": {"few": True}} if with_bloom else {}
    pq.write_table(table, path, write_page_index=True, compression="gzip", **options)
    unique, few = report_of(capsys, path)["columns"]
    assert (unique["fallbacks"], few["fallbacks"]) == (1, 0)
    assert unique["dictionary_bytes"] > 500_000 > few["dictionary_bytes"] > 0
    assert unique["page_indexes"] == few["page_indexes"] == 1
    assert few["bloom_filters"] == with_bloom
    text = text_of(capsys, path, "--columns", "unique")
    assert "dictionary given up" in " ".join(text.split())
    # A pass takes some milliseconds, nearly all of which gzip costs.
    assert "The files are small, but their layout takes most of this time:" in text
    assert "hint: compressed with gzip: " in text
    pq.write_table(table, tmp_path / "b.parquet")
    text = text_of(capsys, tmp_path / "b.parquet")
    assert "The layout does not matter: the files are small enough." in text
    assert "hint: " not in text
    report = report_of(capsys, path, "--columns", "unique")
    assert [each["what"] for each in report["advice"]][:1] == ["compressed with gzip"]
    assert 'compression="zstd"' in report["rewrite"]
    assert 'use_dictionary=["few"]' in report["rewrite"]


def test_a_list_is_rewritten_without_its_dictionary(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    values = np.random.default_rng(0).integers(0, 1 << 60, 300_000)
    lists = pa.ListArray.from_arrays(np.arange(0, 300_001, 3, dtype=np.int32), values)
    pq.write_table(pa.table({"l": lists, "n": np.arange(100_000) % 9}), "a.parquet")
    exec(report_of(capsys, "a.parquet")["rewrite"], {})
    again = {column["name"]: column for column in report_of(capsys, "rewritten")["columns"]}
    assert (again["l"]["dictionaries"], again["n"]["dictionaries"]) == (0, 1)


@pytest.mark.parametrize("layout", ["file", "directory", "glob", "hive"])
def test_the_call_rewrites(tmp_path, monkeypatch, capsys, layout):
    monkeypatch.chdir(tmp_path)
    table = pa.table({f"c{i}": np.arange(60_000) * i for i in range(8)})
    (tmp_path / "data" / "k=1").mkdir(parents=True)
    place = "data/k=1/a.parquet" if layout == "hive" else "data/a.parquet"
    pq.write_table(table, tmp_path / place, row_group_size=500)
    source = {"file": "data/a.parquet", "glob": "data/*.parquet"}.get(layout, "data")
    report = report_of(capsys, source)
    first = report["advice"][0]
    assert first["what"] == "row groups of 500 rows (median)"
    assert first["share"] > 0.4
    assert first["saved_s"] == pytest.approx(0.99 * report["pass_cpu_s"]["chunks"], rel=0.02)
    exec(compile(report["rewrite"], "rewrite", "exec"), {})
    again = report_of(capsys, "rewritten")
    assert again["row_groups"]["rows"]["most"] == 60_000
    assert again["rewrite"] is None
    old, new = (
        pyarrow.dataset.dataset(directory, partitioning="hive").to_table()
        for directory in ("data", "rewritten")
    )
    assert new.equals(old)


def test_a_store_is_asked_for_footers_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(tmp_path / "cache"))
    directory = tmp_path / "files"
    directory.mkdir()
    paths = write_files(directory)
    with served(paths) as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        report = report_of(capsys, "gs://bucket/train/")
        assert sum(request.range is not None for request in server.requests) == FILES
        # Listings and footers: no file is fetched, whatever a request may be called.
        sent = sum(request.sent for request in server.requests)
        assert sent < sum(path.stat().st_size for path in paths) / 10
    assert report["rows"] == sum(ROWS + number for number in range(FILES))
    assert "requests" in " ".join(advice["cost"] for advice in report["advice"])
    local = report_of(capsys, directory)
    assert report["columns"] == local["columns"]
    assert report["schema"] == local["schema"]


def test_what_cannot_be_read_is_told(tmp_path, capsys):
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no footer")
    assert main([str(tmp_path / "broken.parquet")]) == 2
    assert "broken.parquet" in capsys.readouterr().err
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    assert main([str(tmp_path / "a.parquet"), "--columns", "b"]) == 2
    assert "got `b`; the columns are `a`" in capsys.readouterr().err
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), tmp_path / "empty.parquet")
    assert "nothing to decode" in text_of(capsys, tmp_path / "empty.parquet")


def test_ctrl_c_while_a_store_is_slow(tmp_path):
    paths = write_files(tmp_path)
    with served(paths) as server:
        server.fault = lambda request: Fault("stall")
        environment = {"STORAGE_EMULATOR_HOST": server.url, "FASTLOAD_CACHE_DIR": str(tmp_path)}
        with subprocess.Popen(
            [sys.executable, "-m", "fastload", "inspect", "gs://bucket/train/*.parquet"],
            env={**os.environ, **environment},
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as running:
            until(lambda: server.requests)
            running.send_signal(signal.SIGINT)
            _, err = running.communicate()
    assert (running.returncode, err) == (130, "fastload-inspect: interrupted\n")
