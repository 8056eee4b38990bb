"""How bytes are read from where they lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from fastload.runtime.sizes import parse_bytes

__all__ = ["IO"]

Transport = Literal["auto", "native", "fsspec"]
"""Which client reads an object store."""


@dataclass(frozen=True, slots=True)
class IO:
    """How files are read; the `io` argument of `FastParquetDataset`.

    For local files only `concurrency` and `verify_crc` matter.

    concurrency: requests in flight, and connections, of this process, or of all workers of a
        DataLoader together; fewer for a while when a store answers 429 or 503. Of local files,
        threads that read, of which a few are enough.
    request_bytes: of one request at most, as bytes or a size such as "8MB".
    hole_bytes: bytes between two wanted ranges that are read along rather than asked around.
    retries: of one request, after growing pauses, before it is an error. Some of the clients
        that fsspec finds try again by themselves, too.
    timeout_s: seconds that a connection, an answer's first byte or its next one may take.
    verify_crc: compare each page with the checksum that its writer stored, if it stored one; a
        difference raises `CorruptFileError`. Off by default: it costs about 40 % of a pass over
        local dictionary pages, and doubles one over plain, uncompressed pages.
    transport: what reads an object store: "native" (obstore, without the GIL: gs://, s3://,
        az:// and http(s)://), "fsspec" (gcsfs and all others), or "auto" for the better one that
        can. Where a dataset is made, listings and footers are read by fsspec, if it has the
        package for that, or by obstore in a process of its own: it does not survive a fork.

    Raises `TypeError` or `ValueError` when an argument is not what it should be.
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
        if self.hole_bytes != 0:  # no size, but a way to say: read nothing along
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
