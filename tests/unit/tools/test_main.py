"""The command `fastload`, and what all commands share."""

import json
import os
import pty
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fastload
from fastload import FastParquetDataset
from fastload.plan import parts
from fastload.runtime.cores import available_cores
from fastload.runtime.units import ago, counted, duration_of, million, size_of
from fastload.tools import self_test
from fastload.tools.bench import sample
from fastload.tools.cli import bench, cache, doctor, inspect
from fastload.tools.cli.main import main
from support.forked import run_forked

COMMANDS = {"bench": bench, "cache": cache, "doctor": doctor, "inspect": inspect}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_version_and_help(name, capsys):
    for call in (COMMANDS[name].main, lambda arguments: main([name, *arguments])):
        with pytest.raises(SystemExit) as ended:
            call(["--version"])
        assert ended.value.code == 0
        assert capsys.readouterr().out == f"fastload {fastload.__version__}\n"
    with pytest.raises(SystemExit):
        main([name, "--help"])
    assert capsys.readouterr().out.startswith(f"usage: fastload {name} ")
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"fastload {fastload.__version__}\n"


def test_the_module_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "fastload", "--help"], capture_output=True, text=True, check=True
    )
    assert all(f"\n  {name} " in done.stdout for name in COMMANDS)
    assert done.stderr == ""


def test_other_commands_are_refused_by_name(capsys):
    assert main(["train"]) == 2
    assert capsys.readouterr().err.startswith("fastload: Expected one of inspect, bench, cache")


def test_doctor_says_what_is_installed(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(tmp_path))
    (tmp_path / "kept").write_bytes(b"x" * 2000)
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    versions = found["versions"]
    assert versions["torch"] in {torch.__version__, torch.__version__.partition("+")[0]}
    assert versions["pyarrow"] == pa.__version__
    assert versions["fastload"].startswith(f"{fastload.__version__}, core for pyarrow ")
    assert found["machine"]["cores"].startswith(f"{available_cores()} of ")
    assert found["caches"] == {
        "footers and counts": f"{tmp_path} ($FASTLOAD_CACHE_DIR)",
        "held": "1 file, 2 kB",
    }
    assert "obstore" in found["stores"]["gs"]
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "versions"
    assert max(map(len, lines)) <= 80


def test_doctor_says_what_does_not_work(capsys, monkeypatch):
    assert main(["doctor"]) == 0
    assert capsys.readouterr().out.endswith("in this process and in a worker process.\n")

    def wrong(batches):
        raise ValueError("Expected other rows")

    monkeypatch.setattr(self_test, "_check", wrong)
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "\nTo mend first: reading in this process: ValueError: Expected other rows\n" in out
    assert main(["doctor", "--json"]) == 1
    assert len(json.loads(capsys.readouterr().out)["faults"]) == 2


def test_doctor_says_why_nothing_is_kept(capsys, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    for below in ("x", "x/y"):
        monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(tmp_path / "file" / below))
        assert main(["doctor", "--json"]) == 0
        held = json.loads(capsys.readouterr().out)["caches"]["held"]
        assert f"stay in memory: Not a directory - at {tmp_path / 'file'} (" in held
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(tmp_path / "new" / "x"))
    assert main(["doctor", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["caches"]["held"] == "nothing yet"
    assert not (tmp_path / "new").exists()


def test_the_sample_is_written_and_nothing_measured(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sample.make, "__defaults__", (1, 1000))
    path = tmp_path / "clicks.parquet"
    assert bench.main(["--sample", str(path)]) == 0
    assert "x 40 columns" in capsys.readouterr().out
    assert pq.read_schema(path).equals(sample.schema())
    assert bench.main(["--sample", str(tmp_path / "no" / "a.parquet")]) == 2
    assert "Expected a directory to write to" in capsys.readouterr().err


def kept(block):
    return block


@pytest.fixture
def filled(tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "_PART_BYTES", 80)
    path, directory = tmp_path / "a.parquet", tmp_path / "cache"
    pq.write_table(pa.table({"x": range(100)}), path, row_group_size=10)
    with FastParquetDataset(path, preprocess=kept, cache=directory) as dataset:
        dataset.warm_cache(progress=False)
    return directory


def test_the_directory_of_the_environment_is_the_default(filled, capsys, monkeypatch):
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(filled))
    assert main(["cache", "ls"]) == 0
    out = capsys.readouterr().out
    assert "10 entries of " in out
    assert main(["cache", "verify"]) == 0
    assert capsys.readouterr().out.startswith("checked 10 entries, ")
    assert main(["cache", "prune", "--max-bytes", "1"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("removed 10 entries; ")
    assert "no entry fits in 1 byte\n" in out
    monkeypatch.delenv("FASTLOAD_CACHE_DIR")
    assert main(["cache", "ls"]) == 2
    assert "Expected --cache-dir or $FASTLOAD_CACHE_DIR, got neither" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("answer", "options", "removed"),
    [(b"n\n", [], 0), (b"\n", [], 0), (b"y\n", [], 10), (None, ["--yes"], 10)],
)
def test_clear_asks_on_a_terminal(filled, answer, options, removed):
    ours, theirs = pty.openpty()
    arguments = ["cache", "clear", "--cache-dir", str(filled), *options]
    if answer is not None:
        os.write(ours, answer)
    done = run_forked(["-m", "fastload", *arguments], stdin=theirs)
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 0
    assert done.stdout.startswith(f"removed {removed} entr")
    assert ("Remove 10 entries, " in done.stderr) == (answer is not None)


def test_numbers_have_units():
    sizes = [size_of(n) for n in (0, 1, 999, 1000, 78_000_000, 999_600, 4.5e12)]
    assert sizes == ["0 bytes", "1 byte", "999 bytes", "1 kB", "78 MB", "1 MB", "4.5 TB"]
    times = [duration_of(s) for s in (0, 4.2e-5, 0.00083, 1.234, 99, 7260)]
    assert times == ["0 s", "42 us", "830 us", "1.23 s", "1 min 39 s", "2 h 1 min"]
    assert [million(n) for n in (12, 48_200, 950_000, 13.4e6)] == [
        "12",
        "48.2 k",
        "0.9 M",
        "13.4 M",
    ]
    assert [counted(n, "entry") for n in (1, 2000)] == ["1 entry", "2,000 entries"]
    assert [ago(s) for s in (3, 90, 7300, 10**6)] == [
        "just now",
        "1 minute ago",
        "2 hours ago",
        "11 days ago",
    ]
