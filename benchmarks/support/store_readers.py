"""Readers of the columns of a click log in a store, which return sums of the tensors."""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow.dataset as pads
import torch
from support.click_log_store import BATCH_SIZE, COLUMNS

from fastload import IO, FastParquetDataset
from fastload.tools.bench.machine import version_of
from fastload.tools.bench.peers.windows import table_tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from support.click_log_store import Store

# A function that reads one pass, and returns the sums; None if it drops the bytes.
Reader: TypeAlias = "Callable[[], dict[str, int] | None]"
_SOURCE = "gs://bucket/train/*.parquet"


class Ideal:
    """obstore alone: as many requests in flight as fastload has, and the bytes are dropped."""

    def __init__(
        self, store: Store, requests: list[tuple[str, int, int]], connections: int
    ) -> None:
        from obstore.store import GCSStore

        self._requests = requests
        self._connections = connections
        self._store = GCSStore(
            "bucket",
            config={"base_url": store.url, "skip_signature": True},
            client_options={"allow_http": True},
        )

    def __call__(self) -> None:
        """Read one pass."""
        asyncio.run(self._run())

    async def _run(self) -> None:
        import obstore

        left = iter(self._requests)

        async def worker() -> None:
            for name, start, stop in left:
                await obstore.get_range_async(self._store, f"train/{name}", start=start, end=stop)

        await asyncio.gather(*(worker() for _ in range(self._connections)))


def sums(batches: Iterable[Mapping[str, torch.Tensor]]) -> dict[str, int]:
    """Return the sum of all values of each column."""
    total = dict.fromkeys(COLUMNS, 0)
    for batch in batches:
        for name in COLUMNS:
            total[name] += int(batch[name].sum())
    return total


def fastload(
    store: Store,
    transport: str,
    connections: int,
    threads: int | None = None,
    limit: int | None = None,
) -> FastParquetDataset:
    """Return the dataset."""
    return FastParquetDataset(
        _SOURCE,
        columns=COLUMNS,
        batch_size=BATCH_SIZE,
        limit=limit,
        threads=threads,
        storage_options=store.options,
        io=IO(transport=transport, concurrency=connections),  # type: ignore[arg-type]
    )


def arrow_gcs(store: Store) -> Reader:
    """Return a reader of pyarrow.dataset with Arrow's own client."""
    from pyarrow.fs import GcsFileSystem

    scheme, _, place = store.url.partition("://")
    return _arrow(GcsFileSystem(anonymous=True, scheme=scheme, endpoint_override=place))


def arrow_gcsfs(store: Store) -> Reader:
    """Return a reader of pyarrow.dataset with gcsfs."""
    from gcsfs.core import GCSFileSystem

    return _arrow(GCSFileSystem(skip_instance_cache=True, **store.options))


def _arrow(filesystem: Any) -> Reader:
    dataset = pads.dataset("bucket/train", filesystem=filesystem, format="parquet")

    def run() -> dict[str, int]:
        batches = dataset.to_batches(columns=COLUMNS, batch_size=BATCH_SIZE)
        return sums(table_tensors(batch, COLUMNS) for batch in batches)

    return run


def huggingface(store: Store) -> Reader:
    """Return a reader of Hugging Face datasets over gcsfs, in its fastest format, arrow."""
    import datasets

    rows: Any = datasets.load_dataset(
        "parquet",
        data_files=_SOURCE,
        split="train",
        streaming=True,
        columns=COLUMNS,
        storage_options=store.options,
    ).with_format("arrow")
    return lambda: sums(table_tensors(table, COLUMNS) for table in rows.iter(BATCH_SIZE))


def litdata(store: Store, directory: Path) -> Reader:
    """Return a reader of LitData's StreamingDataset of Parquet files, without a cache.

    Args:
        store: the store with the files.
        directory: local directory of the same files; LitData writes its index to this directory,
            because the store takes no uploads.
    """
    import litdata as lit
    from google.auth.credentials import AnonymousCredentials
    from litdata.streaming.item_loader import ParquetLoader

    client = {
        "project": "bench",
        "client_options": {"api_endpoint": store.url},
        "credentials": AnonymousCredentials(),
    }
    lit.index_parquet_dataset(str(directory), num_workers=1)

    def run() -> dict[str, int]:
        with tempfile.TemporaryDirectory() as cache:
            dataset = lit.StreamingDataset(
                "gs://bucket/train",
                cache_dir=cache,
                index_path=str(directory),
                item_loader=ParquetLoader(columns=COLUMNS),
                storage_options=client,
            )
            return sums(lit.StreamingDataLoader(dataset, batch_size=BATCH_SIZE, num_workers=0))

    return run


def missing(packages: tuple[str, ...]) -> str | None:
    """Return a sentence about the first package that is not installed; None if all are."""
    for package in packages:
        if version_of(package) is None:
            return f"{package} is not installed: left out"
    return None


def prepare() -> None:
    """Prepare the process for all readers: silence other loaders, and keep gcsfs off gRPC."""
    os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"  # read when gcsfs is imported
    logging.getLogger("litdata").setLevel(logging.ERROR)
    logging.getLogger("datasets").setLevel(logging.ERROR)
    # On busy cores, threads that share a sum would wait for each other for up to 50 ms.
    torch.set_num_threads(1)
