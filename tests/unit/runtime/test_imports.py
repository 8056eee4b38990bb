"""What `import fastload`, and a dataset that has no use for it, do not wait for."""

import functools
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HEAVY = {
    "accelerate",
    "adlfs",
    "aiohttp",
    "deltalake",
    "duckdb",
    "fsspec",
    "gcsfs",
    "google",
    "huggingface_hub",
    "lightning",
    "llvmlite",
    "numba",
    "obstore",
    "pandas",
    "polars",
    "pyarrow._acero",
    "pyarrow._compute",
    "pyarrow._dataset",
    "pyarrow._fs",
    "pyarrow._parquet",
    "pyiceberg",
    "ray",
    "requests",
    "rich",
    "s3fs",
    "tqdm",
    "transformers",
}


@functools.cache
def imported(script):
    """Modules that it has imported, beside those of torch and pyarrow."""
    script = (
        "import sys, torch, pyarrow\n"
        f"before = set(sys.modules)\n{script}\n"
        "print(*(set(sys.modules) - before), sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


# Modules of the standard library that take long, or bring networks.
SLOW = {"asyncio", "ctypes.util", "http", "sqlite3", "ssl", "unittest", "urllib.request", "xml"}


def test_an_import_takes_nothing_of_other_packages():
    """Torch, numpy and pyarrow are needed by every dataset; no other package is."""
    found = imported("import fastload")
    packages = {name.partition(".")[0] for name in found if "_sysconfigdata" not in name}
    assert packages - set(sys.stdlib_module_names) == {"fastload", "numpy"}
    assert found & SLOW == set()


def test_heavy_modules_wait_until_they_are_needed(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": np.arange(5)}), path)
    found = imported("import fastload")
    assert "fastload.dataset.dataset" in found
    assert found & HEAVY == set()
    found = imported(
        "import fastload\n"
        f"with fastload.FastParquetDataset({str(path)!r}, preprocess=dict) as dataset:\n"
        "    for batch in dataset: pass"
    )
    assert found & HEAVY == set()
    found = imported(
        "import fastload\n"
        f"with fastload.FastParquetDataset({str(path)!r}, filters=[('x', '>', 2)]) as dataset:\n"
        "    assert len(dataset) == 1"
    )
    assert found & HEAVY >= {"pyarrow._compute", "pyarrow._dataset"}
    assert not found & {"numba", "rich", "fsspec"}
