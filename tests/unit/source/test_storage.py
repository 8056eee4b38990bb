"""IO: checked when built."""

import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from fastload import IO, FastParquetDataset


def test_defaults() -> None:
    io = IO()
    assert (io.concurrency, io.request_bytes, io.hole_bytes) == (64, "8MB", "64KB")
    assert (io.retries, io.timeout_s, io.verify_crc, io.transport) == (8, 30.0, False, "auto")


def test_is_a_value() -> None:
    io = IO(verify_crc=True, hole_bytes=0)
    assert pickle.loads(pickle.dumps(io)) == io != IO()
    with pytest.raises(FrozenInstanceError):
        io.retries = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"concurrency": 0}, ValueError, "concurrency of IO to be at least 1, got 0"),
        ({"concurrency": 2.5}, TypeError, "concurrency of IO as int, got 2.5"),
        ({"retries": -1}, ValueError, "retries of IO to be at least 0, got -1"),
        ({"retries": True}, TypeError, "retries of IO as int, got True"),
        ({"request_bytes": "8 apples"}, ValueError, "request_bytes of IO as bytes or a size"),
        ({"request_bytes": 0}, ValueError, "request_bytes of IO"),
        ({"request_bytes": 2**63}, ValueError, r"request_bytes of IO .* less than 2\*\*63"),
        ({"request_bytes": "9" * 400}, ValueError, r"request_bytes of IO .* less than 2\*\*63"),
        ({"hole_bytes": -1}, ValueError, "hole_bytes of IO"),
        ({"timeout_s": "30"}, TypeError, "timeout_s of IO in seconds, got '30'"),
        ({"timeout_s": 0}, ValueError, "timeout_s of IO above 0, got 0"),
        ({"timeout_s": float("nan")}, ValueError, "timeout_s of IO above 0, got nan"),
        ({"verify_crc": 1}, TypeError, "verify_crc of IO to be a bool, got 1"),
        ({"transport": "curl"}, ValueError, "one of auto, native, fsspec, got 'curl'"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        IO(**arguments)


def test_a_dataset_takes_nothing_else() -> None:
    with pytest.raises(TypeError, match=r"Expected io as fastload\.IO, got \{\}"):
        FastParquetDataset("nowhere.parquet", io={})  # type: ignore[arg-type]
