"""Answers that are not what the request asked for: right rows, or the right error."""

from __future__ import annotations

import os
from http import HTTPStatus

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from fastload import (
    IO,
    Cache,
    CorruptFileError,
    FastParquetDataset,
    SourceChangedError,
    StorageError,
)
from support.stores import AzureServer, Fault, GcsServer
from support.stores.azure import ACCOUNT
from support.stores.s3 import forget_credentials

ROWS = 20_000  # whose bytes do not fit into the read of a footer
TRANSPORTS = ["fsspec", "native"]
KINDS = [(kind, transport) for kind in ("gs", "s3", "http") for transport in TRANSPORTS]
KINDS += [("az", "native")]


def file_of(number):
    """Return a file whose values alone depend on the number.

    The column of text keeps the chunks of "x" apart, so that each is read by a request of its own.
    """
    sink = pa.BufferOutputStream()
    table = pa.table({"x": [number * ROWS + row for row in range(ROWS)], "text": ["a"] * ROWS})
    options = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    options["write_page_checksum"] = True
    pq.write_table(table, sink, row_group_size=ROWS // 10, **options)
    return sink.getvalue().to_pybytes()


class Place:
    """A file on a server, and how it is read."""

    def __init__(self, kind, transport):
        self.server = AzureServer() if kind == "az" else GcsServer()
        keys = {"key": "k", "secret": "s", "client_kwargs": {"region_name": "us-east-1"}}
        self.url, self.options = {
            "gs": ("gs://bucket/a.parquet", self.server.options if kind == "gs" else {}),
            "s3": ("s3://bucket/a.parquet", {"endpoint_url": self.server.url, **keys}),
            "http": (f"{self.server.url}/bucket/a.parquet", {}),
            "az": ("az://container/a.parquet", {"account_name": ACCOUNT}),
        }[kind]
        if kind == "az":
            self.options["endpoint_url"] = self.server.endpoint
        self.transport = transport
        self.put(0)

    def put(self, number):
        if isinstance(self.server, AzureServer):
            self.server.blobs["a.parquet"] = file_of(number)
        else:
            self.server.put("bucket", "a.parquet", file_of(number))

    def dataset(self, **options):
        io = IO(
            transport=self.transport, retries=2, timeout_s=5.0, hole_bytes=0, request_bytes=20_000,
            concurrency=2, verify_crc=True,
        )  # fmt: skip
        given = {
            "io": io,
            "storage_options": self.options or None,
            "columns": ["x"],
            "batch_size": 1000,
            "threads": 1,
        }
        return FastParquetDataset(self.url, **{**given, **options})

    def strike(self, fault, *, times=10**9):
        """Have the next requests for data end in a fault."""
        left = [times]

        def found(request):
            if request.range is None or not left[0]:
                return None
            left[0] -= 1
            return fault

        self.server.fault = found


@pytest.fixture(params=KINDS, ids=" by ".join)
def place(request, tmp_path, monkeypatch):
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", os.fspath(tmp_path / "kept"))
    place = Place(*request.param)
    with place.server:
        yield place


def read(dataset):
    return [value for batch in dataset for value in batch["x"].tolist()]


def test_a_file_replaced_where_no_version_is_heeded(place):
    asked = []

    def strike(request):
        if request.range is None:
            return None
        asked.append(request.range)
        if len(asked) == 4:
            place.put(1)
        return Fault("unconditional")

    with place.dataset() as dataset:
        place.server.fault = strike
        with pytest.raises(SourceChangedError, match=r" - at .*a\.parquet, row group"):
            read(dataset)
    assert len(asked) >= 4  # the fourth request replaced the file


def test_a_shifted_range_is_asked_for_again(place):
    with place.dataset() as dataset:
        place.strike(Fault("shift"), times=1)
        assert read(dataset) == list(range(ROWS))


@pytest.mark.parametrize("fault", [Fault("page"), Fault(200, body=b"")], ids=["page", "empty"])
def test_one_odd_answer_of_status_200_is_asked_for_again(place, fault):
    with place.dataset() as dataset:
        place.strike(fault, times=1)
        assert read(dataset) == list(range(ROWS))


@pytest.mark.parametrize("cached", [False, True], ids=["no cache", "cache"])
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_bad_body_is_asked_for_again(place, tmp_path, cached, on_error):
    options = {"on_error": on_error}
    if cached:
        options["cache"] = Cache(tmp_path / "cache", prepared=False)
    with place.dataset(**options) as dataset:
        place.strike(Fault("zeros"), times=1)
        assert read(dataset) == list(range(ROWS))
        place.strike(Fault("zeros"), times=0)
        assert read(dataset) == list(range(ROWS))
        if on_error == "skip":
            assert not dataset.skipped
    if cached:  # the bad body is not kept
        with place.dataset(**options) as dataset:
            assert read(dataset) == list(range(ROWS))


@pytest.fixture
def cached_place(tmp_path, monkeypatch):
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", os.fspath(tmp_path / "kept"))
    place = Place("s3", "fsspec")
    with place.server:
        yield place, Cache(tmp_path / "cache", prepared=False)


@pytest.mark.parametrize("way", ["footer", "take", "filter", "function", "weights", "head"])
@pytest.mark.parametrize("cached", [False, True], ids=["no cache", "cache"])
def test_a_bad_body_is_asked_for_again_by_whoever_reads(cached_place, way, cached):
    place, cache = cached_place
    options = {"cache": cache} if cached else {}
    if way == "filter":
        options["filters"] = [("x", ">=", 0)]
    elif way == "function":
        options["filters"] = pc.field("x") + 1 > 0
    elif way == "weights":
        options["weights"] = "x"
    for _ in range(2):
        if way in ("footer", "filter", "function"):
            place.strike(Fault("zeros"), times=1)  # for filters, of the footer or of data
        with place.dataset(**options) as dataset:
            if way not in ("footer", "filter", "function"):
                place.strike(Fault("zeros"), times=1)
            if way == "take":
                assert dataset.take([0, 7])["x"].tolist() == [0, 7]
            elif way == "weights":
                assert len(dataset) > 0
            elif way == "head":
                assert dataset.head(3)["x"].tolist() == [0, 1, 2]
            else:
                assert read(dataset) == list(range(ROWS))


def test_a_row_group_that_stays_corrupt_is_asked_for_once_more(cached_place):
    place, _ = cached_place
    with place.dataset(threads=0, prefetch=0) as dataset:
        for asked in (2, 1):  # in the next epoch, no more
            place.server.reset()
            place.strike(Fault("zeros"))
            with pytest.raises(CorruptFileError, match=r"a\.parquet, row group 0"):
                read(dataset)
            first = [r for r in place.server.requests if r.range and r.range.startswith("bytes=4-")]
            assert len(first) == asked


def error_of(code):
    return f"<?xml version='1.0'?><Error><Code>{code}</Code></Error>".encode()


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    ("status", "code", "advice"),
    [
        (400, "ExpiredToken", "get new credentials"),
        (403, "RequestTimeTooSkewed", "clock"),
        (403, "AccessDenied", 'storage_options={"anon": True}'),
    ],
)
def test_the_words_of_the_store_and_what_to_do(transport, status, code, advice):
    place = Place("s3", transport)
    with place.server, place.dataset() as dataset:
        place.strike(Fault(status, body=error_of(code)))
        with pytest.raises(StorageError) as told:
            read(dataset)
    message = str(told.value)
    assert f"HTTP {status} {HTTPStatus(status).phrase} ({code})" in message
    assert advice in message


def test_no_credentials(monkeypatch, tmp_path):
    forget_credentials(monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    place = Place("s3", "fsspec")
    place.options = {"endpoint_url": place.server.url}
    with place.server, pytest.raises(StorageError, match="anon"):
        place.dataset()


@pytest.mark.parametrize("kind", ["s3", "http", "gs"])
def test_another_host_is_told_no_secret(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", os.fspath(tmp_path))
    place = Place(kind, "fsspec")
    secrets = {"X-Api-Key": "s3cr3t"}
    place.options = {
        "s3": {**place.options, "token": "s3cr3t"},
        "http": {"headers": secrets, "client_kwargs": {"headers": secrets}},
        "gs": {**place.options, "session_kwargs": {"headers": secrets}},
    }[kind]
    with place.server as server, GcsServer() as other:
        other._buckets = server._buckets
        elsewhere = other.url.replace("127.0.0.1", "localhost")
        with place.dataset() as dataset:
            server.fault = lambda request: Fault(
                307, headers={"Location": elsewhere + request.target}
            )
            assert read(dataset) == list(range(ROWS))
        assert "s3cr3t" in str(server.requests)
        assert other.requests
        assert "s3cr3t" not in str(other.requests)
