"""What networks do to reads from a store: healed, or told, and never waited for without end."""

from __future__ import annotations

import threading
import time

import pytest

from fastload import IO, FastParquetDataset, SourceChangedError, SourceNotFoundError, StorageError
from fastload.source.stores.client import backoff_s
from fastload.source.stores.errors import describe, meaning
from support.stored_dataset import assert_same, served
from support.stores import Fault, Response

COLUMNS = ["c3", "c14"]
TRANSPORTS = ["fsspec", "native"]
SECRET = "s3cr3t-t0k3n"
TIMEOUT_S = 1.0


@pytest.fixture
def server(paths):
    with served(paths) as server:
        yield server


def remote(server, transport, *, retries=4, timeout_s=TIMEOUT_S, **options):
    io = IO(transport=transport, retries=retries, timeout_s=timeout_s, hole_bytes=4096)
    return FastParquetDataset(
        "gs://bucket/train/", columns=COLUMNS, io=io, storage_options=server.options, **options
    )


def once_each(fault):
    """Each range fails once; of footers and of column chunks."""
    seen = set()

    def strike(request):
        key = (request.path, request.range)
        if request.range is None or key in seen:
            return None
        seen.add(key)
        return fault

    return strike


HEALED = {
    "408": Fault(408),
    "429": Fault(429),
    "500": Fault(500),
    "503": Fault(503),
    "reset": Fault("reset"),
    "reset in the body": Fault("reset", after=1000),
    "short": Fault("short", after=1000),
    "stall": Fault("stall"),
    "stall in the body": Fault("stall", after=1000),
    "drip": Fault("drip", after=1000),
    "long": Fault("long"),
}


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("fault", HEALED.values(), ids=HEALED.keys())
def test_healed(server, paths, transport, fault):
    server.fault = once_each(fault)
    start = time.monotonic()
    with remote(server, transport) as dataset:
        got = list(dataset)
    assert time.monotonic() - start < 15
    with FastParquetDataset([str(p) for p in paths], columns=COLUMNS) as expected:
        assert_same(got, expected)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("status", [403, 503])
@pytest.mark.parametrize("moment", ["listing", "footers", "data"])
def test_told(server, transport, status, moment):
    def strike(request):
        now = "listing" if request.range is None else "data"
        if now == "data" and not made:
            now = "footers"
        return Fault(status) if now == moment else None

    def read():
        nonlocal made
        # A busy server may answer late; the number of tries is that of the answers alone.
        with remote(server, transport, retries=1, timeout_s=60) as dataset:
            made = True
            list(dataset)

    made = False
    server.fault = strike
    start = time.monotonic()
    with pytest.raises(StorageError, match=" - at gs://bucket/train") as raised:
        read()
    assert time.monotonic() - start < 5
    message = str(raised.value)
    assert message.startswith("Expected ")
    assert "403" in message or "503" in message or "Forbidden" in message
    assert ("after 2 tries" in message) == (status == 503)
    if moment == "data":
        assert "bytes at offset" in message
        assert "row group" in message


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("change", ["replaced", "deleted"])
def test_a_file_that_changes(server, paths, transport, change):
    with remote(server, transport) as dataset:
        if change == "deleted":
            server.delete("bucket", "train/part-2.parquet")
        else:
            server.put("bucket", "train/part-2.parquet", paths[2].read_bytes())
        with pytest.raises(SourceChangedError, match="at gs://bucket/train/part-2"):
            list(dataset)


def test_a_stall_without_end_is_an_error(server):
    with remote(server, "native", retries=1) as dataset:
        server.fault = lambda request: Fault("stall")
        start = time.monotonic()
        with pytest.raises(StorageError, match="after 2 tries"):
            list(dataset)
        assert time.monotonic() - start < 10


