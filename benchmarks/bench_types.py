"""One question: how near to the roof do lists, strings, decimals and wide tables come?

    python benchmarks/bench_types.py [--threads N] [--repeats N] [--only NAME]

For each kind of data a line with the fraction of the roof (pages read and decompressed, and one
copy of the output, same files, same threads, same run) in order and shuffled:

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

import fractions_of_roof
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fastload import Pad
from fastload.budget import available_cores

if TYPE_CHECKING:
    from collections.abc import Iterator

_LINEITEM = "writers/lineitem.tpchgen.sf0.05.parquet"
_MEAN_TOKENS = 200
_PADDED = 512


def write_embeddings(path: Path, rows: int = 400_000, size: int = 128) -> None:
    """One column of float32 vectors."""
    values = np.random.default_rng(1).standard_normal(rows * size, np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(values), size)
    pq.write_table(
        pa.table({"embedding": column}), path, row_group_size=50_000, use_dictionary=False
    )


def write_tokens(path: Path, rows: int = 400_000) -> None:
    """One column of token sequences of geometric lengths, ids of a Zipf law."""
    rng = np.random.default_rng(2)
    lengths = rng.geometric(1 / _MEAN_TOKENS, rows)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    # Rank r of a Zipf law of exponent 1 is uniform in log r.
    tokens = np.exp(rng.random(offsets[-1], np.float32) * np.log(50_257)).astype(np.int32)
    column = pa.ListArray.from_arrays(pa.array(offsets), pa.array(tokens))
    pq.write_table(pa.table({"tokens": column}), path, row_group_size=50_000)


def write_wide(path: Path, rows: int = 100_000, columns: int = 1000) -> None:
    """Many float32 columns."""
    rng = np.random.default_rng(3)
    table = pa.table({f"f{i}": rng.standard_normal(rows, np.float32) for i in range(columns)})
    pq.write_table(table, path, row_group_size=25_000, use_dictionary=False)


def cases(directory: Path) -> Iterator[tuple[str, list[str], Any]]:
    """Name, files and columns of each kind of data, made when its turn comes."""
    write_embeddings(directory / "embedding.parquet")
    yield "embedding", [str(directory / "embedding.parquet")], None
    write_tokens(directory / "tokens.parquet")
    yield "tokens", [str(directory / "tokens.parquet")], None
    yield "padded", [str(directory / "tokens.parquet")], {"tokens": Pad("tokens", _PADDED)}
    lineitem = Path(os.environ.get("FASTLOAD_TEST_DATA", "../shared/data"), _LINEITEM)
    if lineitem.exists():
        # As one file is too short a pass: it is read under several names.
        names = [directory / f"lineitem-{i}.parquet" for i in range(4)]
        for name in names:
            name.symlink_to(lineitem.resolve())
        yield "lineitem", [str(name) for name in names], None
    else:
        print(f"lineitem: left out, there is no {lineitem} (set FASTLOAD_TEST_DATA)")
    write_wide(directory / "wide.parquet")
    yield "wide", [str(directory / "wide.parquet")], None


def main() -> None:
    """Runs the benchmark and prints its table."""
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
