"""One question: how near does the core come to the roof of its own run?

    python benchmarks/bench_roof.py [FILE] [--shuffle] [--batch-size N] [--threads N] [--repeats N]

Passes of a FastParquetDataset and measurements of the roof take turns in one process. The output
has medians: seconds of a pass, seconds of the roof (pages read and decompressed, and one copy of
the output, by as many threads), the fraction, and CPU seconds of a pass. Where the dataset keeps
decompressed pages in memory, the roof reads such pages in memory instead; --keep-none has the
dataset keep none. Without FILE, the benchmark reads the sample of fastload-bench. Tests check the
delivered rows, not this benchmark.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from fastload.runtime.cores import available_cores
from fastload.tools.bench import sample
from support import fractions_of_roof


def main() -> None:
    """Run the benchmark and print its line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?")
    parser.add_argument("--shuffle", action="store_true")
    parser.add_argument("--batch-size", type=int, default=16384)
    parser.add_argument("--threads", type=int, default=available_cores())
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--keep-none", action="store_true", help="keep no pages in memory")
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as directory:
        file = arguments.file
        if file is None:
            file = str(Path(directory, "sample.parquet"))
            sample.make(Path(file))
        got = fractions_of_roof.measure(
            file,
            threads=arguments.threads,
            repeats=arguments.repeats,
            batch_size=arguments.batch_size,
            shuffle=arguments.shuffle,
            keep=not arguments.keep_none,
        )
    print(
        f"{'shuffled' if arguments.shuffle else 'in order'}, batches of {arguments.batch_size}, "
        f"{arguments.threads} threads: {got.pass_s:.3f} s a pass, roof {got.roof_s:.3f} s, "
        f"fraction {got.fraction:.2f}, CPU {got.cpu_s:.3f} s, kept {got.kept_bytes / 1e6:.0f} MB"
    )


if __name__ == "__main__":
    main()
