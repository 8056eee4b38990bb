"""One question: how near does reading from an object store come to a client that drops the bytes?

    python benchmarks/bench_store.py [--files N] [--rows N] [--latency-ms X] [--connections N]
        [--repeats N]

A server of its own, in its own process, answers each request after the latency. Three of forty
columns of a click-log table are read, in order. A line for each reader says seconds of one pass
(the mean of the repeats, warm connections), requests, connections opened in it, bytes on the
wire over bytes of the projected column chunks (footers apart), and the share of the ideal
client's bytes a second: obstore, with the same coalesced ranges, as many in flight, which drops
what it gets. All readers hand out the same sums of the columns: that is checked before any timing.
What TLS and a real network add is not measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq

from fastload import IO, FastParquetDataset
from fastload._core import coalesce
from fastload.budget import parse_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

COLUMNS = ["i3", "c7", "c20"]
SERVER = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from stores import GcsServer, Response

class Server(GcsServer):
    def respond(self, request):
        if request.path == "/_log":
            read = [r for r in self.requests if r.range]
            answer = {"requests": len(read), "bytes": sum(r.sent for r in read),
                      "opened": self.connections - 1}
            if "reset" in request.query:
                self.reset()
            return Response(200, json.dumps(answer).encode())
        return super().respond(request)

server = Server()
server.latency_s = float(sys.argv[3])
for path in sorted(Path(sys.argv[2]).iterdir()):
    server.put("bucket", f"train/{path.name}", path.read_bytes())
print(server.url, flush=True)
sys.stdin.read()
"""


