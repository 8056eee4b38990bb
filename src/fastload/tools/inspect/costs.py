"""What a pass over columns takes: CPU seconds, from measured costs.

The constants are medians of what `benchmarks/bench_layout.py` printed; docs/notes/tools-inspect.md
has the table. The constants hold for numbers without nulls, read in order: they are estimates, good
for comparing layouts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.tools.inspect.column_layout import ColumnLayout

__all__ = ["REQUESTS_IN_FLIGHT", "REQUEST_S", "PassCost", "cost_of"]

# To open a column chunk: its headers, its dictionary, and a task of the core.
_CHUNK_S = 5.2e-6
# Beyond that, where the codec begins anew for each page; of the others it is within the noise.
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
# A request of a store in the same region, and as many as `IO()` has in flight.
REQUEST_S = 0.03
REQUESTS_IN_FLIGHT = 64


@dataclass(frozen=True, slots=True)
class PassCost:
    """CPU seconds of a pass on any number of threads.

    chunks: to open column chunks.
    values: to decode.
    codecs: to decompress, by codec.
    """

    chunks: float
    values: float
    codecs: dict[str, float]

    @property
    def total(self) -> float:
        """CPU seconds of all of it."""
        return self.chunks + self.values + sum(self.codecs.values())


def cost_of(columns: Sequence[ColumnLayout], decoded_bytes: int, times: float = 1.0) -> PassCost:
    """The cost of a pass over these columns.

    decoded_bytes: of the batches of a pass.
    times: files for each one that `columns` were counted in.
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
    """CPU seconds to decompress so many bytes; of a codec not measured as of zstd."""
    rate = _DECOMPRESSED_BYTE_S.get(codec, _DECOMPRESSED_BYTE_S["zstd"])
    return page_bytes * rate
