"""A bucket of the user's, where FASTLOAD_TEST_BUCKET names one: tests/README.md says more."""

from __future__ import annotations

import json
import os
import uuid

import fsspec
import pytest
from torch.utils.data import DataLoader

from fastload import IO, FastParquetDataset, SourceChangedError
from support.stored_dataset import assert_same

BUCKET = os.environ.get("FASTLOAD_TEST_BUCKET", "")
OPTIONS = json.loads(os.environ.get("FASTLOAD_TEST_STORAGE_OPTIONS", "{}"))
COLUMNS = ["c3", "c14", "s"]

pytestmark = pytest.mark.skipif(not BUCKET, reason="FASTLOAD_TEST_BUCKET names no bucket")


@pytest.fixture(scope="module")
def url(paths):
    """A directory of the bucket with the files, deleted afterwards."""
    url = f"{BUCKET.rstrip('/')}/fastload-test-{uuid.uuid4().hex}"
    filesystem, place = fsspec.url_to_fs(url, **OPTIONS)
    try:
        for path in paths:
            filesystem.pipe_file(f"{place}/train/{path.name}", path.read_bytes())
        yield url
    finally:
        filesystem.rm(place, recursive=True)


def remote(source, transport, **options):
    io = IO(transport=transport, concurrency=8)
    return FastParquetDataset(source, columns=COLUMNS, storage_options=OPTIONS, io=io, **options)


@pytest.mark.parametrize("transport", ["fsspec", "native"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_as_local(url, paths, transport, shuffle):
    options = {"shuffle": shuffle, "batch_size": 700}
    with (
        remote(f"{url}/train/*.parquet", transport, **options) as dataset,
        FastParquetDataset([str(p) for p in paths], columns=COLUMNS, **options) as local,
    ):
        for _ in range(2):
            assert_same(dataset, local)


@pytest.mark.parametrize("transport", ["fsspec", "auto"])
def test_workers(url, paths, transport):
    def loader(dataset):
        return DataLoader(dataset, batch_size=None, num_workers=2, timeout=120)

    with (
        remote(f"{url}/train/", transport) as dataset,
        FastParquetDataset([str(p) for p in paths], columns=COLUMNS) as local,
    ):
        assert_same(loader(dataset), loader(local))


@pytest.mark.parametrize("transport", ["fsspec", "native"])
def test_a_file_that_is_replaced(url, paths, transport):
    filesystem, place = fsspec.url_to_fs(url, **OPTIONS)
    name = f"{transport}/part.parquet"
    filesystem.pipe_file(f"{place}/{name}", paths[0].read_bytes())
    with remote(f"{url}/{name}", transport) as dataset:
        filesystem.pipe_file(f"{place}/{name}", paths[1].read_bytes())
        with pytest.raises(SourceChangedError, match=name):
            list(dataset)
