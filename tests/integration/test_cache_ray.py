"""fastload-cache warm --engine ray: tasks of a real cluster fill a directory for all."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from fastload import CacheError, FastParquetDataset
from fastload.plan import parts
from fastload.runtime.disk.cache import PREPARED, RAW, Cache
from fastload.runtime.disk.entries import entries_of, remove_all
from fastload.runtime.units import million
from fastload.tools.cli.cache import main
from fastload.tools.cli.warm_jobs import Description
from fastload.tools.cli.warm_ray import _warm_share
from support.damage import damage, write_groups
from support.own_process import in_its_own_process
from support.stored_dataset import COLUMNS, FILES, ROWS, served, write_files

URL = "gs://bucket/train/*.parquet"
ALL_ROWS = sum(ROWS + number for number in range(FILES))
DEADLINE_S = 240

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install ray"
)

# Ends with its input, and the cluster with it.
CLUSTER = """
import sys, ray
print(ray.init("local", num_cpus=2, object_store_memory=80_000_000, include_dashboard=False,
               _temp_dir=sys.argv[1], logging_level="ERROR")["address"], flush=True)
sys.stdin.read()
"""
# Each process that imports them writes small files.
STEPS = """
from fastload.plan import parts

parts._PART_BYTES = 1 << 17
SCALE = 3

