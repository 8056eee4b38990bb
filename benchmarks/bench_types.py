"""One question: how near to the roof do lists, strings, decimals and wide tables come?

    python benchmarks/bench_types.py [--threads N] [--repeats N] [--only NAME]

For each kind of data, a line has the fraction of the roof (pages read and decompressed, and one
copy of the output; same files, same threads, same run) in order and shuffled:

- embedding: fixed_size_list<float32, 128>
- tokens: list<int32> of 200 on average as Ragged; and as Pad to 512, with its speed against Ragged
- lineitem: TPC-H, strings as Ragged, decimals as float64 (read from FASTLOAD_TEST_DATA)
- wide: 1,000 float32 columns of 100,000 rows
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import core_workloads

from fastload import Pad
from fastload.runtime.cores import available_cores
from support import fractions_of_roof

if TYPE_CHECKING:
    from collections.abc import Iterator

_LINEITEM = "writers/lineitem.tpchgen.sf0.05.parquet"
_PADDED = 512


def cases(directory: Path) -> Iterator[tuple[str, list[str], Any]]:
    """Yield name, files and columns of each kind of data; make the files just before."""
    yield "embedding", [str(core_workloads.path(directory, "embedding"))], None
    tokens = str(core_workloads.path(directory, "tokens"))
    yield "tokens", [tokens], None
    yield "padded", [tokens], {"tokens": Pad("tokens", _PADDED)}
    lineitem = Path(os.environ.get("FASTLOAD_TEST_DATA", "../shared/data"), _LINEITEM)
    if lineitem.exists():
        # A pass over one file is too short, so the file is read under several names.
        names = [directory / f"lineitem-{i}.parquet" for i in range(4)]
        for name in names:
            name.symlink_to(lineitem.resolve())
        yield "lineitem", [str(name) for name in names], None
    else:
        print(f"lineitem: left out, there is no {lineitem} (set FASTLOAD_TEST_DATA)")
    yield "wide", [str(core_workloads.path(directory, "wide"))], None


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=available_cores())
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--batch-size", type=int, default=4096)
    parser.add_argument("--only")
    arguments = parser.parse_args()
    ragged_s: dict[bool, float] = {}
    with tempfile.TemporaryDirectory() as directory:
        for name, files, columns in cases(Path(directory)):
            if arguments.only not in (None, name):
                continue
            line = f"{name:10}"
            for shuffle in (False, True):
                got = fractions_of_roof.measure(
                    files,
                    threads=arguments.threads,
                    repeats=arguments.repeats,
                    columns=columns,
                    batch_size=arguments.batch_size,
                    shuffle=shuffle,
                )
                if name == "tokens":
                    ragged_s[shuffle] = got.pass_s
                line += (
                    f"  {'shuffled' if shuffle else 'in order'} {got.fraction:.2f} "
                    f"(pass {got.pass_s:.3f} s, roof {got.roof_s:.3f} s, CPU {got.cpu_s:.3f} s)"
                )
                if name == "padded" and shuffle in ragged_s:
                    line += f" {ragged_s[shuffle] / got.pass_s:.2f} of Ragged's speed"
            print(line, flush=True)


if __name__ == "__main__":
    main()
