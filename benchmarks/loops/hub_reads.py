"""Passes over files of a simulated Hugging Face Hub, by both transports: seconds, CPU, requests.

python benchmarks/loops/hub_reads.py --files 12 --rows 1000000
python benchmarks/loops/hub_reads.py --files 200 --rows 8000
"""

from __future__ import annotations

import argparse
import io
import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from fastload import IO, FastParquetDataset
from support.stores import HubServer

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

COLUMNS = 8
PASSES = 2


def _file_of(rows: int) -> bytes:
    random = np.random.default_rng(0)
    columns = {f"c{i}": random.integers(0, 1 << 60, rows) for i in range(COLUMNS)}
    sink = io.BytesIO()
    options = {"compression": "none", "use_dictionary": False}
    pq.write_table(pa.table(columns), sink, row_group_size=max(1, rows // 8), **options)
    return sink.getvalue()


def _serve(pipe: Connection, files: int, rows: int, latency_s: float) -> None:
    with HubServer() as server:
        data = _file_of(rows)
        server.commit("org/name", {f"data/part-{n}.parquet": data for n in range(files)})
        server.cdn.latency_s = latency_s
        pipe.send(server.url)
        while pipe.recv() == "count":
            pipe.send({**server.counts, "connections": server.cdn.connections})
            server.reset()


def _count(pipe: Connection) -> dict[str, int]:
    pipe.send("count")
    counts: dict[str, int] = pipe.recv()
    return counts


def _measure(url: str, pipe: Connection, transport: Any, *, shuffle: bool) -> None:
    with tempfile.TemporaryDirectory() as cache:
        os.environ["FASTLOAD_CACHE_DIR"] = cache
        dataset = FastParquetDataset(
            "hf://datasets/org/name",
            batch_size=20_000,
            shuffle=shuffle,
            shuffle_window=250_000,
            storage_options={"endpoint": url, "token": False},
            io=IO(transport=transport),
        )
        print(transport, "shuffled" if shuffle else "in order", "start", _count(pipe))
        for _ in range(PASSES):
            began, cpu = time.perf_counter(), time.process_time()
            for _ in dataset:
                pass
            seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
            print(f"  a pass: {seconds:.2f} s, CPU {cpu:.2f} s", _count(pipe))
        dataset.close()


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=12)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--latency-ms", type=float, default=20)
    given = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    pipe, other = context.Pipe()
    server = context.Process(
        target=_serve, args=(other, given.files, given.rows, given.latency_ms / 1000)
    )
    server.start()
    url = pipe.recv()
    for transport in ("native", "fsspec") * 2:
        for shuffle in (False, True):
            _measure(url, pipe, transport, shuffle=shuffle)
    pipe.send("end")
    server.join()


if __name__ == "__main__":
    main()
