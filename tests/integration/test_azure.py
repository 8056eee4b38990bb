"""Reads of az:// through obstore, with listings and footers from a separate process."""

import subprocess
import sys

import pytest

from fastload import IO, FastParquetDataset, SourceChangedError, StorageError
from support.stored_dataset import assert_same
from support.stores import AzureServer

COLUMNS = ["c3", "s"]
KEY = "c2VjcmV0"


@pytest.fixture
def server(paths):
    with AzureServer() as server:
        for path in paths:
            server.blobs[f"train/day=1/{path.name}"] = path.read_bytes()
        yield server


def read(source, **options):
    io = IO(transport="native", retries=1)
    return FastParquetDataset(source, columns=COLUMNS, storage_options=options, io=io)


def test_as_local(server, paths):
    """With each kind of credential."""
    endpoint = {"endpoint_url": server.endpoint}
    text = f"AccountName=account;AccountKey={KEY};BlobEndpoint={server.endpoint}/"
    kinds = [
        ({"account_name": "account", "account_key": KEY, **endpoint}, "SharedKey account:", None),
        ({"connection_string": text}, "SharedKey account:", None),
        ({"account_name": "account", "sas_token": "sv=1&sig=abc", **endpoint}, None, "abc"),
        ({"account_name": "account", **endpoint}, None, None),
    ]
    for options, authorization, signature in kinds:
        server.reset()
        with read("az://container/train/**/*.parquet", **options) as dataset:
            got = list(dataset)
        with FastParquetDataset([str(p) for p in paths], columns=COLUMNS) as local:
            assert_same(got, local)
        assert any("comp" in request.query for request in server.requests)
        assert {request.status for request in server.requests} == {200, 206}
        for request in server.requests:
            assert (request.headers.get("authorization") or "").startswith(authorization or "")
            assert ("authorization" in request.headers) == (authorization is not None)
            assert request.query.get("sig") == signature


def test_a_host_in_the_url(server, paths):
    source = "abfss://container@account.dfs.core.windows.net/train/day=1/part-0.parquet"
    with read(source, endpoint_url=server.endpoint, account_key=KEY) as dataset:
        got = list(dataset)
        assert dataset.files == (source,)
    with FastParquetDataset(str(paths[0]), columns=COLUMNS) as local:
        assert_same(got, local)


def test_a_blob_that_is_replaced(server, paths):
    with read("az://container/train/", account_name="account", endpoint_url=server.endpoint) as d:
        server.blobs["train/day=1/part-1.parquet"] = paths[0].read_bytes()
        with pytest.raises(SourceChangedError, match="at az://container/train/day=1/part-1"):
            list(d)


def test_nothing_there(server):
    with pytest.raises(FileNotFoundError, match="at az://container/nowhere"):
        read("az://container/nowhere/", account_name="account", endpoint_url=server.endpoint)


FORKED_WORKERS = """
import sys
from torch.utils.data import DataLoader
from fastload import IO, FastParquetDataset

options = {"account_name": "account", "endpoint_url": sys.argv[1]}
for transport in ("native", "auto"):
    source, io = "az://container/train/", IO(transport=transport)
    with FastParquetDataset(source, storage_options=options, io=io) as dataset:
        loader = DataLoader(
            dataset, batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=60
        )
        print(sum(len(batch["c3"]) for batch in loader))
        if transport == "native":  # from now on, forked workers can't use obstore
            print(sum(len(batch["c3"]) for batch in dataset))
"""


def test_forked_workers(server, paths):
    """The process that makes the dataset lists without obstore, so that its workers can use it."""
    found = subprocess.run(
        [sys.executable, "-c", FORKED_WORKERS, server.endpoint],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    with FastParquetDataset([str(p) for p in paths], columns=COLUMNS) as local:
        rows = sum(len(batch["c3"]) for batch in local)
    assert found.stdout.split() == [str(rows)] * 3


def test_a_credential_that_obstore_does_not_know(server):
    with pytest.raises(StorageError, match=r"adlfs.*`credential`"):
        read("az://container/train/", account_name="account", credential=object())
