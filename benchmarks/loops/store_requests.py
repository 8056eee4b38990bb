"""What does a request to a store cost Python, natively and by fsspec?

    python benchmarks/loops/store_requests.py [--files N] [--rows N] [--passes N]

The files of `bench_store.py`, from a server of its own that answers after 5 ms. Printed are, for
each transport, the CPU microseconds of a request: of Python's own threads but the consumer's, which
is what a trainer's Python loses, and of the process. They come from schedstat, so only on Linux.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.click_log_store import COLUMNS, serve, write_click_log

from fastload import IO, FastParquetDataset
from support import turns

_LATENCY_S = 0.005


def _python_cpu_s() -> float:
    """Return the CPU seconds of Python's threads but this one."""
    nanoseconds = 0
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            stat = Path(f"/proc/self/task/{thread.native_id}/schedstat")
            nanoseconds += int(stat.read_text().split()[0]) if stat.exists() else 0
    return nanoseconds / 1e9


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--rows", type=int, default=200_000, help="of a file")
    parser.add_argument("--passes", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'':8}{'requests':>10}{'Python, us':>12}{'process, us':>13}")
    with tempfile.TemporaryDirectory() as files:
        write_click_log(Path(files), arguments.files, arguments.rows)
        with serve(files, _LATENCY_S) as store:
            for transport in ("native", "fsspec"):
                with FastParquetDataset(
                    "gs://bucket/train/*.parquet",
                    columns=COLUMNS,
                    batch_size=65_536,
                    storage_options=store.options,
                    io=IO(transport=transport),
                ) as dataset:
                    passes = lambda count: [None for _ in range(count) for _ in dataset]  # noqa: E731
                    passes(2)
                    store.seen(forget=True)
                    before_s = _python_cpu_s()
                    process = turns.cost(lambda: passes(arguments.passes))  # noqa: B023
                    python_s = _python_cpu_s() - before_s
                    requests = store.seen().requests
                each = 1e6 / requests
                print(
                    f"{transport:8}{requests:10}{python_s * each:12.0f}"
                    f"{process.cpu_s * each:13.0f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