def test_a_drip_without_end_is_an_error(server):
    """Which no time-out of one wait finds."""
    with remote(server, "native", retries=1) as dataset:
        server.fault = lambda request: Fault("drip", after=1000)
        start = time.monotonic()
        with pytest.raises(StorageError, match="no answer in time after 2 tries"):
            list(dataset)
        assert time.monotonic() - start < 10


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_close_does_not_wait_for_the_store(server, transport):
    with remote(server, transport) as dataset:
        server.fault = lambda request: Fault("stall") if "part-3" in request.path else None
        iter(dataset)
        time.sleep(0.1)
        assert [request for request in server.requests if "part-3" in request.path]
        start = time.monotonic()
    assert time.monotonic() - start < 1


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_overload_reduces_what_is_in_flight(server, paths, transport):
    """A store that refuses more than so many at a time is read to the end, with few refusals."""
    most = 4
    busy = refused = 0
    lock = threading.Lock()
    answer = server.respond

    def respond(request):
        nonlocal busy, refused
        with lock:
            busy += 1
            admitted = busy <= most
            refused += not admitted
        try:
            time.sleep(0.01)
            return answer(request) if admitted else Response(429)
        finally:
            with lock:
                busy -= 1

    server.respond = respond
    io = IO(transport=transport, hole_bytes=0)
    columns = [f"c{i}" for i in range(1, 20, 2)]
    options = {"columns": columns, "io": io, "storage_options": server.options}
    with FastParquetDataset("gs://bucket/train/", **options) as dataset:
        got = list(dataset)
    with FastParquetDataset([str(p) for p in paths], columns=columns) as expected:
        assert_same(got, expected)
    read = len(server.media_requests()) - refused
    assert read > 150
    # While 64 in flight become 4: 60, 28, 12, 4, or fewer where the server takes them in slowly.
    # Then one for each time that they grow too many.
    assert 0 < refused < 104 + read / 3


def test_a_credential_is_in_no_message(server):
    server.fault = lambda request: Fault(403)
    options = {**server.options, "token": {"type": "service_account", "private_key": SECRET}}
    with pytest.raises(Exception, match="Expected") as raised:
        FastParquetDataset("gs://bucket/train/", storage_options=options, io=IO(retries=0))
    assert SECRET not in str(raised.value)
    url = f"{server.url.replace('://', f'://user:{SECRET}@')}/bucket/x.parquet?signature={SECRET}"
    with pytest.raises((StorageError, SourceNotFoundError)) as raised:
        FastParquetDataset(url, io=IO(retries=0))
    assert SECRET not in str(raised.value)
    error = OSError(f"no route to http://user:{SECRET}@host/x?sig={SECRET} here")
    assert SECRET not in describe(error)
    assert SECRET not in str(meaning(error, "2 bytes at offset 1", 3))


def test_pauses_grow_and_are_drawn():
    assert [backoff_s(i, lambda: 1.0) for i in (1, 2, 3, 4)] == [0.1, 0.2, 0.4, 0.8]
    assert backoff_s(3, lambda: 0.0) == 0.2
    assert backoff_s(50, lambda: 1.0) == 20.0
    # As `IO` and the page on stores say.
    shortest, longest = (
        [backoff_s(i, lambda drawn=drawn: drawn) for i in range(1, 61)] for drawn in (0.0, 1.0)
    )
    assert (round(sum(shortest[: IO().retries])), round(sum(longest[: IO().retries]))) == (13, 26)
    assert set(zip(shortest[8:], longest[8:], strict=True)) == {(10.0, 20.0)}
    assert sum(shortest) > 8 * 60


def test_a_run_continues_after_an_outage(server, paths):
    """In the same process, behind the last batch trained, as the page on stores says."""
    with FastParquetDataset([str(p) for p in paths], columns=COLUMNS, batch_size=100) as plain:
        expected = [batch["c3"].tolist() for batch in plain]
    got = []

    def train():
        nonlocal last
        for last in dataset:
            got.append(last["c3"].tolist())

    last = None
    with remote(server, "native", retries=0, batch_size=100) as dataset:
        server.fault = lambda request: Fault(503) if paths[-1].name in request.path else None
        with pytest.raises(StorageError, match="503"):
            train()
        assert 0 < len(got) < len(expected)
        server.fault = lambda _: None
        dataset.load_state_dict(dataset.state_dict(after=last))
        train()
    assert got == expected
