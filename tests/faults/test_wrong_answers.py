"""Answers that are not what the request asked for: right rows, or the right error."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastload import IO, FastParquetDataset, SourceChangedError
from support.stores import AzureServer, Fault, GcsServer
from support.stores.azure import ACCOUNT

ROWS = 2000
TRANSPORTS = ["fsspec", "native"]
KINDS = [(kind, transport) for kind in ("gs", "s3", "http") for transport in TRANSPORTS]
KINDS += [("az", "native")]


def file_of(number):
    """Return a file whose values alone depend on the number."""
    sink = pa.BufferOutputStream()
    table = pa.table({"x": [number * ROWS + row for row in range(ROWS)]})
    options = {"compression": "none", "use_dictionary": False, "write_statistics": False}
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
            transport=self.transport, retries=2, timeout_s=5.0, hole_bytes=0, request_bytes=2000,
            concurrency=2,
        )  # fmt: skip
        given = {"io": io, "storage_options": self.options or None, "batch_size": 100, "threads": 1}
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
    with place.dataset(prefetch=0) as dataset:
        batches = iter(dataset)
        assert next(batches)["x"].tolist() == list(range(100))
        place.put(1)
        place.strike(Fault("unconditional"))
        with pytest.raises(SourceChangedError, match=r" - at .*a\.parquet, row group"):
            list(batches)


def test_a_shifted_range_is_asked_for_again(place):
    with place.dataset() as dataset:
        place.strike(Fault("shift"), times=1)
        assert read(dataset) == list(range(ROWS))
