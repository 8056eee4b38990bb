"""How the column chunks of one leaf column are stored."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ColumnLayout"]

_DICTIONARY = ("PLAIN_DICTIONARY", "RLE_DICTIONARY")
# Of levels and of nothing else, but for the one of booleans.
_LEVELS = ("BIT_PACKED", "RLE")


@dataclass(slots=True)
class ColumnLayout:
    """The chunks of a leaf column, taken together.

    name: dotted, as users name it.
    path: dotted, as writers name it, with the groups that lists are written as.
    physical_type, logical_type: as the format names them; "None" where there is no logical type.
    chunks: column chunks that were looked at; the counts below are of these.
    encrypted: of which nothing is known.
    values: nulls among them.
    stored_bytes: in the file.
    page_bytes: decompressed.
    dictionary_bytes: of dictionary pages, in the file.
    codecs: chunks by codec.
    encodings: chunks by encoding of data pages.
    pages: data pages; 0 where writers did not count them.
    dictionaries: chunks with a dictionary page.
    fallbacks: chunks whose writer gave the dictionary up on the way.
    bounds: chunks with the least and the greatest value.
    page_indexes: chunks with bounds of each page and the places of pages.
    bloom_filters: chunks with one.
    nulls: that statistics tell.
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

    def add(self, chunk: Any, page_counts: Mapping[str, int]) -> None:
        """Counts a chunk in.

        chunk: pyarrow's metadata of it.
        page_counts: data pages by encoding; empty where the writer counted none.
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
            # Some writers leave 0 for the place of the dictionary.
            if 0 < chunk.dictionary_page_offset < chunk.data_page_offset:
                self.dictionary_bytes += chunk.data_page_offset - chunk.dictionary_page_offset
            self.fallbacks += bool(encodings - set(_DICTIONARY))
        self.page_indexes += chunk.has_column_index and chunk.has_offset_index
        self.bloom_filters += chunk.bloom_filter_offset is not None
        statistics = chunk.statistics if chunk.is_stats_set else None
        if statistics is not None:
            self.bounds += statistics.has_min_max
            self.nulls += (statistics.null_count or 0) if statistics.has_null_count else 0


def _codec(name: str) -> str:
    """In small letters, as pyarrow's writer takes it."""
    return "none" if name == "UNCOMPRESSED" else name.lower()


def _data_encodings(chunk: Any) -> set[str]:
    """The encodings of data pages, as far as the list of all of a chunk's encodings tells.

    From version 2 of the format on it has PLAIN for the dictionary itself.
    """
    listed = set(chunk.encodings)
    found = listed - set(_LEVELS)
    if "RLE_DICTIONARY" in found and chunk.has_dictionary_page:
        found.discard("PLAIN")
    return found or listed
