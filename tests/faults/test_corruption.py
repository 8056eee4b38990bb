"""Damaged bytes give an error that says where, or values; never a crash or a hang."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastload import Column, CorruptFileError, FastloadError, FastParquetDataset
from support.own_process import in_its_own_process

ROWS = 2000
GROUP = 500
# Each column is written in another encoding.
ENCODINGS = {
    "plain": "PLAIN",
    "delta": "DELTA_BINARY_PACKED",
    "split": "BYTE_STREAM_SPLIT",
    "lengths": "DELTA_LENGTH_BYTE_ARRAY",
    "prefixes": "DELTA_BYTE_ARRAY",
    "text": "PLAIN",
}


def write(path, **options):
    rng = np.random.default_rng(3)
    words = [f"word {k}" for k in rng.integers(0, 10**6, ROWS)]
    table = pa.table(
        {
            "plain": rng.integers(0, 2**60, ROWS),
            "delta": np.cumsum(rng.integers(0, 99, ROWS)),
            "split": pa.array(rng.random(ROWS), mask=rng.random(ROWS) < 0.2),
            "lengths": words,
            "prefixes": sorted(words),
            "text": words,
            "codes": pa.array(rng.integers(0, 30, ROWS)),
            "category": [f"c{k}" for k in rng.integers(0, 9, ROWS)],
            "flag": rng.random(ROWS) < 0.5,
        }
    )
    pq.write_table(
        table,
        path,
        row_group_size=GROUP,
        data_page_size=2000,
        use_dictionary=["codes", "category"],
        column_encoding=ENCODINGS,
        **options,
    )
    return table


def read_damaged(path, damaged, trials, kind):
    """How many damaged copies of a file give an error, and how many give values."""
    sound = path.read_bytes()
    file = pq.ParquetFile(path)
    chunks = [
        file.metadata.row_group(group).column(column)
        for group in range(file.metadata.num_row_groups)
        for column in range(file.metadata.num_columns)
    ]
    end = max(chunk.data_page_offset + chunk.total_compressed_size for chunk in chunks)
    end = min(end, len(sound) - file.metadata.serialized_size - 8)
    rng = np.random.default_rng(7)
    errors, values = [], 0
    columns = {name: Column(name, valid=True) for name in file.schema_arrow.names}
    for trial in range(trials):
        data = bytearray(sound)
        for _ in range(int(rng.integers(1, 4))):
            at = int(rng.integers(4, end))
            if kind == "flip":
                data[at] ^= 1 << int(rng.integers(8))
            elif kind == "junk":
                n = int(rng.integers(1, 64))
                data[at : min(at + n, end)] = rng.bytes(min(at + n, end) - at)
            else:
                data[at : min(at + 200, end)] = bytes(min(at + 200, end) - at)
        damaged.write_bytes(data)
        options = {"threads": trial % 3, "shuffle": trial % 2 == 1, "shuffle_window": 700}
        with FastParquetDataset(damaged, columns=columns, batch_size=300, **options) as dataset:
            try:
                for batch in dataset:
                    for name in ("text", "lengths", "prefixes", "category"):
                        assert len(batch[name]) == batch.rows
                        assert batch[name].offsets.diff().min() >= 0
                values += 1
            except (FastloadError, ValueError) as error:
                errors.append(str(error))
    for error in errors:
        assert all(part in error for part in (str(damaged), "row group", "`")), error
    return len(errors), values


@pytest.mark.parametrize("kind", ["flip", "junk", "zeros"])
@pytest.mark.parametrize("compression", ["none", "snappy"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_damaged_pages(tmp_path, kind, compression, version):
    path = tmp_path / "sound.parquet"
    write(path, compression=compression, data_page_version=version)
    trials = 40
    damaged = tmp_path / "damaged.parquet"
    # Where a crash would show: many damaged files in a row.
    errors, values = in_its_own_process(read_damaged, path, damaged, trials, kind, timeout_s=120)
    assert errors + values == trials
    assert errors > 0


def chunk_start(path, row_group, column):
    metadata = pq.ParquetFile(path).metadata.row_group(row_group)
    index = [metadata.column(c).path_in_schema for c in range(metadata.num_columns)].index(column)
    chunk = metadata.column(index)
    return chunk.dictionary_page_offset or chunk.data_page_offset


@pytest.mark.parametrize("threads", [0, 1, 4])
@pytest.mark.parametrize("column", ["plain", "codes", "text", "delta"])
def test_batches_before_the_damage_are_right(tmp_path, column, threads):
    path = tmp_path / "t.parquet"
    table = write(path)
    data = bytearray(path.read_bytes())
    at = chunk_start(path, 2, column)
    data[at : at + 40] = b"\xff" * 40
    path.write_bytes(data)
    seen = []
    columns = list(dict.fromkeys(["plain", column]))
    with FastParquetDataset(path, columns=columns, batch_size=100, threads=threads) as dataset:
        running = iter(dataset)
        with pytest.raises(CorruptFileError, match=rf"t\.parquet, row group 2.*`{column}`"):
            seen.extend(batch["plain"] for batch in running)
        # The pass is over: it neither goes on behind the damage nor hangs.
        with pytest.raises((StopIteration, CorruptFileError)):
            next(running)
    assert len(seen) in range(11)
    rows = np.concatenate([batch.numpy() for batch in seen]) if seen else np.array([], int)
    assert (rows == table["plain"].to_numpy()[: len(rows)]).all()


@pytest.mark.parametrize("compression", ["snappy", "zstd", "gzip", "lz4", "brotli"])
def test_bytes_that_a_codec_refuses(tmp_path, compression):
    """They are the file's fault, not that of its storage."""
    path = tmp_path / "t.parquet"
    rng = np.random.default_rng(1)
    table = pa.table({"text": [rng.bytes(20).hex() for _ in range(ROWS)]})
    pq.write_table(table, path, compression=compression, use_dictionary=False)
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(0)
    data = bytearray(path.read_bytes())
    at = chunk.data_page_offset + chunk.total_compressed_size - 300
    data[at : at + 290] = b"\xff" * 290
    path.write_bytes(data)
    with FastParquetDataset(path) as dataset, pytest.raises(CorruptFileError, match=r"page 0$"):
        list(dataset)


