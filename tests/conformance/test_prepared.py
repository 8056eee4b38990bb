"""Rows of files of many writers, prepared and read again: every output is as it was."""

import fastload
from fastload import FastParquetDataset, Ragged
from fastload.errors import FastloadError

MOST_BYTES = 30_000_000


def opened(path):
    """The batches of a file, and what made them; None for a file that becomes no tensors."""
    try:
        dataset = FastParquetDataset(path, nulls="mask", batch_size=1000)
        return dataset, list(dataset)
    except (FastloadError, ValueError, OSError):
        return None


def same(one, other):
    if isinstance(other, Ragged):
        return isinstance(one, Ragged) and (
            one == other or str(one.tolist()) == str(other.tolist())
        )
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    both_nan = (one != one) & (other != other)
    return bool(((one == other) | both_nan).all())


def test_every_output_comes_back(data_dir, tmp_path):
    read = 0
    for number, path in enumerate(sorted(data_dir.rglob("*.parquet"))):
        found = opened(path) if path.stat().st_size < MOST_BYTES else None
        if found is None:
            continue
        dataset, batches = found
        prepared = fastload.prepare(dataset, tmp_path / str(number), progress=False)
        again = FastParquetDataset(prepared, batch_size=1000)
        assert dict(again.schema) == dict(dataset.schema), path
        for one, other in zip(again, batches, strict=True):
            assert list(one) == list(other), path
            assert all(same(one[name], other[name]) for name in other), path
        read += 1
    assert read > 50
