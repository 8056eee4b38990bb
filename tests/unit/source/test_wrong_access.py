"""What is wrong with the access to a store, and stays wrong, is said at once."""

from __future__ import annotations

import os

import pytest

from fastload import IO, FastParquetDataset, StorageError
from fastload.source.stores.errors import meaning


@pytest.mark.parametrize(
    ("url", "options", "said"),
    [
        ("s3://bucket/a", {"profile": "none-such"}, r"profile \(none-such\) could not be found"),
        ("s3://bucket/a", {"key": "a"}, "Partial credentials found .*missing: aws_secret_access"),
        ("s3://No Bucket/a", {"key": "a", "secret": "b"}, 'Invalid bucket name "No Bucket"'),
        ("gs://bucket/a", {"endpoint_url": "host:9000", "token": "anon"}, "NonHttpUrl.*host:9000"),
    ],
)
def test_a_wrong_setting_is_not_tried_again(url, options, said):
    pytest.importorskip("s3fs")
    with pytest.raises(StorageError, match=said) as raised:
        FastParquetDataset(url, storage_options=options)
    assert "tries" not in str(raised.value)


def test_missing_credentials_are_looked_for_a_few_times(monkeypatch, tmp_path):
    """A metadata server that has too much to do may give them later."""
    pytest.importorskip("s3fs")
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(StorageError, match=r"NoCredentialsError.* after 4 tries"):
        FastParquetDataset("s3://bucket/a")
    with pytest.raises(StorageError, match=r"NoCredentialsError.* after 2 tries"):
        FastParquetDataset("s3://bucket/a", io=IO(retries=1))


@pytest.mark.parametrize("transport", ["auto", "native", "fsspec"])
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("endpoint", "got `endpoint`: write `endpoint_url`"),
        ("tokn", "got `tokn`: write `token`"),
        ("anon", 'got `anon`: write `token="anon"`'),
        ("zzzzzzzz", "got `zzzzzzzz`$"),
    ],
)
def test_options_that_gcsfs_would_ignore(transport, name, said):
    pytest.importorskip("gcsfs")
    with pytest.raises(ValueError, match=f"Expected storage_options that gcsfs knows .*{said}"):
        FastParquetDataset("gs://bucket/a", storage_options={name: "a"}, io=IO(transport=transport))


@pytest.mark.parametrize("scheme", ["gs", "gcs"])
@pytest.mark.parametrize("chain", ["zip://a.parquet::", "filecache::", "filecache::zip://a::"])
def test_options_that_gcsfs_would_ignore_in_a_chain(chain, scheme):
    pytest.importorskip("gcsfs")
    match = "Expected storage_options that gcsfs knows .*got `tokn`: write `token`"
    options = {scheme: {"tokn": "anon", "endpoint_url": "http://127.0.0.1:1"}}
    with pytest.raises(ValueError, match=match):
        FastParquetDataset(f"{chain}{scheme}://bucket/a", storage_options=options)


@pytest.mark.parametrize("url", ["az://container/a", "abfs://container/a"])
def test_azure_without_an_account(monkeypatch, url):
    for name in ("ACCOUNT_NAME", "CONNECTION_STRING"):
        monkeypatch.delenv(f"AZURE_STORAGE_{name}", raising=False)
    with pytest.raises(StorageError, match=r"storage account, got none: write .*account_name"):
        FastParquetDataset(url, io=IO(retries=3))


class GenericError(Exception):
    """An error with the name of obstore's."""


class ClientProxyConnectionError(Exception):
    """An error with the name of aiohttp's."""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            GenericError("GET https://a.example/x in 1s - HTTP error: error sending request"),
            "error sending request, through the environment's proxy HTTPS_PROXY=http://p:1 after",
        ),
        (
            GenericError("GET http://a.example/x in 1s - HTTP error: error sending request"),
            "error sending request, through the environment's proxy HTTP_PROXY=http://q:2 after",
        ),
        (
            GenericError("GET http://local/x in 1s - HTTP error: error sending request"),
            "error sending request after",
        ),
        (
            ClientProxyConnectionError("Cannot connect to host p:1"),
            "proxy HTTPS_PROXY=http://p:1 or HTTP_PROXY=http://q:2 after",
        ),
        (GenericError("the disk is full"), "the disk is full after"),
    ],
)
def test_the_proxy_of_a_failed_connection_is_named(monkeypatch, error, said):
    for name, value in (
        ("https_proxy", "http://user:secret@p:1"),
        ("http_proxy", "http://q:2"),
        ("no_proxy", "local"),
    ):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("all_proxy", raising=False)
    monkeypatch.delenv("ALL_PROXY", raising=False)
    text = str(meaning(error, "5 bytes", 3))
    assert text.endswith(f"{said} 3 tries")
    assert "secret" not in text


def test_no_proxy_is_named_without_one(monkeypatch):
    monkeypatch.setattr("fastload.source.stores.errors.getproxies", dict)
    error = GenericError("GET https://a.example/x in 1s - HTTP error: error sending request")
    assert "proxy" not in str(meaning(error, "5 bytes", 1))
