"""Servers whose listings have other files than were asked for or no end, and odd names."""

from __future__ import annotations

import asyncio
import re
from contextlib import closing

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastload import IO, FastParquetDataset, StorageError
from fastload.source.stores.obstore_store import NativeStore
from support.stores import GcsServer

KEYS = {"key": "someone", "secret": "something"}


class ListedServer(GcsServer):
    """An S3 that ignores `prefix`, or that sends the same page again and again."""

    endless = False
    ignores_prefix = False

    def _page(self, request, bucket, token_name, most_name):
        if self.ignores_prefix:
            request.query.pop("prefix", None)
        if not self.endless or len(self.requests) > 50:
            return super()._page(request, bucket, token_name, most_name)
        request.query.pop(token_name, None)
        objects, prefixes, _ = super()._page(request, bucket, token_name, most_name)
        return objects, prefixes, "again"


@pytest.fixture
def server(tmp_path):
    with closing(ListedServer()) as server:
        for directory, values in (("train", [1, 2]), ("trainer", [3]), ("other", [4, 5, 6])):
            path = tmp_path / "a.parquet"
            pq.write_table(pa.table({"x": values}), path)
            server.put("bucket", f"{directory}/a.parquet", path.read_bytes())
        yield server


def native(server, directory):
    """Return the names of files below a directory, as obstore lists them."""
    store = NativeStore("s3", {"endpoint_url": server.url, **KEYS}, IO())
    return [file.path for file in asyncio.run(store.ls(directory))]


@pytest.mark.parametrize("path", ["train", "train/", "train/*.parquet"])
def test_files_beside_the_prefix_are_no_files_of_it(server, path):
    pytest.importorskip("s3fs")
    server.ignores_prefix = True
    options = {"endpoint_url": server.url, **KEYS}
    source = f"s3://bucket/{path}"
    with FastParquetDataset(source, storage_options=options, batch_size=10) as dataset:
        assert [batch["x"].tolist() for batch in dataset] == [[1, 2]]


@pytest.mark.parametrize("directory", ["bucket/train", "bucket/train/"])
def test_files_beside_the_prefix_are_no_files_of_it_natively(server, directory):
    server.ignores_prefix = True
    assert native(server, directory) == ["bucket/train/a.parquet"]
    assert len(native(server, "bucket")) == 3


@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_a_page_that_comes_again_ends_a_listing(server, scheme):
    pytest.importorskip("s3fs")
    server.endless = True
    options = {"endpoint_url": server.url, **(KEYS if scheme == "s3" else {"token": "anon"})}
    said = (
        f"Expected a listing with an end, got the token 'again' of the next page twice from "
        f"{server.url}"
    )
    with pytest.raises(StorageError, match=f"^{re.escape(said)}.* - at {scheme}://bucket/train"):
        FastParquetDataset(f"{scheme}://bucket/train", storage_options=options)


def test_a_page_that_comes_again_ends_a_listing_natively(server):
    server.endless = True
    with pytest.raises(StorageError, match=r"end, got s3://bucket/train/a\.parquet twice"):
        native(server, "bucket/train")


@pytest.mark.parametrize("transport", ["auto", "fsspec"])
@pytest.mark.parametrize("name", ["x#123", "x.parquet#123", "x?generation=123"])
def test_a_name_that_gcsfs_takes_for_a_generation(server, tmp_path, name, transport):
    server.put("bucket", f"odd/{name}", (tmp_path / "a.parquet").read_bytes())
    options, io = {"endpoint_url": server.url, "token": "anon"}, IO(transport=transport)
    source = f"gs://bucket/odd/{name}"
    with FastParquetDataset(source, storage_options=options, io=io, batch_size=10) as dataset:
        assert [batch["x"].tolist() for batch in dataset] == [[4, 5, 6]]
        assert [file.rpartition("/")[2] for file in dataset.files] == [name]
