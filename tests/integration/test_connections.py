"""Connections to a store: few, kept, and secured."""

from __future__ import annotations

import datetime
import io
import ipaddress
import itertools
import json
import os
import socket
import subprocess
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastload import IO, FastParquetDataset
from support.stores import GcsServer, assert_few_connections

TRANSPORTS = ["fsspec", "native"]
FILES = 1000
ROWS = 7


def small_file(number) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"x": range(number, number + ROWS)}), out)
    return out.getvalue()


@pytest.fixture(scope="module")
def small_files():
    with GcsServer() as server:
        for number in range(FILES):
            server.put("bucket", f"train/{number:04}.parquet", small_file(number))
        yield server


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_connections_live_as_long_as_the_dataset(small_files, transport):
    server, concurrency = small_files, 16

    def most() -> int:
        opened = 0
        with FastParquetDataset(
            "gs://bucket/train/",
            batch_size=ROWS * 100,
            storage_options=server.options,
            io=IO(transport=transport, concurrency=concurrency),
        ) as dataset:
            for _ in range(3):
                server.reset()
                assert sum(int(batch["x"].sum()) for batch in dataset) == sum(
                    ROWS * n + ROWS * (ROWS - 1) // 2 for n in range(FILES)
                )
                opened += server.connections
                # Those that listed are closed.
                opened = max(opened, server.open)
        return opened

    # In all three passes.
    assert_few_connections(most, concurrency)


def test_a_connection_that_its_client_has_closed_is_not_open():
    """Whatever the server's thread is about: else a count would depend on how busy a machine is."""
    with GcsServer() as server:
        server.latency_s = 1.0
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(b"GET /bucket/name HTTP/1.1\r\n\r\n")
            while not server.requests:
                time.sleep(0.01)
            assert server.open == 1
        assert server.open == 0


# Each transport with as many connections as its files may have, in a process whose clients look
# for certificate authorities where it is told.
SCRIPT = """
import json, sys
from fastload import IO, FastParquetDataset
options, concurrency = json.loads(sys.argv[1]), int(sys.argv[2])
for transport in ("fsspec", "native"):
    with FastParquetDataset(
        "gs://bucket/train/*.parquet", batch_size=1000, storage_options=options,
        io=IO(transport=transport, concurrency=concurrency, retries=1),
    ) as dataset:
        print(sum(int(batch["x"].sum()) for _ in range(2) for batch in dataset))
"""


def test_tls(tmp_path):
    """With a certificate authority of one's own."""
    pytest.importorskip("cryptography")
    certificate = make_certificate(tmp_path)
    concurrency, files = 4, 40
    with GcsServer(certificate=certificate) as server:
        for number in range(files):
            server.put("bucket", f"train/{number:04}.parquet", small_file(number))
        arguments = [json.dumps(server.options), str(concurrency)]
        run = [sys.executable, "-c", SCRIPT, *arguments]
        expected = 2 * sum(ROWS * n + ROWS * (ROWS - 1) // 2 for n in range(files))
        attempts = itertools.count()

        def opened() -> int:
            server.reset()
            environment = {
                **os.environ,
                "SSL_CERT_FILE": certificate[0],
                "FASTLOAD_CACHE_DIR": str(tmp_path / f"cache-{next(attempts)}"),
            }
            done = subprocess.run(
                run, env=environment, capture_output=True, text=True, timeout=60, check=False
            )
            assert done.returncode == 0, done.stderr
            assert done.stdout.split() == [str(expected)] * 2
            # Two clients' data, and the footers, which the second one finds on disk.
            assert len(server.requests) >= (2 + 1) * files
            assert server.handshakes == server.connections
            return server.connections

        assert_few_connections(opened, 3 * concurrency)
        # Without the authority nothing is read, and the error says why.
        io = IO(transport="native", retries=0)
        with pytest.raises(OSError, match=r"(?i)certificate.*at gs://bucket/train"):
            FastParquetDataset("gs://bucket/train/", storage_options=server.options, io=io)


def make_certificate(directory) -> tuple[str, str]:
    """Files with a certificate of 127.0.0.1 that vouches for itself, and with its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a store on loopback")])
    now = datetime.datetime.now(datetime.timezone.utc)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = (str(directory / "certificate.pem"), str(directory / "key.pem"))
    with open(paths[0], "wb") as file:
        file.write(certificate.public_bytes(serialization.Encoding.PEM))
    with open(paths[1], "wb") as file:
        file.write(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
    return paths
