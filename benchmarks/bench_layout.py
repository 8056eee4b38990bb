"""One question: what does a layout cost to read, beyond its bytes?

    python benchmarks/bench_layout.py [--repeats N] [--rows N]

The same rows of a click log (40 columns, no nulls) are written in row groups of several sizes and
with several codecs, and read in order on one thread. The output has the CPU seconds of a pass, and
the costs derived from these seconds, which are the constants of `fastload.tools.inspect.costs`:

- of a column chunk: the extra time of small row groups over large row groups, for each chunk,
  without compression and with each codec;
- of a decoded byte: a pass without compression;
- of a decompressed byte, by codec: the extra time of a pass over a pass without compression.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from fastload import FastParquetDataset
from fastload.tools.bench import sample

if TYPE_CHECKING:
    import pyarrow as pa

_LARGE = 1 << 17
_SMALL = (500, 2_000, 8_000)
_CODECS = ("snappy", "lz4", "zstd", "gzip", "brotli")
_BATCH_ROWS = 16_384


def cpu_s(path: Path, repeats: int) -> float:
    """Return the least CPU seconds of several passes over a file, after an uncounted pass."""
    times = []
    with FastParquetDataset(str(path), batch_size=_BATCH_ROWS, threads=1) as dataset:
        for _ in range(repeats + 1):
            began = time.process_time()
            for _ in dataset:
                pass
            times.append(time.process_time() - began)
    return min(times[1:])


def written(directory: Path, table: pa.Table, rows: int, codec: str) -> tuple[Path, Any]:
    """Write a table to a file; return the path and the metadata."""
    path = directory / f"{rows}-{codec}.parquet"
    pq.write_table(table, path, row_group_size=rows, compression=codec)
    return path, pq.read_metadata(path)


def page_bytes(metadata: Any) -> int:
    """Return the bytes of all pages, decompressed."""
    return sum(
        metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups)
    )


def small_groups(
    directory: Path, table: pa.Table, rows: int, codec: str, repeats: int
) -> tuple[float, int]:
    """Return CPU seconds of a pass over small row groups, and their number of extra chunks."""
    path, metadata = written(directory, table, rows, codec)
    large = -(-table.num_rows // _LARGE)
    return cpu_s(path, repeats), (metadata.num_row_groups - large) * table.num_columns


def main() -> None:
    """Run the benchmark and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1 << 18)
    arguments = parser.parse_args()
    table = sample.row_group(0, arguments.rows)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        path, metadata = written(directory, table, _LARGE, "none")
        plain_s = cpu_s(path, arguments.repeats)
        print(
            f"row groups of {_LARGE}, none: {plain_s:.4f} s, {plain_s / table.nbytes * 1e9:.3f} "
            "ns a decoded byte"
        )
        for rows in _SMALL:
            got_s, more = small_groups(directory, table, rows, "none", arguments.repeats)
            print(
                f"row groups of {rows}, none: {got_s:.4f} s, "
                f"{(got_s - plain_s) / more * 1e6:.2f} us a column chunk"
            )
        for codec in _CODECS:
            path, metadata = written(directory, table, _LARGE, codec)
            large_s = cpu_s(path, arguments.repeats)
            print(
                f"row groups of {_LARGE}, {codec}: {large_s:.4f} s, "
                f"{(large_s - plain_s) / page_bytes(metadata) * 1e9:.3f} ns a decompressed byte, "
                f"{path.stat().st_size / 1e6:.1f} MB"
            )
            got_s, more = small_groups(directory, table, _SMALL[1], codec, arguments.repeats)
            print(
                f"row groups of {_SMALL[1]}, {codec}: {got_s:.4f} s, "
                f"{(got_s - large_s) / more * 1e6:.2f} us a column chunk"
            )


if __name__ == "__main__":
    main()
