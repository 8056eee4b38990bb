"""fastload-cache: what it has warmed is what a dataset then finds."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from fastload import Cache, CacheError, Column, FastParquetDataset, Stack
from fastload.plan import parts
from fastload.runtime.disk.cache import PREPARED, RAW
from fastload.runtime.disk.entries import entries_of
from fastload.tools.cli.cache import main
from fastload.tools.cli.warm_jobs import Description, warm_jobs
from support.session import Session
from support.stored_dataset import FILES, GROUP_ROWS, ROWS

URL = "gs://bucket/train/*.parquet"
ALL_ROWS = sum(ROWS + number for number in range(FILES))


@pytest.fixture(autouse=True)
def endpoint(shared_server, monkeypatch):
    """The commands find the server by the environment alone."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", shared_server.url)


def data_requests(server):
    return sum(request.range is not None for request in server.requests)


def called(capsys, *arguments):
    code = main([*map(str, arguments), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_warm_then_nothing_is_asked_for(server, tmp_path, capsys):
    columns = ["c3", "s"]
    where = ("--columns", "c3,s", "--cache-dir", tmp_path)
    for rank in range(2):
        shares = ("--rank", rank, "--world-size", 2)
        code, result = called(capsys, "warm", URL, *where, *shares, "--quiet")
        assert (code, result["warmed"]["files"]) == (0, FILES)
        assert abs(result["warmed"]["rows"] - ALL_ROWS / 2) <= 1
    server.reset()
    assert called(capsys, "warm", URL, *where, "--quiet")[1]["warmed"]["rows"] == ALL_ROWS
    for options in ({"shuffle": True, "shuffle_window": 2000}, {"batch_size": 1}):
        with FastParquetDataset(URL, columns=columns, cache=tmp_path, **options) as dataset:
            assert sum(1 for _ in dataset) > 0
    assert data_requests(server) == 0


def test_warm_with_filters_and_jobs(server, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(tmp_path / "one"))
    where = ("--columns", "c3,s", "--cache-dir", tmp_path / "cache")
    conditions = ("--filters", '[["day", "<", 300], ["s", "in", ["word 5", "word 7"]]]')
    code, result = called(capsys, "warm", URL, *where, *conditions, "--jobs", 2, "--quiet")
    assert code == 0
    assert result["warmed"]["rows"] > 0
    server.reset()
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(tmp_path / "other"))
    filters = [("day", "<", 300), ("s", "in", ["word 5", "word 7"])]
    with FastParquetDataset(
        URL, columns=["c3", "s"], filters=filters, cache=tmp_path / "cache", shuffle=True
    ) as dataset:
        assert sum(len(batch["c3"]) for batch in dataset) == result["warmed"]["rows"]
    assert data_requests(server) == 0


def doubled(block):
    block["c3"] = block["c3"] * 2
    return block


def kept(block):
    return block


KEPT = ("--preprocess", f"{__name__}:kept")


def test_warm_what_preprocess_makes(server, tmp_path, capsys):
    where = ("--columns", "c3,s", "--cache-dir", tmp_path)
    steps = ("--preprocess", f"{__name__}:doubled")
    code, result = called(capsys, "warm", URL, *where, *steps, "--quiet")
    assert (code, result["warmed"]["rows"]) == (0, ALL_ROWS)
    server.reset()
    options = {"columns": ["c3", "s"], "batch_size": 500}
    with FastParquetDataset(URL, **options) as plain:
        expected = torch.cat([batch["c3"] for batch in plain]) * 2
    server.reset()
    with FastParquetDataset(URL, **options, preprocess=doubled, cache=tmp_path) as dataset:
        assert torch.equal(torch.cat([batch["c3"] for batch in dataset]), expected)
    assert data_requests(server) == 0


COLUMNS = {"n": Column("n", torch.float32, fill=-1), "row": Stack(["a", "b"])}


def test_warm_columns_as_a_program_describes_them(tmp_path, capsys):
    path, rows = tmp_path / "a.parquet", 3000
    numbers = pa.array([None if n % 7 == 0 else n for n in range(rows)], pa.int64())
    pq.write_table(pa.table({"n": numbers, "a": range(rows), "b": range(rows)}), path)
    where = ("--cache-dir", tmp_path / "cache", "--quiet")
    assert main(["warm", str(path), "--columns", "n", *map(str, where)]) == 2
    assert "null" in capsys.readouterr().err
    assert not list(entries_of(tmp_path / "cache" / PREPARED))
    described = ("--columns-from", f"{__name__}:COLUMNS", "--batch-size", 100, *KEPT)
    code, result = called(capsys, "warm", path, *described, *where)
    assert (code, result["warmed"]["rows"]) == (0, rows)
    there = list(entries_of(tmp_path / "cache" / PREPARED))
    options = {"columns": COLUMNS, "preprocess": kept, "cache": tmp_path / "cache"}
    with FastParquetDataset(path, **options) as dataset:
        found = torch.cat([batch["n"] for batch in dataset])
    assert list(entries_of(tmp_path / "cache" / PREPARED)) == there
    assert torch.equal(found, torch.tensor(numbers.fill_null(-1).to_pylist(), dtype=torch.float32))
    assert main(["warm", str(path), "--columns-from", "torch:no", *map(str, where)]) == 2
    assert "Expected columns at torch:no, found no `no` in torch" in capsys.readouterr().err


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(("nulls", "value"), [("nan", None), ("zero", 0.0), ("mask", 0.0)])
def test_warm_with_a_rule_for_nulls(tmp_path, capsys, nulls, value, jobs):
    path, rows = tmp_path / "a.parquet", 3000
    numbers = pa.array([None if n % 7 == 0 else n / 2 for n in range(rows)], pa.float32())
    pq.write_table(pa.table({"n": numbers}), path)
    warm = ["warm", path, "--cache-dir", tmp_path / "cache", "--quiet", "--jobs", jobs, *KEPT]
    for rule in ([], ["--nulls", "raise"]):
        assert main([*map(str, warm), *rule]) == 2
        assert "fastload-cache: Expected no nulls, got 429 (" in capsys.readouterr().err
    assert not list(entries_of(tmp_path / "cache" / PREPARED))
    code, result = called(capsys, *warm, "--nulls", nulls)
    assert (code, result["warmed"]["rows"]) == (0, rows)
    there = list(entries_of(tmp_path / "cache" / PREPARED))
    assert there
    options = {"nulls": nulls, "preprocess": kept, "cache": tmp_path / "cache"}
    with FastParquetDataset(path, **options) as dataset:
        batches = list(dataset)
    assert list(entries_of(tmp_path / "cache" / PREPARED)) == there
    found = torch.cat([batch["n"] for batch in batches])
    expected = numbers.fill_null(float("nan") if value is None else value).to_pylist()
    assert torch.equal(found.nan_to_num(nan=-1), torch.tensor(expected).nan_to_num(nan=-1))
    assert ("n__valid" in batches[0]) == (nulls == "mask")


def test_warm_knows_the_rules_for_nulls(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["warm", str(tmp_path), "--cache-dir", str(tmp_path / "cache"), "--nulls", "drop"])
    assert "invalid choice: 'drop'" in capsys.readouterr().err


COMMAND = """
import sys
from fastload.tools.cli.cache import main

main(sys.argv[1:])
"""


def run_main(arguments, environment):
    os.environ.update(environment)
    sys.exit(main(arguments))


def test_a_killed_warm_goes_on(server, tmp_path, capsys):
    server.latency_s = 0.05
    run = ["warm", URL, "--cache-dir", str(tmp_path)]
    # A process of the fork server need not import torch; the server's environment is older.
    warming = multiprocessing.get_context("forkserver").Process(
        target=run_main, args=(run, dict(os.environ))
    )
    warming.start()
    deadline = time.monotonic() + 60
    while len(list(entries_of(tmp_path / RAW))) < 6 and time.monotonic() < deadline:
        time.sleep(0.005)
    warming.kill()
    warming.join()
    assert warming.exitcode == -signal.SIGKILL
    there = {(entry.object, entry.name) for entry in entries_of(tmp_path / RAW)}
    assert len(there) >= 6
    server.latency_s = 0.0
    server.reset()
    assert main(run) == 0
    found = capsys.readouterr()
    assert f"{ALL_ROWS / 1e3:.1f} k rows in " in found.err
    assert found.out == f"{ALL_ROWS:,} rows of {FILES} files in the cache\n"
    asked = [r.range for r in server.requests if r.range is not None]
    now = {(entry.object, entry.name) for entry in entries_of(tmp_path / RAW)}
    assert len(asked) <= len(now - there) + 1
    assert there <= now


def test_a_killed_warm_leaves_no_process(server, tmp_path):
    server.latency_s = 0.3
    run = ["warm", URL, "--cache-dir", str(tmp_path), "--jobs", "2", "--quiet"]
    with Session([sys.executable, "-c", COMMAND, *run]) as session:
        deadline = time.monotonic() + 60
        while len(list(entries_of(tmp_path / RAW))) < 2 and time.monotonic() < deadline:
            time.sleep(0.005)
        # The command, multiprocessing's tracker, the fork server, and the jobs.
        assert len(session.living()) == 5
        session.process.kill()
        assert session.left() == []


def test_the_other_commands(server, tmp_path, capsys):
    where = ("--cache-dir", tmp_path)
    assert main(["ls", "--cache-dir", str(tmp_path)]) == 2
    assert "Expected a cache, found none" in capsys.readouterr().err
    with FastParquetDataset(URL, columns=["c3"], cache=tmp_path) as dataset:
        dataset.warm_cache(progress=False)
    code, found = called(capsys, "ls", *where)
    assert code == 0
    urls = [file["url"] for file in found["files"]]
    assert sorted(urls) == [f"gs://bucket/train/part-{i}.parquet" for i in range(FILES)]
    # A footer, and the column of each row group.
    assert {file["entries"] for file in found["files"]} <= {
        -(-ROWS // GROUP_ROWS) + i for i in (1, 2)
    }
    assert called(capsys, "verify", *where, "--quiet")[1]["damaged"] == []
    entry = max(entries_of(tmp_path / RAW), key=lambda each: each.disk_bytes)
    data = bytearray(Path(entry.path).read_bytes())
    data[-1] ^= 4
    Path(entry.path).write_bytes(data)
    code, checked = called(capsys, "verify", *where, "--quiet")
    assert code == 1
    assert [(d["start"], d["stop"]) for d in checked["damaged"]] == [entry.range]
    assert called(capsys, "verify", *where, "--quiet")[0] == 0
    code, pruned = called(capsys, "prune", *where, "--max-bytes", found["bytes"] // 2)
    assert code == 0
    assert pruned["bytes"] <= found["bytes"] // 2
    assert main(["ls", "--cache-dir", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.split()[:5] == ["file", "tier", "entries", "size", "last"]
    assert "just now" in out
    assert f" on disk with directories and descriptions, in {tmp_path}" in out.splitlines()[-1]
    code, cleared = called(capsys, "clear", *where)
    assert cleared["removed"] > 0
    assert not list(entries_of(tmp_path / RAW))


def test_entries_in_use_stay_and_are_counted(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(parts, "_PART_BYTES", 800)
    pq.write_table(pa.table({"x": range(1000)}), tmp_path / "x.parquet", row_group_size=100)
    directory = tmp_path / "cache"
    where = ["--cache-dir", str(directory)]
    with FastParquetDataset(
        tmp_path / "x.parquet", preprocess=kept, cache=directory, shuffle=True
    ) as dataset:
        dataset.warm_cache(progress=False)
        batches = iter(dataset)
        next(batches)
        assert main(["prune", "--max-bytes", "1kB", *where]) == 0
        said = capsys.readouterr().out.splitlines()
        assert said[0].startswith("removed 0 entries; ")
        assert said[1:] == ["10 entries not removed: running processes have them in use"]
        assert main(["clear", "--yes", *where]) == 0
        assert capsys.readouterr().out.splitlines()[1:] == said[1:]
        assert called(capsys, "clear", "--yes", *where)[1]["entries"] == 10
        del batches
        assert sum(batch.rows for batch in dataset) == 1000
    assert main(["clear", "--yes", *where]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert called(capsys, "clear", *where)[1]["entries"] == 0


@pytest.mark.usefixtures("server")
def test_a_cache_that_can_not_be_written_to_is_said(tmp_path, capsys):
    (tmp_path / "file").touch()
    with pytest.warns(UserWarning, match="Can't keep more in the cache"):
        assert main(["warm", URL, "--cache-dir", str(tmp_path / "file")]) == 2
    said = "fastload-cache: Can't keep more in the cache: Not a directory - at "
    assert said in capsys.readouterr().err


def test_what_can_not_be_done(server, tmp_path, capsys, paths):
    where = ["--cache-dir", str(tmp_path)]
    assert main(["warm", "gs://bucket/nothing/", *where]) == 2
    assert main(["warm", str(paths[0]), *where]) == 2
    said = capsys.readouterr().err
    assert "got local files alone: of local files a cache keeps what `preprocess` makes" in said
    assert f" - at {paths[0]}" in said
    for wrong in (["--filters", "{"], ["--filters", "7"], ["--jobs", "0"]):
        with pytest.raises(SystemExit):
            main(["warm", URL, *where, *wrong])
    with FastParquetDataset(URL) as dataset, pytest.raises(CacheError, match="cache="):
        dataset.warm_cache()


@pytest.mark.parametrize("raw", [True, False], ids=["raw", "prepared"])
def test_warm_says_when_not_all_rows_have_room(server, tmp_path, capsys, raw):
    path = tmp_path / "local.parquet"
    table = pa.table({"a": range(100_000), "b": range(100_000)})
    pq.write_table(table, path, row_group_size=10_000, use_dictionary=False, compression="none")
    source = (URL,) if raw else (path, *KEPT)
    where = ("--cache-dir", tmp_path / "cache", "--max-bytes", "100KB" if raw else "500KB")
    assert main(["warm", *map(str, source), *map(str, where), "--quiet"]) == 2
    said = capsys.readouterr().err
    told = "Expected max_bytes of the cache to hold all rows"
    assert (told if raw else "Expected to keep all rows in the cache, got: max_bytes=") in said
    whole = ("--cache-dir", tmp_path / "whole", "--max-bytes", "1GB")
    assert called(capsys, "warm", *source, *whole, "--quiet")[0] == 0


def test_shares_count_as_warmed_only_together(tmp_path, monkeypatch):
    """A process that begins later may remove what another one had made before."""
    monkeypatch.setattr(parts, "_PART_BYTES", 80_000)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": range(100_000)}), path, row_group_size=10_000)
    half = Cache(tmp_path / "cache", max_bytes="700KB")
    shares = Description(str(path), half, preprocess=(KEPT[1],), since_ns=time.time_ns())
    assert warm_jobs(shares.share(0, 2), 1, progress=False)["rows"] == 50_000
    with pytest.raises(CacheError, match="max_bytes"):
        warm_jobs(shares.share(1, 2), 1, progress=False)


def test_shares_of_a_store_count_as_warmed_only_together(server, tmp_path):
    shares = Description(URL, Cache(tmp_path / "cache", max_bytes="4MB"))
    alone = replace(shares, cache=Cache(tmp_path / "alone", max_bytes="4MB"))
    for number in range(2):
        assert warm_jobs(alone.share(number, 2), 1, progress=False)["rows"] < 0.6 * ALL_ROWS
    with pytest.raises(CacheError, match="max_bytes of the cache to hold all rows"):
        warm_jobs(shares, 2, progress=False)


def test_verify_finds_a_flipped_bit_of_prepared_rows(tmp_path, capsys):
    """The rows are then prepared anew."""
    path, where = tmp_path / "a.parquet", ("--cache-dir", tmp_path / "cache", "--quiet")
    pq.write_table(pa.table({"x": range(1000)}), path)
    assert called(capsys, "warm", path, *where, *KEPT)[0] == 0
    (entry,) = entries_of(tmp_path / "cache" / PREPARED)
    assert called(capsys, "verify", *where)[0] == 0
    data = bytearray(Path(entry.path).read_bytes())
    data[data.index((700).to_bytes(8, "little"))] ^= 4
    Path(entry.path).write_bytes(data)
    code, checked = called(capsys, "verify", *where)
    assert (code, [each["file"] for each in checked["damaged"]]) == (1, [entry.name])
    assert main(["verify", *map(str, where)]) == 0
    with FastParquetDataset(path, preprocess=kept, cache=tmp_path / "cache") as dataset:
        assert torch.cat([batch["x"] for batch in dataset]).tolist() == list(range(1000))
