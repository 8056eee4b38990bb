"""What `import fastload`, and a dataset that has no use for it, do not wait for."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HEAVY = {
    "aiohttp",
    "fsspec",
    "gcsfs",
    "llvmlite",
    "numba",
    "obstore",
    "pyarrow._acero",
    "pyarrow._compute",
    "pyarrow._dataset",
    "pyarrow._fs",
    "pyarrow._parquet",
    "ray",
    "rich",
}


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