def write_click_log(directory: Path, files: int, rows: int) -> None:
    """13 integers, 26 categories and a label, with dictionaries, snappy: as logs of clicks are."""
    rng = np.random.default_rng(1)
    for number in range(files):
        table = pa.table(
            {"label": rng.integers(0, 2, rows).astype(np.int8)}
            | {f"i{i}": rng.geometric(0.01, rows).astype(np.int32) for i in range(13)}
            | {f"c{i}": rng.zipf(1.3, rows) % 100_000 for i in range(26)}
        )
        pq.write_table(table, directory / f"part-{number:05}.parquet", row_group_size=rows // 4)


def ranges(directory: Path) -> tuple[list[tuple[str, int, int]], int]:
    """The coalesced requests of the columns as (file, start, stop), and the columns' bytes."""
    hole, most = parse_bytes(IO().hole_bytes), parse_bytes(IO().request_bytes)
    requests, wanted = [], 0
    for path in sorted(directory.iterdir()):
        metadata = pq.read_metadata(path)
        chunks = []
        for group in range(metadata.num_row_groups):
            for i in range(metadata.num_columns):
                chunk = metadata.row_group(group).column(i)
                if chunk.path_in_schema in COLUMNS:
                    first = chunk.dictionary_page_offset or chunk.data_page_offset
                    chunks.append((first, chunk.total_compressed_size))
        wanted += sum(length for _, length in chunks)
        for start, length in coalesce(chunks, hole_bytes=hole, request_bytes=most):
            requests.append((path.name, start, start + length))
    return requests, wanted


class Ideal:
    """obstore, and nothing else."""

    def __init__(self, url: str, requests: list[tuple[str, int, int]], connections: int) -> None:
        from obstore.store import GCSStore

        self._requests = requests
        self._connections = connections
        self._store = GCSStore(
            "bucket",
            config={"base_url": url, "skip_signature": True},
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


def readers(url: str, connections: int) -> dict[str, Callable[[], Any]]:
    """What reads the columns and returns their sums, by name."""
    options = {"endpoint_url": url, "token": "anon"}

    def fastload(transport: str) -> Callable[[], Any]:
        dataset = FastParquetDataset(
            "gs://bucket/train/*.parquet",
            columns=COLUMNS,
            batch_size=65_536,
            storage_options=options,
            io=IO(transport=transport, concurrency=connections),
        )
        return lambda: _sums({c: int(b[c].sum()) for c in COLUMNS} for b in dataset)

    def arrow_gcs() -> Any:
        from pyarrow.fs import GcsFileSystem

        scheme, _, place = url.partition("://")
        filesystem = GcsFileSystem(anonymous=True, scheme=scheme, endpoint_override=place)
        return _arrow("bucket/train", filesystem)

    def gcsfs_arrow() -> Any:
        from gcsfs.core import GCSFileSystem

        filesystem = GCSFileSystem(skip_instance_cache=True, **options)
        return _arrow("bucket/train", filesystem)

    return {
        "fastload native": fastload("native"),
        "fastload fsspec": fastload("fsspec"),
        "pyarrow.dataset, GcsFileSystem": arrow_gcs,
        "pyarrow.dataset, gcsfs": gcsfs_arrow,
    }


def _arrow(path: str, filesystem: Any) -> dict[str, int]:
    import torch

    dataset = pads.dataset(path, filesystem=filesystem, format="parquet")
    batches = dataset.to_batches(columns=COLUMNS, batch_size=65_536)
    return _sums({c: int(torch.tensor(b[c].to_numpy()).sum()) for c in COLUMNS} for b in batches)


def _sums(parts: Any) -> dict[str, int]:
    total = dict.fromkeys(COLUMNS, 0)
    for part in parts:
        for name, value in part.items():
            total[name] += value
    return total


def _log(url: str, *, reset: bool = False) -> dict[str, int]:
    with urllib.request.urlopen(f"{url}/_log{'?reset=' if reset else ''}") as answer:  # noqa: S310 - our own server
        return json.loads(answer.read())


def _measure(url: str, run: Callable[[], Any], repeats: int) -> tuple[float, dict[str, int]]:
    """Seconds of a pass and what the server saw of it, over passes that follow each other.

    From its second pass on, fastload reads the beginning of the next one while one ends: two go
    before, so that as much is read ahead for the first one measured as behind the last.
    """
    for _ in range(2):
        run()
    _log(url, reset=True)
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    seconds = (time.perf_counter() - start) / repeats
    log = _log(url)
    return seconds, {name: value // repeats for name, value in log.items()}


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=32)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--latency-ms", type=float, default=30.0)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    tests = Path(__file__).resolve().parent.parent / "tests"
    with tempfile.TemporaryDirectory() as directory:
        write_click_log(Path(directory), arguments.files, arguments.rows)
        requests, wanted = ranges(Path(directory))
        local = pads.dataset(directory).to_table(columns=COLUMNS)
        expected = {c: int(np.sum(local[c].to_numpy(), dtype=np.int64)) for c in COLUMNS}
        latency = str(arguments.latency_ms / 1000)
        command = [sys.executable, "-c", SERVER, str(tests), directory, latency]
        with subprocess.Popen(  # noqa: S603 - our own
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as server:
            assert server.stdout is not None
            assert server.stdin is not None
            url = server.stdout.readline().strip()
            ideal = Ideal(url, requests, arguments.connections)
            best, log = _measure(url, ideal, arguments.repeats)
            print(f"{wanted / 1e6:.1f} MB of columns, {len(requests)} coalesced requests")
            print(f"{'':32}{'seconds':>8}{'requests':>9}{'opened':>7}{'bytes':>7}{'of ideal':>9}")
            _line("ideal", best, log, wanted, best)
            for name, run in readers(url, arguments.connections).items():
                got = run()
                assert got == expected, f"{name}: {got}"
                _line(name, *_measure(url, run, arguments.repeats), wanted, best)
            server.stdin.close()


def _line(name: str, seconds: float, log: dict[str, int], wanted: int, best: float) -> None:
    print(
        f"{name:32}{seconds:8.3f}{log['requests']:9}{log['opened']:7}"
        f"{log['bytes'] / wanted:7.3f}{log['bytes'] / wanted * best / seconds:9.2f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
