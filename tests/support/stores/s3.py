"""An S3 that moto plays, and objects that a test writes to the S3."""

from __future__ import annotations

import urllib.request
from contextlib import contextmanager

import pytest

KEYS = {"key": "someone", "secret": "something"}
# A signature that moto does not look at: who asks without one is nobody, who may only read.
_SIGNED = {
    "Authorization": "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request, Signature=b"
}


@contextmanager
def moto():
    """Run an S3 with an empty bucket of the name `bucket`; yield the URL of the S3."""
    server_module = pytest.importorskip("moto.server")
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    put(f"{url}/bucket", b"")
    yield url
    server.stop()


def put(url, data, method="PUT", **headers):
    """Write an object, or what else the URL names; return the answer."""
    headers = {**_SIGNED, "Content-Type": "application/octet-stream", **headers}
    request = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=20) as answer:
        return answer.read()


def forget_credentials(monkeypatch, directory):
    """Hide the user's credentials from clients of S3; there is no file `none` in `directory`."""
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(directory / "none"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
