"""Layout of the column chunks of one leaf column."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ColumnLayout"]

_DICTIONARY = ("PLAIN_DICTIONARY", "RLE_DICTIONARY")
# Encodings of levels; RLE also encodes boolean values.
_LEVELS = ("BIT_PACKED", "RLE")


@dataclass(slots=True)
class ColumnLayout:
    """Sums over the chunks of a leaf column.

    Attributes:
        name: dotted name of the column, as users write it.
        path: dotted path of the column, as writers store it, including the groups of lists.
        physical_type: physical type, as the format names it.
        logical_type: logical type, as the format names it; "None" without a logical type.
        chunks: number of inspected column chunks; all counts below are of these chunks.
        encrypted: number of chunks that are encrypted or damaged, and not counted in `chunks`.
        values: number of values, including nulls.
        stored_bytes: bytes in the file.
        page_bytes: bytes of the decompressed pages.
        dictionary_bytes: bytes of dictionary pages in the file.
        codecs: codec -> number of chunks.
        encodings: encoding of data pages -> number of chunks.
        pages: number of data pages; 0 if writers did not count the pages.
        dictionaries: number of chunks with a dictionary page.
        fallbacks: number of chunks whose writer gave up the dictionary partway.
        bounds: number of chunks with a least and a greatest value.
        page_indexes: number of chunks with bounds and offsets of each page.
        bloom_filters: number of chunks with a bloom filter; 0 with pyarrow 24, which does not tell.
        nulls: number of nulls, as far as statistics count them.
        uncounted: number of chunks that may hold nulls, whose statistics count none.
    """

    name: str
    path: str
    physical_type: str
    logical_type: str
    chunks: int = 0
    encrypted: int = 0
    values: int = 0
    stored_bytes: int = 0
    page_bytes: int = 0
    dictionary_bytes: int = 0
    codecs: Counter[str] = field(default_factory=Counter)
    encodings: Counter[str] = field(default_factory=Counter)
    pages: int = 0
    dictionaries: int = 0
    fallbacks: int = 0
    bounds: int = 0
    page_indexes: int = 0
    bloom_filters: int = 0
    nulls: int = 0
    uncounted: int = 0

    def add(self, chunk: Any, page_counts: Mapping[str, int], *, nullable: bool) -> None:
        """Add a chunk to the sums.

        Args:
            chunk: pyarrow's metadata of the chunk.
            page_counts: number of data pages by encoding; empty if the writer counted no pages.
            nullable: True if the column may hold nulls.
        """
        self.chunks += 1
        self.values += chunk.num_values
        self.stored_bytes += chunk.total_compressed_size
        self.page_bytes += chunk.total_uncompressed_size
        self.codecs[_codec(chunk.compression)] += 1
        encodings = set(page_counts) or _data_encodings(chunk)
        self.encodings.update(sorted(encodings))
        self.pages += sum(page_counts.values())
        if chunk.has_dictionary_page:
            self.dictionaries += 1
            # Some writers write 0 as the offset of the dictionary.
            if 0 < chunk.dictionary_page_offset < chunk.data_page_offset:
                self.dictionary_bytes += chunk.data_page_offset - chunk.dictionary_page_offset
            self.fallbacks += bool(encodings - set(_DICTIONARY))
        self.page_indexes += chunk.has_column_index and chunk.has_offset_index
        # pyarrow 24 has no such attribute.
        self.bloom_filters += getattr(chunk, "bloom_filter_offset", None) is not None
        statistics = chunk.statistics if chunk.is_stats_set else None
        if statistics is not None:
            self.bounds += statistics.has_min_max
        if statistics is not None and statistics.has_null_count:
            self.nulls += statistics.null_count or 0
        else:
            self.uncounted += nullable


def _codec(name: str) -> str:
    """Return the codec's name in lower case, as pyarrow's writer takes the name."""
    return "none" if name == "UNCOMPRESSED" else name.lower()


def _data_encodings(chunk: Any) -> set[str]:
    """Return the encodings of data pages, derived from the list of all encodings of a chunk.

    From version 2 of the format on, the list has PLAIN for the dictionary itself.
    """
    listed = set(chunk.encodings)
    found = listed - set(_LEVELS)
    if "RLE_DICTIONARY" in found and chunk.has_dictionary_page:
        found.discard("PLAIN")
    return found or listed
