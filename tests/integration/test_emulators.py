"""Stores that others wrote: moto for S3, gcp-storage-emulator, aiohttp's web server."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
import urllib.parse
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from torch.utils.data import DataLoader

import fastload
from fastload import (
    IO,
    FastParquetDataset,
    SourceChangedError,
    SourceNotFoundError,
    StorageError,
    UnsupportedTypeError,
)
from support.stored_dataset import assert_same
from support.stores.s3 import KEYS, forget_credentials, moto, put

COLUMNS = ["c3", "c14", "s"]
TRANSPORTS = ["fsspec", "native"]


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch, tmp_path):
    """Of the user's."""
    forget_credentials(monkeypatch, tmp_path)


def read(source, transport, options, *, workers=None, **more):
    io = IO(transport=transport, concurrency=8, retries=2, timeout_s=10)
    dataset = FastParquetDataset(source, columns=COLUMNS, storage_options=options, io=io, **more)
    with dataset:
        if workers is None:
            return list(dataset)
        loader = DataLoader(
            dataset, batch_size=None, num_workers=2, multiprocessing_context=workers, timeout=60
        )
        return list(loader)


def local(paths, workers=None):
    return read([str(path) for path in paths], "auto", None, workers=workers)


# S3 -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def s3(paths):
    with moto() as url:
        for path in paths:
            put(f"{url}/bucket/train/{path.name}", path.read_bytes())
        put(f"{url}/bucket/train/_SUCCESS", b"")
        yield url


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("given", ["options", "environment", "profile", "other profile", "nobody"])
def test_s3(s3, paths, transport, given, monkeypatch, tmp_path):
    if transport == "fsspec":
        pytest.importorskip("s3fs")
    options = {"endpoint_url": s3, **KEYS} if given == "options" else {"anon": given == "nobody"}
    if given == "environment":
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "something")
    elif "profile" in given:
        name = given.partition(" ")[0] if given != "profile" else "default"
        file = tmp_path / "credentials"
        file.write_text(
            f"[{name}]\naws_access_key_id = someone\naws_secret_access_key = something\n"
        )
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
        if name != "default":
            monkeypatch.setenv("AWS_PROFILE", name)
    if given != "options":
        monkeypatch.setenv("AWS_ENDPOINT_URL", s3)
    if given == "nobody":
        put(f"{s3}/bucket?acl", None, **{"x-amz-acl": "public-read"})
        for path in paths:
            put(f"{s3}/bucket/train/{path.name}?acl", None, **{"x-amz-acl": "public-read"})
    got = read("s3://bucket/train/*.parquet", transport, options)
    assert_same(got, local(paths))


def test_s3_in_workers(s3, paths):
    pytest.importorskip("s3fs")
    options = {"endpoint_url": s3, **KEYS}
    got = read("s3://bucket/train/", "fsspec", options, workers="fork", shuffle=True)
    workers = read([str(p) for p in paths], "auto", None, workers="fork", shuffle=True)
    assert_same(got, workers)


def test_rows_are_prepared_in_s3(s3):
    """They are written by fsspec, and read by both transports; what was begun is refused."""
    pytest.importorskip("s3fs")
    options = {"endpoint_url": s3, **KEYS}
    url = "s3://bucket/prepared/train"
    source = FastParquetDataset(
        "s3://bucket/train/*.parquet",
        columns=COLUMNS,
        storage_options=options,
        preprocess=lambda block: {"double": 2 * block["c3"]},
    )
    put(f"{s3}/bucket/prepared/train/_fastload_preparing/x.lock", b"")
    with pytest.raises(UnsupportedTypeError, match="call it again"):
        FastParquetDataset(url, storage_options=options)
    assert fastload.prepare(source, url, progress=False) == url
    for transport in TRANSPORTS:
        io = IO(transport=transport)
        rows = FastParquetDataset(url, storage_options=options, io=io)
        assert_same(list(rows), list(source))


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_s3_object_that_is_replaced(s3, paths, transport):
    if transport == "fsspec":
        pytest.importorskip("s3fs")
    put(f"{s3}/bucket/one/a.parquet", paths[0].read_bytes())
    options = {"endpoint_url": s3, **KEYS}
    io = IO(transport=transport, retries=1)
    with FastParquetDataset("s3://bucket/one/", storage_options=options, io=io) as dataset:
        put(f"{s3}/bucket/one/a.parquet", paths[1].read_bytes())
        with pytest.raises(SourceChangedError, match="at s3://bucket/one/a"):
            list(dataset)


def test_s3_without_s3fs(s3, monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, "s3", raising=False)
    monkeypatch.setattr("multiprocessing.get_start_method", lambda allow_none: "fork")
    options = {"endpoint_url": s3, **KEYS}
    match = r"pip install s3fs` - at s3://bucket/train$"
    for transport in ("native", "auto", "fsspec"):
        with pytest.raises(StorageError, match=match):
            read("s3://bucket/train", transport, options)


