"""One question: what does a listing of many objects cost, in seconds and in memory?

    python benchmarks/bench_listing.py [--objects N,N,...] [--latency-ms X]

A server in a process of its own lists N objects, 1,000 on a page, each page after the latency;
every second object is a `.crc` beside its file. For a directory and for a pattern, a line has the
number of files found, the seconds, the seconds of the pages' latency alone, and the growth of
resident memory. The found names are checked.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from time import perf_counter

from bench_scale import peak_bytes

from fastload import IO
from fastload.source.local_paths import find_files
from fastload.source.stores.stores import Stores

_SERVER = """
import bisect, json, sys
sys.path.insert(0, sys.argv[1])
from support.stores import GcsServer, Response

names = [f"train/k={i % 10}/part-{i:06}.parquet" for i in range(int(sys.argv[2]) // 2)]
names = sorted(names + [name + ".crc" for name in names])

class Server(GcsServer):
    def respond(self, request):
        first = bisect.bisect_right(names, request.query.get("pageToken", ""))
        page = names[first : first + 1000]
        items = [{"kind": "storage#object", "name": name, "bucket": "bucket", "size": "1000",
                  "generation": "1700000000000000", "etag": "x", "md5Hash": "x",
                  "updated": "2026-01-01T00:00:00.000Z", "id": f"bucket/{name}/1",
                  "timeCreated": "2026-01-01T00:00:00.000Z", "storageClass": "STANDARD"}
                 for name in page]
        answer = {"kind": "storage#objects", "items": items}
        if first + 1000 < len(names):
            answer["nextPageToken"] = page[-1]
        return Response(200, json.dumps(answer).encode(), {"Content-Type": "application/json"})

server = Server()
server.latency_s = float(sys.argv[3])
print(server.url, flush=True)
sys.stdin.read()
"""


def list_once(url: str, source: str, objects: int, latency_s: float) -> None:
    """Print the line of one listing."""
    storage = Stores(None, {"endpoint_url": url, "token": "anon"}, IO())
    storage.client(data=False).call(storage.client(data=False).store("gs"))  # its imports
    before = peak_bytes()
    start = perf_counter()
    found = find_files(source, storage.find)
    seconds = perf_counter() - start
    pattern = "*" in source
    expected = objects // 10 if pattern else objects
    assert len(found) == expected, (len(found), expected)
    assert [file.path for file in found] == sorted(file.path for file in found)
    grown = (peak_bytes() - before) / 1e6
    latency = objects / 1000 * latency_s
    kind = "pattern" if pattern else "directory"
    print(f"{objects:9}{kind:>11}{len(found):9}{seconds:9.2f}{latency:9.2f}{grown:9.0f}")
    storage.close()


def main() -> None:
    """Print the table, each line from a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--objects", default="1000,10000,100000")
    parser.add_argument("--latency-ms", type=float, default=30.0)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    latency_s = arguments.latency_ms / 1000
    if arguments.one:
        url, source = arguments.one
        list_once(url, source, int(arguments.objects), latency_s)
        return
    print(f"{'objects':>9}{'':>11}{'files':>9}{'seconds':>9}{'latency':>9}{'MB':>9}", flush=True)
    tests = Path(__file__).resolve().parent.parent / "tests"
    for objects in arguments.objects.split(","):
        command = [sys.executable, "-c", _SERVER, str(tests), objects, str(latency_s)]
        with subprocess.Popen(  # noqa: S603 - our own
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as server:
            assert server.stdout is not None
            assert server.stdin is not None
            url = server.stdout.readline().strip()
            for source in ("gs://bucket/train/", "gs://bucket/train/k=[0-1]/*.parquet"):
                own = [sys.executable, __file__, "--one", url, source, "--objects", objects]
                subprocess.run([*own, "--latency-ms", str(arguments.latency_ms)], check=True)  # noqa: S603 - our own
            server.stdin.close()


if __name__ == "__main__":
    main()
