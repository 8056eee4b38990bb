"""One question: how near does the core come to the roof of its own run?

    python benchmarks/bench_roof.py [FILE] [--shuffle] [--batch-size N] [--threads N] [--repeats N]

Passes of a FastParquetDataset and measurements of the roof take turns in one process. Printed are
medians: seconds of a pass, of the roof (pages read and decompressed, and one copy of the output, by
the same threads), the fraction, and CPU seconds of a pass. Without FILE it reads the sample of
fastload-bench. What the passes deliver is checked by the tests, not here.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
from pathlib import Path

from fastload import FastParquetDataset, roof
from fastload.bench import sample
from fastload.budget import available_cores


def cpu_s() -> float:
    """CPU seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Runs the benchmark and prints its line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?")
    parser.add_argument("--shuffle", action="store_true")
    parser.add_argument("--batch-size", type=int, default=16384)
    parser.add_argument("--threads", type=int, default=available_cores())
    parser.add_argument("--repeats", type=int, default=9)
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as directory:
        file = arguments.file
        if file is None:
            file = str(Path(directory, "sample.parquet"))
            sample.make(Path(file))
        dataset = FastParquetDataset(
            file,
            batch_size=arguments.batch_size,
            shuffle=arguments.shuffle,
            threads=arguments.threads,
        )
        passes, roofs, cpu = [], [], []
        for repeat in range(arguments.repeats + 1):
            before, start = cpu_s(), time.perf_counter()
            for _ in dataset:
                pass
            passes.append(time.perf_counter() - start)
            cpu.append(cpu_s() - before)
            roofs.append(roof.measure(file, None, arguments.threads))
            if repeat == 0:  # the first pass takes its memory from the system
                del passes[0], cpu[0], roofs[0]
        fraction = statistics.median(r / p for r, p in zip(roofs, passes, strict=True))
        print(
            f"{'shuffled' if arguments.shuffle else 'in order'}, batches of "
            f"{arguments.batch_size}, {arguments.threads} threads: "
            f"{statistics.median(passes):.3f} s a pass, roof {statistics.median(roofs):.3f} s, "
            f"fraction {fraction:.2f}, CPU {statistics.median(cpu):.3f} s"
        )


if __name__ == "__main__":
    main()
