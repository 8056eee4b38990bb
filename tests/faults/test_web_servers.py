"""What web servers do that breaks, or bends, the rules of HTTP: right rows, or an error."""

from __future__ import annotations

import gc
import threading
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastload import IO, FastParquetDataset, SourceChangedError, StorageError
from support.stores.gcs import ranged
from support.stores.server import Fault, HttpServer, Response

ROWS = 2000
OLD = "Thu, 01 Jan 2026 00:00:00 GMT"
NEW = "Fri, 02 Jan 2026 00:00:00 GMT"
TRANSPORTS = ["fsspec", "native"]


class WebServer(HttpServer):
    """Serves one file, and does not know If-Match.

    Attributes:
        headers: headers of all answers.
        swaps: the data and the headers from the third request for data on.
    """

    def __init__(self, data):
        self.data = data
        self.headers = {"ETag": '"1"'}
        self.swaps = None
        self._asked = 0
        self._counting = threading.Lock()
        super().__init__()

    def respond(self, request):
        if request.range is None:
            return Response(200, self.data, dict(self.headers))
        with self._counting:
            self._asked += self.swaps is not None
            if self._asked == 3:
                self.data, self.headers = self.swaps
        return ranged(request.range, self.data, dict(self.headers))


def file_of(number):
    """Return a file whose values alone depend on the number."""
    sink = pa.BufferOutputStream()
    table = pa.table({"x": [number * ROWS + row for row in range(ROWS)]})
    options = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    pq.write_table(table, sink, row_group_size=ROWS // 10, **options)
    return sink.getvalue().to_pybytes()


@pytest.fixture
def server():
    with WebServer(file_of(0)) as server:
        yield server


def remote(server, transport):
    io = IO(transport=transport, retries=1, timeout_s=2.0, hole_bytes=0, request_bytes=2000)
    return FastParquetDataset(f"{server.url}/a.parquet", io=io)


def read(dataset):
    return [value for batch in dataset for value in batch["x"].tolist()]


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"ETag": '"1"'}, {"ETag": '"2"'}),
        ({"ETag": 'W/"1"'}, {"ETag": 'W/"2"'}),
        ({"Last-Modified": OLD}, {"Last-Modified": NEW}),
    ],
    ids=["ETag", "weak ETag", "Last-Modified"],
)
def test_a_file_replaced_in_mid_pass(server, transport, before, after):
    server.headers = before
    with remote(server, transport) as dataset:
        server.swaps = file_of(1), after
        with pytest.raises(SourceChangedError, match=r" - at http://.*a\.parquet, row group"):
            read(dataset)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("version", [{}, {"ETag": '"1"'}, {"Last-Modified": OLD}])
def test_versions_that_only_listings_have(server, transport, version):
    respond = server.respond

    def without(request):
        server.headers = version if request.range is None else {}
        return respond(request)

    server.respond = without
    with remote(server, transport) as dataset:
        assert read(dataset) == list(range(ROWS))


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_another_range_of_the_same_length(server, transport):
    respond = server.respond

    def other(request):
        answer = respond(request)
        if request.range is None:
            return answer
        length = len(answer.body)
        return ranged(f"bytes={length}-{2 * length - 1}", server.data, server.headers)

    with remote(server, transport) as dataset:
        server.respond = other
        with pytest.raises(StorageError, match="offset"):
            read(dataset)


@pytest.mark.parametrize("part", [False, True])
def test_answers_without_a_whole_content_range(server, part):
    respond = server.respond

    def other(request):
        answer = respond(request)
        given = answer.headers.pop("Content-Range", None)
        if given and part:
            answer.headers["Content-Range"] = f"{given.partition('/')[0]}/*"
        return answer

    server.respond = other
    with remote(server, "auto") as dataset:
        assert read(dataset) == list(range(ROWS))


def test_a_whole_file_is_not_read_in_place_of_a_range(server):
    server.data = bytes(64 << 20)
    server.respond = lambda request: Response(200, server.data)
    with pytest.raises(StorageError, match="Expected a store that answers with ranges"):
        remote(server, "fsspec")
    assert max(request.sent for request in server.requests if request.range) < 32 << 20


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_file_that_is_gone(server, transport):
    with remote(server, transport) as dataset:
        server.respond = lambda request: Response(410)
        with pytest.raises(SourceChangedError, match=r" - at http://.*a\.parquet, row group"):
            read(dataset)


@pytest.mark.parametrize("fault", [Fault("stall"), Fault("reset"), Fault(403)])
def test_a_look_that_nobody_waits_for_any_more_logs_nothing(server, caplog, fault):
    respond = server.respond

    def slow(request):
        time.sleep(0.05 if request.range is None else 0)
        return respond(request)

    with remote(server, "fsspec") as dataset:
        server.respond, server.fault = slow, lambda request: fault
        iter(dataset)
        time.sleep(0.1)
    del dataset
    gc.collect()
    assert not caplog.records