def scaled(block):
    return {"y": block["c0"] // 2**40 * SCALE}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    paths = write_files(tmp_path_factory.mktemp("stored"))
    with served(paths) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORAGE_EMULATOR_HOST", server.url)
        patch.setenv("FASTLOAD_CACHE_DIR", str(tmp_path_factory.mktemp("footers")))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        # Of this cluster alone; else Ray keeps one in the home directory.
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", uuid.uuid4().hex)
        yield server


@pytest.fixture(scope="module")
def cluster(server, tmp_path_factory):
    """Its address, and the process whose descendants its workers are."""
    with (
        tempfile.TemporaryDirectory(
            prefix="ray", dir="/tmp", ignore_cleanup_errors=True
        ) as directory,
        subprocess.Popen(
            [sys.executable, "-c", CLUSTER, directory],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process,
    ):
        yield process.stdout.readline().strip(), psutil.Process(process.pid)
        process.stdin.close()
        process.wait(DEADLINE_S)


@contextlib.contextmanager
def warmer(address, directory, *more, source=URL, cwd="."):
    """The command runs; its exit code, and what it has printed, are the future's result."""
    arguments = ["warm", source, "--cache-dir", str(directory), "--engine", "ray", *more]
    with ThreadPoolExecutor(1) as thread:
        yield thread.submit(
            in_its_own_process,
            run_command,
            [*arguments, "--ray-address", address],
            str(cwd),
            timeout_s=DEADLINE_S,
        )


def run_command(arguments, cwd):
    os.chdir(cwd)
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        # What Ray's core prints is there, too.
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        code = main(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
        for file in (out, err):
            file.seek(0)
        return code, out.read(), err.read()


@contextlib.contextmanager
def last_file_held(server):
    """Events: a read of the last file waits; such reads go on. Reads of its footer never wait."""
    waits, go_on = threading.Event(), threading.Event()
    half = ROWS // 2 * COLUMNS * 8  # bytes; the footer is in the other half

    def hold(request):
        first = re.match(r"bytes=(\d+)-", request.range or "")
        if f"part-{FILES - 1}." in request.path and first and int(first[1]) < half:
            waits.set()
            go_on.wait(DEADLINE_S)

    server.fault = hold
    yield waits, go_on
    go_on.set()
    server.fault = lambda request: None


def killed_meanwhile(warming, process, server, tier, least):
    """What the command prints; workers are killed while one of them waits for a read.

    A tier has so many entries by then.
    """
    deadline = time.monotonic() + DEADLINE_S
    with last_file_held(server) as (waits, go_on):
        while not waits.is_set() or len(list(entries_of(tier))) < least:
            assert not warming.done()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        killed = busy_workers(process)
        for each in killed:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        go_on.set()
        code, out, err = warming.result()
    assert code == 0, err
    assert killed
    assert "(raylet)" in err  # says that a worker was killed, and its task is done again
    return out, err


def data_requests(server):
    return sum(request.range is not None for request in server.requests)


def busy_workers(process):
    found = []
    for each in process.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if " ".join(each.cmdline()).startswith("ray::_warm_share"):
                found.append(each)
    return found


@needs_ray
def test_a_worker_is_killed_and_all_is_there(server, cluster, tmp_path):
    address, process = cluster
    with warmer(address, tmp_path, "--jobs", "3", "--json") as warming:
        out, err = killed_meanwhile(warming, process, server, tmp_path / RAW, FILES + 4)
    assert json.loads(out) == {"warmed": {"rows": ALL_ROWS, "files": FILES}}
    assert f"{million(ALL_ROWS)} rows in" in err
    assert [name for name in os.listdir(tmp_path) if name.startswith(".")] == []
    server.reset()
    with FastParquetDataset(URL, cache=tmp_path, shuffle=True) as dataset:
        assert sum(batch.rows for batch in dataset) == ALL_ROWS
    assert data_requests(server) == 0


@needs_ray
def test_rows_that_preprocess_makes(server, cluster, tmp_path, monkeypatch):
    address, process = cluster
    code, cache = tmp_path / "code", tmp_path / "cache"
    code.mkdir()
    (code / "steps_on_ray.py").write_text(STEPS)
    steps = ("--preprocess", "steps_on_ray:scaled", "--columns", "c0,s")
    with warmer(address, cache, "--jobs", "3", "--json", *steps, cwd=code) as warming:
        out, _ = killed_meanwhile(warming, process, server, cache / PREPARED, 2)
    assert json.loads(out) == {"warmed": {"rows": ALL_ROWS, "files": FILES}}
    made = {entry.path: os.stat(entry.path).st_ino for entry in entries_of(cache / PREPARED)}
    assert len(made) > 3
    remove_all(cache / RAW)
    server.reset()
    monkeypatch.syspath_prepend(code)
    monkeypatch.setattr(parts, "_PART_BYTES", parts._PART_BYTES)  # back after the test
    from steps_on_ray import scaled

    with FastParquetDataset(URL, columns=["c0", "s"], preprocess=scaled, cache=cache) as dataset:
        rows = 0
        for batch in dataset:
            assert (batch["y"] == batch["c0"] // 2**40 * 3).all()
            rows += batch.rows
    assert rows == ALL_ROWS
    assert data_requests(server) == 0
    assert made == {e.path: os.stat(e.path).st_ino for e in entries_of(cache / PREPARED)}


@needs_ray
def test_an_address_without_a_cluster_is_told(server, tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        with warmer(address, tmp_path) as warming:
            code, out, err = warming.result()
    assert (code, out) == (2, "")
    assert f"fastload-cache: Expected a Ray cluster at {address}, got" in err


@needs_ray
def test_what_a_task_raises_is_told(server, cluster, tmp_path):
    path = write_groups(tmp_path / "a.parquet", [30, 50, 45])
    damage(path, 1, "text")
    server.put("bucket", "bad/a.parquet", Path(path).read_bytes())
    source = "gs://bucket/bad/a.parquet"
    with warmer(cluster[0], tmp_path / "cache", "--quiet", source=source) as warming:
        code, out, err = warming.result()
    assert (code, out) == (2, "")
    assert err.startswith("fastload-cache: ")
    assert "Traceback" not in err
    assert "gs://bucket/bad/a.parquet, row group 1, column `text`" in err


def test_what_can_not_be_done(server, tmp_path, capsys, monkeypatch):
    def told(*arguments):
        assert main(["warm", *arguments, "--cache-dir", str(tmp_path)]) == 2
        return capsys.readouterr().err

    assert "gs://bucket/nothing" in told("gs://bucket/nothing/", "--engine", "ray")
    assert "Expected --engine ray with --ray-address, got --engine local" in told(
        URL, "--ray-address", "x"
    )
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "got none: pip install ray" in told(URL, "--engine", "ray")


def test_a_node_with_a_directory_of_its_own_is_told(tmp_path):
    description = Description(URL, Cache(tmp_path), rank=0, world_size=1)
    with pytest.raises(CacheError, match=f"a directory that all nodes .* at {tmp_path}"):
        _warm_share(description, 0, None, tmp_path / ".warming-elsewhere")
