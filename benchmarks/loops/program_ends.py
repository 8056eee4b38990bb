"""Do programs that have read from a store natively end without aborting?

    python benchmarks/loops/program_ends.py [--programs N]

Each program reads a few batches from a server and ends with requests on their way. Printed is how
many ended with another exit code than 0: CPython before 3.14 may abort when a thread of obstore
comes back to an interpreter that is over, so fastload waits for such threads.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.click_log_store import serve, write_click_log

_PROGRAM = """
import sys
from fastload import IO, FastParquetDataset
dataset = FastParquetDataset("gs://bucket/train/*.parquet", batch_size=1024,
    storage_options={"endpoint_url": sys.argv[1], "token": "anon"}, io=IO(transport="native"))
batches = iter(dataset)
for _ in range(3):
    next(batches)
"""


def main() -> None:
    """Print how the programs ended."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=4)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as files:
        write_click_log(Path(files), 4, 20_000)
        with serve(files, 0.002) as store:
            codes = Counter(
                subprocess.run([sys.executable, "-c", _PROGRAM, store.url], check=False).returncode  # noqa: S603 - our own
                for _ in range(arguments.programs)
            )
    failed = arguments.programs - codes[0]
    print(f"{arguments.programs} programs, {failed} with another exit code than 0: {dict(codes)}")


if __name__ == "__main__":
    main()
