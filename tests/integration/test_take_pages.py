"""What a take reads: the pages that hold its rows, once, in few rounds of requests."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastload import IO, Cache, FastParquetDataset
from support.same_rows import assert_same_rows
from support.stored_dataset import served
from support.stores.server import rounds

GROUP_ROWS = 20_000
PAGE_ROWS = 500
ROWS = 3 * GROUP_ROWS
COLUMNS = ["number", "text", "code", "list"]
# Lists whose pages hold whole rows are found without an index in pages of version 2 alone.
LAYOUTS = {
    "index": {"write_page_index": True},
    "headers": {"write_page_index": False, "data_page_version": "2.0"},
}


def table_of(rows):
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "number": rng.integers(0, 2**60, rows),
            "text": [f"{k:x}" * 3 for k in rng.integers(0, 2**60, rows).tolist()],
            "code": rng.integers(0, 50, rows).astype(np.int32),
            "list": pa.array([[k, k + 1, k + 2][: 1 + k % 3] for k in range(rows)]),
        }
    )


@pytest.fixture(scope="module")
def table():
    return table_of(ROWS)


@pytest.fixture(scope="module", params=list(LAYOUTS))
def path(request, table, tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / f"{request.param}.parquet"
    pq.write_table(
        table,
        path,
        row_group_size=GROUP_ROWS,
        use_dictionary=["code"],
        max_rows_per_page=PAGE_ROWS,
        write_batch_size=PAGE_ROWS,
        **LAYOUTS[request.param],
    )
    return path


def pages_of(indices):
    return len({(i // GROUP_ROWS, i % GROUP_ROWS // PAGE_ROWS) for i in indices.tolist()})


def counts_of(dataset):
    """The counters of the engine for takes in this process."""
    return dataset._taker._made[os.getpid()].counts()


def test_pages_are_decoded_once(path, table):
    rng = np.random.default_rng(1)
    with FastParquetDataset(path, columns=COLUMNS, threads=2) as dataset:
        dataset.take([0, GROUP_ROWS, -1])
        for count in (1, 10, 300, 3000):
            asked = rng.integers(0, ROWS, count)
            before = counts_of(dataset)
            batch = dataset.take(asked)
            after = counts_of(dataset)
            assert_same_rows([batch], table.take(pa.array(asked)), COLUMNS)
            decoded = after["decoded_pages"] - before["decoded_pages"]
            least = len(COLUMNS) * pages_of(asked)
            # A list that ends a page of version 1 might go on in the next page.
            assert least <= decoded <= 1.05 * least + 1


def test_the_second_take_reads_only_pages_with_rows(path):
    whole = sum(
        pq.read_metadata(path).row_group(0).column(c).total_compressed_size
        for c in range(len(COLUMNS))
    )
    with FastParquetDataset(path, columns=COLUMNS, threads=1) as dataset:
        dataset.take([5])
        before = counts_of(dataset)["read_bytes"]
        dataset.take([GROUP_ROWS - 3])
        assert counts_of(dataset)["read_bytes"] - before < 6 * whole * PAGE_ROWS / GROUP_ROWS


@pytest.fixture
def server(path, tmp_path, monkeypatch):
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(tmp_path / "cache"))
    with served([path]) as server:
        yield server


def remote(server, **options):
    return FastParquetDataset(
        "gs://bucket/train/",
        columns=COLUMNS,
        storage_options=server.options,
        io=IO(transport="native", hole_bytes=1024),
        **options,
    )


def test_two_rounds_of_requests_then_one(server, path, table):
    asked = np.random.default_rng(2).integers(0, ROWS, 20)
    server.latency_s = 0.5
    with remote(server) as dataset:
        for most in (2, 1, 1):
            opened = len(server.requests)
            batch = dataset.take(asked)
            assert_same_rows([batch], table.take(pa.array(asked)), COLUMNS)
            requests = server.requests[opened:]
            assert rounds(requests) <= most
            if most == 1:
                asked = (asked + PAGE_ROWS) % ROWS
        few = path.stat().st_size * len(asked) * PAGE_ROWS / ROWS
        assert sum(request.sent for request in requests) < 1.2 * few


def test_the_raw_tier_keeps_what_a_take_reads(server, tmp_path, table):
    asked = [7, 41_000, 41_001, 59_999]
    cache = Cache(tmp_path / "tier")
    for first in (True, False):
        with remote(server, cache=cache) as dataset:
            opened = len(server.requests)
            batch = dataset.take(asked)
            assert_same_rows([batch], table.take(pa.array(asked)), COLUMNS)
            data = [request for request in server.requests[opened:] if request.sent > 0]
            assert bool(data) == first


def test_pages_of_lists_without_index_or_counts(tmp_path, table):
    """Headers of version 1 do not say how many rows of lists a page has: chunks are read whole."""
    path = tmp_path / "v1.parquet"
    pq.write_table(table, path, row_group_size=GROUP_ROWS, max_rows_per_page=PAGE_ROWS)
    asked = np.random.default_rng(3).integers(0, ROWS, 200)
    with FastParquetDataset(path, columns=COLUMNS) as dataset:
        for _ in range(2):
            batch = dataset.take(asked)
            assert_same_rows([batch], table.take(pa.array(asked)), COLUMNS)
