"""A few of the endings that `make faults-store` looks at in full."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from store_faults import MOMENTS, Stage, is_as_expected
from support.stores import Fault, GcsServer

SECRET = "s3cr3t-t0k3n"


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    stage = Stage(tmp_path_factory.mktemp("stage"))
    yield stage
    stage.close()


@pytest.mark.parametrize("transport", ["fsspec", "native"])
@pytest.mark.parametrize(
    ("name", "moments"),
    [
        ("reset in mid-body", MOMENTS),
        ("stalled body", ["listing"]),
        ("wrong bytes", ["listing", "footer", "mid-epoch"]),
        ("one bad body", ["footer", "mid-epoch"]),
        ("shifted range", ["last request"]),
        ("odd 200", ["first row group"]),
        ("changed generation", MOMENTS),
        ("change not heeded", ["mid-epoch"]),
        ("403", MOMENTS),
        ("404", ["listing", "footer", "last request"]),
        ("redirect", MOMENTS),
        ("no such host", ["listing", "first row group"]),
    ],
)
def test_ending(stage, name, moments, transport):
    for moment in moments:
        ended, seconds, message = stage.run(name, moment, transport, "threads")
        assert is_as_expected(name, moment, ended, seconds, message), (moment, ended, message)


@pytest.mark.parametrize(
    ("name", "moment"),
    [("503", "first row group"), ("reset", "last request"), ("403", "mid-epoch")],
)
def test_ending_in_workers(stage, name, moment):
    """Forked from a process that has used the other client."""
    ended, seconds, message = stage.run(name, moment, "fsspec", "fork")
    assert is_as_expected(name, moment, ended, seconds, message), (ended, message)


@pytest.mark.parametrize("kind", ["gs by gcsfs", "gs by obstore", "s3 by obstore"])
def test_another_host_is_told_no_credential(kind, monkeypatch):
    """When a store redirects there."""
    from google.oauth2.credentials import Credentials

    from fastload import IO
    from fastload.source.files import StoredFile
    from fastload.source.stores.fsspec_store import open_protocol
    from fastload.source.stores.obstore_store import NativeStore

    async def read():
        options = {"endpoint_url": server.url}
        if kind == "gs by gcsfs":
            options["token"] = Credentials(token=SECRET)
            store = await open_protocol("gs", options, IO(), None)
        elif kind == "gs by obstore":
            store = NativeStore("gs", options, IO())
        else:
            options |= {"key": "key", "secret": "secret", "token": SECRET}
            store = NativeStore("s3", options, IO())
        try:
            return bytes(await store.read(StoredFile("bucket/name", 100), 10, 20))
        finally:
            await store.close()

    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", SECRET)
    with GcsServer() as server, GcsServer() as other:
        for each in (server, other):
            each.put("bucket", "name", bytes(range(100)))
        server.fault = lambda request: Fault(
            307, headers={"Location": other.url.replace("127.0.0.1", "localhost") + request.target}
        )
        with contextlib.suppress(Exception):  # not to follow would be right, too
            assert asyncio.run(read()) == bytes(range(10, 20))
        assert any(SECRET in str(request.headers) for request in server.requests)
        for request in other.requests:
            # The token of temporary S3 keys is none by itself; obstore sends it along.
            headers = {k: v for k, v in request.headers.items() if k != "x-amz-security-token"}
            assert "authorization" not in headers
            assert SECRET not in str(headers)