WITHOUT_S3FS = """
import multiprocessing, sys
from fastload import IO, FastParquetDataset, StorageError

if __name__ == "__main__":
    sys.modules["s3fs"] = None
    multiprocessing.set_start_method("forkserver")
    options = {"endpoint_url": sys.argv[1], "key": "someone", "secret": "something"}
    def rows(source, transport, **more):
        io = IO(transport=transport)
        with FastParquetDataset(source, storage_options=options | more, io=io) as dataset:
            return sum(len(batch["c3"]) for batch in dataset)
    print(rows("s3://bucket/train/*.parquet", "native"), rows("s3://bucket/train", "auto"))
    for transport, more in (("fsspec", {}), ("auto", {"config_kwargs": {"a": 1}})):
        try:
            rows("s3://bucket/train", transport, **more)
        except StorageError as error:
            print(error)
    try:
        rows("s3://bucket/nowhere", "native")
    except FileNotFoundError as error:
        print(error)
"""


def test_s3_without_s3fs_where_nothing_forks(s3, paths, tmp_path):
    """obstore lists by itself in a process that starts workers by forkserver."""
    script = tmp_path / "script.py"
    script.write_text(WITHOUT_S3FS)
    found = subprocess.run(
        [sys.executable, str(script), s3], capture_output=True, text=True, timeout=120, check=False
    )
    assert found.returncode == 0, found.stderr
    counts, by_fsspec, unknown, nowhere = found.stdout.splitlines()
    rows = sum(len(batch["c3"]) for batch in local(paths))
    assert counts == f"{rows} {rows}"
    assert "pip install s3fs" in by_fsspec
    assert "pip install s3fs" in unknown
    assert "`config_kwargs` (of type dict)" in unknown
    assert "at s3://bucket/nowhere" in nowhere


# Google Cloud Storage -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gcs(paths):
    """The URL of an emulator with one thread, HTTP/1.0 and no versions."""
    module = pytest.importorskip("gcp_storage_emulator.server")
    server = module.create_server("127.0.0.1", 0, in_memory=True, default_bucket="bucket")
    server.start()
    url = "http://{}:{}".format(*server._api._httpd.socket.getsockname())
    for path in paths:
        name = urllib.parse.quote(f"train/{path.name}", safe="")
        upload = f"{url}/upload/storage/v1/b/bucket/o?uploadType=media&name={name}"
        put(upload, path.read_bytes(), "POST")
    yield url
    server.stop()


@pytest.mark.parametrize(
    ("transport", "workers"), [("fsspec", None), ("fsspec", "fork"), ("auto", None)]
)
def test_gcs(gcs, paths, transport, workers, monkeypatch):
    """obstore can't read its answers, which "auto" finds out."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", gcs)
    got = read("gs://bucket/train/*.parquet", transport, None, workers=workers)
    assert_same(got, local(paths, workers=workers))


# HTTP -----------------------------------------------------------------------------------------


@contextmanager
def web_server(directory):
    from aiohttp import web

    loop = asyncio.new_event_loop()
    app = web.Application()
    app.router.add_static("/data", directory)
    runner = web.AppRunner(app)
    loop.run_until_complete(runner.setup())
    site = web.TCPSite(runner, "127.0.0.1", 0)
    loop.run_until_complete(site.start())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield "http://{}:{}/data".format(*runner.addresses[0])
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_http(paths, transport):
    with web_server(paths[0].parent) as url:
        urls = [f"{url}/{path.name}" for path in paths]
        assert_same(read(urls, transport, None), local(paths))
        if transport == "fsspec":
            assert_same(read(urls, transport, None, workers="fork"), local(paths, workers="fork"))


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_http_without_ranges(paths, transport):
    """Such as Python's own server: an error that says so, after few tries."""
    match = r"ranges, got the whole file( after \d tries)? - at http://127"
    handler = partial(_Quiet, directory=paths[0].parent)
    with plain_server(handler) as url, pytest.raises(StorageError, match=match):
        read(f"{url}/part-0.parquet", transport, None)


@contextmanager
def plain_server(handler):
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            yield "http://{}:{}".format(*server.server_address)
        finally:
            server.shutdown()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class _Failing(_Quiet):
    """Answers with each status once, for HEAD and GET, and then as it should."""

    def __init__(self, *arguments, statuses, **options):
        self._statuses = statuses
        super().__init__(*arguments, **options)

    def do_HEAD(self):
        if self._statuses:
            self.send_error(self._statuses[0])
        else:
            super().do_HEAD()

    def do_GET(self):
        if self._statuses:
            self.send_error(self._statuses.pop(0))
        else:
            super().do_GET()


@pytest.mark.parametrize(
    ("statuses", "error", "words"),
    [
        ([404], SourceNotFoundError, "found none"),
        ([410], SourceNotFoundError, "found none"),
        ([403], StorageError, "got HTTP 403 Forbidden"),
        ([503] * 3, StorageError, "got HTTP 503 Service Unavailable after 3 tries"),
        ([503, 500], StorageError, "ranges, got the whole file"),  # it has found the file
    ],
)
def test_http_says_why_there_is_no_file(paths, statuses, error, words):
    handler = partial(_Failing, directory=paths[0].parent, statuses=statuses)
    with plain_server(handler) as url, pytest.raises(error, match=f"{words}.* - at http://127"):
        read(f"{url}/part-0.parquet", "auto", None)


def test_http_is_refused():
    with socket.socket() as bound:  # to a port that nobody listens at
        bound.bind(("127.0.0.1", 0))
        url = "http://{}:{}/part-0.parquet".format(*bound.getsockname())
        with pytest.raises(StorageError, match=r"Cannot connect to host .* after 3 tries"):
            read(url, "auto", None)
