"""What reads the columns of a click log from a store, into tensors, and returns their sums."""

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
from fastload.tools.bench import environments
from fastload.tools.bench.peers.windows import table_tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from support.click_log_store import Store

# One pass: reads, and returns the sums unless it drops what it reads.
Reader: TypeAlias = "Callable[[], dict[str, int] | None]"
_SOURCE = "gs://bucket/train/*.parquet"


class Ideal:
    """obstore, and nothing else: as many requests in flight, their bytes dropped."""

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
        """One pass."""
        asyncio.run(self._run())

    async def _run(self) -> None:
        import obstore

        left = iter(self._requests)

        async def worker() -> None:
            for name, start, stop in left:
                await obstore.get_range_async(self._store, f"train/{name}", start=start, end=stop)

        await asyncio.gather(*(worker() for _ in range(self._connections)))


def sums(batches: Iterable[Mapping[str, torch.Tensor]]) -> dict[str, int]:
    """Of all values of each column."""
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
    """The dataset."""
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
    """pyarrow.dataset, with Arrow's own client."""
    from pyarrow.fs import GcsFileSystem

    scheme, _, place = store.url.partition("://")
    return _arrow(GcsFileSystem(anonymous=True, scheme=scheme, endpoint_override=place))


def arrow_gcsfs(store: Store) -> Reader:
    """pyarrow.dataset, with gcsfs."""
    from gcsfs.core import GCSFileSystem

    return _arrow(GCSFileSystem(skip_instance_cache=True, **store.options))


def _arrow(filesystem: Any) -> Reader:
    dataset = pads.dataset("bucket/train", filesystem=filesystem, format="parquet")

    def run() -> dict[str, int]:
        batches = dataset.to_batches(columns=COLUMNS, batch_size=BATCH_SIZE)
        return sums(table_tensors(batch, COLUMNS) for batch in batches)

    return run


def huggingface(store: Store) -> Reader:
    """`load_dataset(..., streaming=True).with_format("arrow")`: its quickest way, over gcsfs."""
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
    """LitData's StreamingDataset of Parquet files in place; its cache is empty before each pass.

    directory: of the same files, here; their index is left in it, for the store takes no uploads.
    """
    import litdata as lit
    from google.auth.credentials import AnonymousCredentials
    from litdata.streaming.item_loader import ParquetLoader

    client = {
        "project": "bench",
        "client_options": {"api_endpoint": store.url},
        "credentials": AnonymousCredentials(),  # type: ignore[no-untyped-call]
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
    """A sentence if one of them is not installed."""
    for package in packages:
        if environments.version(package) is None:
            return f"{package} is not installed: left out"
    return None


def prepare() -> None:
    """Before any reader: the loaders of others keep silent, and gcsfs off gRPC, as fastload's."""
    os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"  # read when gcsfs is imported
    logging.getLogger("litdata").setLevel(logging.ERROR)
    logging.getLogger("datasets").setLevel(logging.ERROR)
    # Where others keep the cores busy, threads that share a sum wait up to 50 ms for each other.
    torch.set_num_threads(1)
