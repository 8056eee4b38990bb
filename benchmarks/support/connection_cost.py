"""Cost that a new connection adds to a request: the handshakes of TCP and of TLS."""

from __future__ import annotations

import ssl
import statistics
import subprocess
import tempfile
import time
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from support.click_log_store import serve

if TYPE_CHECKING:
    from collections.abc import Sequence

_TRIES = 9


def measure(host: str, within: Sequence[str]) -> tuple[float, float]:
    """Measure the seconds that TCP adds, and the seconds that TLS adds to TCP, as medians.

    Args:
        host: address of the servers, as `serve` takes the address.
        within: command that runs the servers, as `serve` takes the command.
    """
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryDirectory() as empty:
        certificate = _certificate(Path(directory))
        with serve(empty, 0.0, host, within) as store:
            tcp_s = _median_s(store.url)
        with serve(empty, 0.0, host, within, certificate) as store:
            return tcp_s, _median_s(store.url) - tcp_s


def _median_s(url: str) -> float:
    return statistics.median(_connection_s(url) for _ in range(_TRIES))


def _connection_s(url: str) -> float:
    """Return the seconds of a first request minus those of a second on the same connection."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection = HTTPConnection(parts.hostname, parts.port)
    if parts.scheme == "https":
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = HTTPSConnection(parts.hostname, parts.port, context=context)
    try:
        first_s, second_s = _request_s(connection), _request_s(connection)
    finally:
        connection.close()
    return first_s - second_s


def _request_s(connection: HTTPConnection) -> float:
    start = time.perf_counter()
    connection.request("GET", "/storage/v1/b/bucket")
    connection.getresponse().read()
    return time.perf_counter() - start


def _certificate(directory: Path) -> Path:
    """Write a self-signed certificate and its key to one file."""
    key, certificate, both = (directory / name for name in ("key", "certificate", "both"))
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1"
    options = ["-subj", "/CN=store", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command.split(), *options], check=True, capture_output=True)  # noqa: S603 - our own
    both.write_bytes(key.read_bytes() + certificate.read_bytes())
    return both
