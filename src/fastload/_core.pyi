from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from typing_extensions import CapsuleType

from fastload.intervals import Int64s

_File: TypeAlias = tuple[str, int, Footer]  # path, mtime_ns, footer
_Selection: TypeAlias = tuple[NDArray[np.uint8], Sequence[int]]  # bits, offsets by row group
_Bytes: TypeAlias = bytes  # ColumnSpec has an argument of that name

class _ExportsSchema(Protocol):
    def __arrow_c_schema__(self) -> CapsuleType: ...

class Leaf:
    @property
    def path(self) -> tuple[str, ...]: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def physical_type(self) -> str: ...
    @property
    def logical_type(self) -> str: ...
    @property
    def max_definition_level(self) -> int: ...
    @property
    def max_repetition_level(self) -> int: ...
    @property
    def list_sizes(self) -> tuple[int, ...]: ...
    @property
    def tensor_shape(self) -> tuple[int, ...] | None: ...
    @property
    def tensor_permutation(self) -> tuple[int, ...]: ...

class LeafChunks:
    @property
    def compressed_bytes(self) -> list[int]: ...
    @property
    def uncompressed_bytes(self) -> list[int]: ...
    @property
    def num_values(self) -> list[int]: ...
    @property
    def value_bytes(self) -> list[int]: ...
    @property
    def null_count(self) -> list[int]: ...

class Footer:
    def __init__(self, tail: bytes, file_bytes: int, file: str) -> None: ...
    @staticmethod
    def tail_bytes(tail: bytes, file_bytes: int, file: str) -> int: ...
    @property
    def file(self) -> str: ...
    @property
    def file_bytes(self) -> int: ...
    @property
    def num_rows(self) -> int: ...
    @property
    def row_group_rows(self) -> list[int]: ...
    @property
    def leaves(self) -> list[Leaf]: ...
    def same_schema(self, other: Footer) -> bool: ...
    def leaf_chunks(self, leaf: int) -> LeafChunks: ...
    def __arrow_c_schema__(self) -> CapsuleType: ...
    def __getstate__(self) -> tuple[bytes, int, str]: ...
    def __setstate__(self, state: tuple[bytes, int, str], /) -> None: ...

class LeafSummary:
    @property
    def values(self) -> int: ...
    @property
    def value_bytes(self) -> int: ...
    @property
    def null_file(self) -> int: ...
    @property
    def null_row_group(self) -> int: ...

def summarize_leaves(
    footers: Sequence[Footer], leaves: Sequence[Sequence[int]], *, statistics: Sequence[bool]
) -> list[LeafSummary]: ...

class ColumnSpec:
    def __init__(
        self,
        *,
        name: str,
        leaves: Sequence[int],
        dtype: str,
        bytes: bool,  # noqa: A002 - as the core names it
        fill: bytes | None,
        cast: bool,
        unscaled: bool,
        exact: bool = False,
        multipliers: Sequence[int] = (),
        constants: Sequence[_Bytes | None] = (),
        depth: int = 0,
        list_size: int = 0,
        null_lists: bool = False,
        hash_buckets: int = 0,
        hash_seed: int = 0,
        vocabulary: Sequence[_Bytes] | Sequence[int] | None = None,
        unknown: int = -1,
    ) -> None: ...

class OutputSpec:
    def __init__(
        self, kind: str, columns: Sequence[int], length: int = 0, pad: bytes = b""
    ) -> None: ...

def xxhash64(data: bytes, seed: int = 0) -> int: ...
def xxhash64_integers(
    values: NDArray[np.int64], seeds: NDArray[np.uint64]
) -> NDArray[np.uint64]: ...
def xxhash64_bytes(
    values: NDArray[np.uint8], offsets: NDArray[np.int64], seeds: NDArray[np.uint64]
) -> NDArray[np.uint64]: ...

class ReadPlan:
    def __init__(
        self,
        *,
        batch_rows: int,
        rows: int,
        padding: int,
        shuffled: bool,
        pieces: Int64s,
        takes: Int64s,
        windows: Int64s,
        keys: NDArray[np.uint64],
        substitutes: Int64s = ...,
    ) -> None: ...
    @property
    def rows(self) -> int: ...

def permutation(key: int, rows: int) -> NDArray[np.uint32]: ...

class LentBatch:
    @property
    def rows(self) -> int: ...
    @property
    def areas(self) -> tuple[int, ...]: ...

class Scan:
    @property
    def opened_all(self) -> bool: ...
    @property
    def damage(self) -> tuple[int, int, int] | None: ...
    def next(self) -> LentBatch | None: ...
    def begin(self) -> None: ...
    def close(self) -> None: ...

class Pipeline:
    def __init__(
        self,
        *,
        files: Sequence[_File],
        columns: Sequence[ColumnSpec],
        outputs: Sequence[OutputSpec],
        threads: int,
        io_threads: int,
        batch_memory_bytes: int,
        fetch_memory_bytes: int,
        verify_crc: bool = False,
        selections: Sequence[_Selection | None] = (),
    ) -> None: ...
    def start(
        self,
        plan: ReadPlan,
        *,
        open_windows: int,
        fetch_bytes: int,
        segment_bytes: int,
        before: Scan | None = None,
    ) -> Scan: ...
    def close(self) -> None: ...
    def counts(self) -> dict[str, int]: ...
    @property
    def lent_bytes(self) -> int: ...

class PageBounds:
    @property
    def first_rows(self) -> list[int]: ...
    @property
    def null_pages(self) -> list[bool]: ...
    @property
    def null_counts(self) -> list[int]: ...
    @property
    def minima(self) -> list[bytes]: ...
    @property
    def maxima(self) -> list[bytes]: ...

def read_page_bounds(*, file: _File, leaf: int, row_groups: Sequence[int]) -> list[PageBounds]: ...

_Found: TypeAlias = tuple[int, NDArray[np.uint8] | None]  # count, bits

class RowFinder:
    def __init__(
        self,
        *,
        files: Sequence[_File],
        columns: Sequence[ColumnSpec],
        tests: Sequence[tuple[int, Int64s, bool]],
        program: Sequence[int],
        threads: int,
    ) -> None: ...
    def find(
        self, row_groups: Sequence[tuple[int, int]], *, skip: bool = False
    ) -> list[_Found | str]: ...

def bind_filter(serialized: _Bytes, schema: _ExportsSchema) -> tuple[Any, ...]: ...

class RoofTimes:
    @property
    def pages_s(self) -> float: ...
    @property
    def memcpy_s(self) -> float: ...
    @property
    def pages(self) -> int: ...
    @property
    def read_bytes(self) -> int: ...

def measure_roof(
    *, files: Sequence[_File], leaves: Sequence[Sequence[int]], output_bytes: int, threads: int
) -> RoofTimes: ...
