"""Cost of a pass over columns in CPU seconds, estimated from measured costs.

docs/notes/tools-inspect.md says how the constants were measured: with numbers without nulls, read
in order. They serve to compare layouts of one table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.tools.inspect.column_layout import ColumnLayout

__all__ = ["REQUESTS_IN_FLIGHT", "REQUEST_S", "PassCost", "cost_of"]

# Seconds to open a column chunk: its headers, its dictionary, and a task of the core.
_CHUNK_S = 5.2e-6
# Further seconds for codecs that start again on each page; other codecs take no more than noise.
_CODEC_CHUNK_S = {"zstd": 12e-6}
_DECODED_BYTE_S = 0.13e-9
_DECOMPRESSED_BYTE_S = {
    "none": 0.0,
    "snappy": 0.03e-9,
    "lz4": 0.07e-9,
    "zstd": 0.71e-9,
    "gzip": 3.0e-9,
    "brotli": 3.9e-9,
}
# Seconds of a request to a store in the same region, and requests that `IO()` has in flight.
REQUEST_S = 0.03
REQUESTS_IN_FLIGHT = 64


@dataclass(frozen=True, slots=True)
class PassCost:
    """CPU seconds of a pass, on any number of threads.

    Attributes:
        chunks: seconds to open column chunks.
        values: seconds to decode values.
        codecs: codec -> seconds to decompress.
    """

    chunks: float
    values: float
    codecs: dict[str, float]

    @property
    def total(self) -> float:
        """CPU seconds of the whole pass."""
        return self.chunks + self.values + sum(self.codecs.values())


def cost_of(columns: Sequence[ColumnLayout], decoded_bytes: int, times: float = 1.0) -> PassCost:
    """Return the cost of a pass over columns.

    Args:
        columns: sums over the chunks of the inspected files.
        decoded_bytes: bytes of the batches of a pass.
        times: number of all files divided by the number of inspected files.
    """
    codecs: dict[str, float] = {}
    for column in columns:
        for codec, chunks in column.codecs.items():
            page_bytes = column.page_bytes * chunks / column.chunks
            seconds = decompression_s(codec, page_bytes) * times
            codecs[codec] = codecs.get(codec, 0.0) + seconds
    chunks_s = sum(
        chunks * (_CHUNK_S + _CODEC_CHUNK_S.get(codec, 0.0))
        for column in columns
        for codec, chunks in column.codecs.items()
    )
    return PassCost(chunks_s * times, decoded_bytes * _DECODED_BYTE_S, codecs)


def decompression_s(codec: str, page_bytes: float) -> float:
    """Return the CPU seconds of decompression; an unknown codec costs as much as zstd."""
    rate = _DECOMPRESSED_BYTE_S.get(codec, _DECOMPRESSED_BYTE_S["zstd"])
    return page_bytes * rate
