"""The argument `io` of a dataset: how files are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from fastload.runtime.units import parse_bytes

__all__ = ["IO"]

Transport = Literal["auto", "native", "fsspec"]
"""The names of the clients that can read an object store."""


@dataclass(frozen=True, slots=True)
class IO:
    """Options of reading files, for the argument `io` of `FastParquetDataset`.

    For local files, only `concurrency` and `verify_crc` matter.

    Example:
        io = IO(concurrency=128, request_bytes="16MB")
        FastParquetDataset("gs://bucket/train", columns=["f1"], io=io)

    Args:
        concurrency: limit of the requests in flight, and of connections, for this process or for
            all workers of a DataLoader together. When a store answers 429 or 503, fewer requests
            are in flight for a while. For local files, the number of threads that read, of which
            a few are enough.
        request_bytes: limit of one request, as bytes or a size such as "8MB".
        hole_bytes: largest gap between two wanted ranges that is read along with them, in one
            request instead of two, as bytes or a size such as "64KB".
        retries: number of times that a failed request is retried, after growing pauses, before an
            error is raised. The pauses of 8 retries last 13 to 26 s; each further pause lasts 10 to
            20 s. Some of fsspec's filesystems also retry by themselves.
        timeout_s: seconds to wait for a connection, and for the first or the next byte of an
            answer.
        verify_crc: compare each page with the checksum that its writer stored, if any; a
            difference raises `CorruptFileError`. Off by default: the comparison costs about 40 %
            of a pass over local dictionary pages, and doubles the time of a pass over plain,
            uncompressed pages.
        transport: client that reads an object store. "native" is obstore, which reads gs://,
            s3://, az://, hf:// and http(s):// without the GIL. "fsspec" is gcsfs and all other
            filesystems of fsspec. "auto" chooses the better client that can read the store. In
            the process that makes the dataset, fsspec reads listings and footers, because obstore
            does not survive a fork: s3:// needs the package s3fs, unless `multiprocessing`
            starts processes by a method other than fork. For az:// without adlfs, obstore reads
            listings and footers in a separate process.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: an argument has a wrong value.
    """

    concurrency: int = 64
    request_bytes: int | str = "8MB"
    hole_bytes: int | str = "64KB"
    retries: int = 8
    timeout_s: float = 30.0
    verify_crc: bool = False
    transport: Transport = "auto"

    def __post_init__(self) -> None:
        _check_count("concurrency", self.concurrency, least=1)
        _check_count("retries", self.retries, least=0)
        parse_bytes(self.request_bytes, "request_bytes of IO")
        if self.hole_bytes != 0:  # 0 is no valid size, but means that no gap is read
            parse_bytes(self.hole_bytes, "hole_bytes of IO")
        if isinstance(self.timeout_s, bool) or not isinstance(self.timeout_s, int | float):
            raise TypeError(f"Expected timeout_s of IO in seconds, got {self.timeout_s!r}")
        if not 0 < self.timeout_s < float("inf"):
            raise ValueError(f"Expected timeout_s of IO above 0, got {self.timeout_s}")
        if not isinstance(self.verify_crc, bool):
            raise TypeError(f"Expected verify_crc of IO to be a bool, got {self.verify_crc!r}")
        if self.transport not in get_args(Transport):
            raise ValueError(
                f"Expected transport of IO to be one of {', '.join(get_args(Transport))}, got "
                f"{self.transport!r}"
            )


def _check_count(name: str, value: object, *, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"Expected {name} of IO as int, got {value!r}")
    if value < least:
        raise ValueError(f"Expected {name} of IO to be at least {least}, got {value}")
