"""Click-log files, and a server in its own process that serves them."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fastload import IO
from fastload.runtime._core import coalesce
from fastload.runtime.units import parse_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

COLUMNS = ["i3", "c7", "c20"]
BATCH_SIZE = 65_536
_TESTS = Path(__file__).resolve().parents[2] / "tests"
_SERVER = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from support.stores import GcsServer, Response, rounds

class Server(GcsServer):
    def respond(self, request):
        if request.path == "/_log":
            read = self.media_requests()
            answer = {"requests": len(read), "bytes": sum(r.sent for r in read),
                      "opened": self.connections - 1,
                      "rounds": rounds(r for r in self.requests if r is not request)}
            if "reset" in request.query:
                self.reset()
            return Response(200, json.dumps(answer).encode())
        return super().respond(request)

server = Server(host=sys.argv[4])
server.latency_s = float(sys.argv[3])
for path in sorted(Path(sys.argv[2]).iterdir()):
    server.put("bucket", f"train/{path.name}", path.read_bytes())
print(server.url, flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True, slots=True)
class Seen:
    """Counts of the server since its log was last reset.

    Attributes:
        requests: number of requests of objects, without listings and metadata.
        bytes: bytes of these requests.
        opened: number of connections opened.
        rounds: length of the longest chain of requests that waited for each other.
    """

    requests: int
    bytes: int
    opened: int
    rounds: int


@dataclass(frozen=True, slots=True)
class Store:
    """A server that serves the files as gs://bucket/train/NAME.

    Attributes:
        url: address of the server.
        pid: number of the server's process.
    """

    url: str
    pid: int

    @property
    def options(self) -> dict[str, str]:
        """Return the storage_options of fsspec's filesystems and of fastload."""
        return {"endpoint_url": self.url, "token": "anon"}

    def seen(self, *, forget: bool = False) -> Seen:
        """Return the counts since the last reset; with `forget`, reset the counts."""
        with urllib.request.urlopen(f"{self.url}/_log{'?reset=' if forget else ''}") as answer:  # noqa: S310 - our own server
            return Seen(**json.loads(answer.read()))


@contextlib.contextmanager
def serve(
    directory: str, latency_s: float, host: str = "127.0.0.1", within: Sequence[str] = ()
) -> Iterator[Store]:
    """Serve the files of a directory, with a latency before each answer.

    Args:
        directory: directory of the files.
        latency_s: seconds from a request to the answer.
        host: address of the server.
        within: a command, such as `ip netns exec NAME`, that runs the server in a network where
            the address exists.
    """
    program = [sys.executable, "-c", _SERVER, str(_TESTS), directory, str(latency_s), host]
    with subprocess.Popen(  # noqa: S603 - our own
        [*within, *program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        try:
            yield Store(server.stdout.readline().strip(), server.pid)
        finally:
            server.stdin.close()


def write_click_log(directory: Path, files: int, rows: int) -> None:
    """Write files of a click log: 13 integers, 26 categories and a label, dictionaries, snappy."""
    rng = np.random.default_rng(1)
    for number in range(files):
        table = pa.table(
            {"label": rng.integers(0, 2, rows).astype(np.int8)}
            | {f"i{i}": rng.geometric(0.01, rows).astype(np.int32) for i in range(13)}
            | {f"c{i}": rng.zipf(1.3, rows) % 100_000 for i in range(26)}
        )
        pq.write_table(table, directory / f"part-{number:05}.parquet", row_group_size=rows // 4)


@dataclass(frozen=True, slots=True)
class Plan:
    """The reads that a pass over the columns needs.

    Attributes:
        requests: coalesced requests, as (file, start, stop).
        bytes: bytes of the column chunks.
    """

    requests: list[tuple[str, int, int]]
    bytes: int


def plan(files: list[Path]) -> Plan:
    """Plan the reads of a pass over files, with fastload's default sizes of requests and holes."""
    hole, most = parse_bytes(IO().hole_bytes), parse_bytes(IO().request_bytes)
    requests, wanted = [], 0
    for path in files:
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
    return Plan(requests, wanted)