def test_error_does_not_end_the_dataset(tmp_path):
    path = tmp_path / "t.parquet"
    write(path)
    data = bytearray(path.read_bytes())
    at = chunk_start(path, 3, "plain")
    data[at : at + 40] = b"\xff" * 40
    path.write_bytes(data)
    with FastParquetDataset(path, columns=["plain"], batch_size=GROUP, threads=2) as dataset:
        for _ in range(3):
            sizes = []
            with pytest.raises(CorruptFileError):
                sizes.extend(batch.rows for batch in dataset)
            assert sum(sizes) <= 3 * GROUP
    with FastParquetDataset(path, columns=["codes"], threads=2) as dataset:
        assert sum(batch.rows for batch in dataset) == ROWS


@pytest.mark.parametrize("name", ["bad_data", "data"])
def test_files_of_parquet_testing(data_dir, name):
    """None crashes the process, whatever is wrong with it."""
    script = """
import sys
from fastload import FastloadError, FastParquetDataset
print(sys.argv[1], file=sys.stderr)
try:
    with FastParquetDataset(sys.argv[1], threads=1) as dataset:
        sum(batch.rows for batch in dataset)
except (FastloadError, ValueError, MemoryError) as error:
    assert sys.argv[1] in str(error), repr(error)
"""
    loop = """
import os, runpy, sys
script, paths = sys.argv[1], sys.argv[2:]
import fastload
for path in paths:
    pid = os.fork()
    if not pid:
        sys.argv = ["-", path]
        exec(script)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if status:
        print(path, status)
"""
    paths = sorted(Path(data_dir, "parquet-testing", name).glob("*.parquet"))
    assert paths
    # It declares pages of 1 GiB: legal, and too much for a test.
    paths = [path for path in paths if path.name != "large_string_map.brotli.parquet"]
    done = subprocess.run(
        [sys.executable, "-c", loop, script, *map(str, paths)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == "", done.stdout + done.stderr[-3000:]
