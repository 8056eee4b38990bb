from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from typing_extensions import Buffer, CapsuleType

from fastload.plan.intervals import Int64s

_File: TypeAlias = tuple[bytes, int, int, Footer]  # path, mtime_ns, inode, footer
_Selection: TypeAlias = tuple[NDArray[np.uint8], Sequence[int]]  # bits, offsets by row group
_Bytes: TypeAlias = bytes  # ColumnSpec has an argument of that name
_Keys: TypeAlias = NDArray[np.uint64] | None
# fastload.plan.units.windows.WindowRows
_WindowRows: TypeAlias = tuple[NDArray[np.uint32], Int64s, int, int, _Keys, _Keys]

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
    def list_sizes(self) -> tuple[int, ...]: ...
    @property
    def lists_around(self) -> tuple[int, ...]: ...
    @property
    def tensor_shape(self) -> tuple[int, ...] | None: ...
    @property
    def tensor_permutation(self) -> tuple[int, ...]: ...

class LeafChunks:
    @property
    def offset(self) -> list[int]: ...
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

class FooterSchema:
    def __init__(self, tail: bytes) -> None: ...
    @property
    def text(self) -> str: ...
    @property
    def tail(self) -> bytes: ...
    def __getstate__(self) -> tuple[bytes]: ...
    def __setstate__(self, state: tuple[bytes], /) -> None: ...

class FooterSchemas:
    def __init__(self) -> None: ...
    def share(self, schema: FooterSchema) -> FooterSchema: ...

class KeptFile:
    def __init__(self, path: str) -> None: ...
    def hash(self, offset: int) -> int: ...
    def __getstate__(self) -> tuple[bytes, str, int, int]: ...
    def __setstate__(self, state: tuple[bytes, str, int, int], /) -> None: ...

class Hash64:
    def __init__(self) -> None: ...
    def update(self, part: bytes) -> None: ...
    @property
    def digest(self) -> int: ...

class Footer:
    def __init__(
        self, tail: bytes, file_bytes: int, file: str | bytes, schemas: FooterSchemas | None = None
    ) -> None: ...
    @staticmethod
    def of_packed(
        packed: tuple[KeptFile, int, int] | bytes,
        file_bytes: int,
        file: str | bytes,
        rows: bytes,
        schema: FooterSchema,
    ) -> Footer: ...
    def pack(self) -> bytes: ...
    @property
    def packed_rows(self) -> bytes: ...
    @property
    def schema(self) -> FooterSchema: ...
    @staticmethod
    def tail_bytes(tail: bytes, file_bytes: int, file: str | bytes) -> int: ...
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
    @property
    def plain(self) -> bool: ...
    def page_counts(self, leaf: int) -> list[dict[str, int]]: ...
    @property
    def tail(self) -> bytes: ...
    def __arrow_c_schema__(self) -> CapsuleType: ...
    def __getstate__(
        self,
    ) -> tuple[bytes, int, str] | tuple[bytes, int, str, bytes, FooterSchema]: ...
    def __setstate__(
        self,
        state: tuple[bytes, int, str] | tuple[bytes, int, str, bytes, FooterSchema],
        /,
    ) -> None: ...

class LeafSummary:
    @property
    def values(self) -> int: ...
    @property
    def value_bytes(self) -> int: ...
    @property
    def null_file(self) -> int: ...
    @property
    def null_row_group(self) -> int: ...
    @property
    def nulls(self) -> int: ...
    @property
    def nulls_known(self) -> bool: ...

def summarize_leaves(
    footers: Sequence[Footer], leaves: Sequence[Sequence[int]]
) -> list[LeafSummary]: ...

class ColumnSpec:
    def __init__(
        self,
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
        shared_levels: Sequence[int] = (),
        levels: int = 0,
        depth: int = 0,
        list_size: int = 0,
        list_items: int = -1,
        null_lists: bool = False,
        hash_buckets: int = 0,
        hash_seed: int = 0,
        vocabulary: Sequence[_Bytes] | Sequence[int] | None = None,
        unknown: int = -1,
        lengths_only: bool = False,
    ) -> None: ...

class OutputSpec:
    def __init__(
        self,
        kind: str,
        columns: Sequence[int],
        length: int = 0,
        pad: bytes = b"",
        keep_last: bool = False,
        pad_left: bool = False,
        dtype: str = "uint8",
    ) -> None: ...

class KernelSpec:
    def __init__(
        self,
        *,
        address: int,
        inputs: Sequence[int],
        outputs: Sequence[int],
        places: tuple[int, int],
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
        batch_edges: Int64s = ...,
        orders: NDArray[np.uint32] = ...,
        segments: NDArray[np.uint32] = ...,
        lane_of: Sequence[int] = ...,
        lane_padding: Sequence[int] = ...,
        copies: NDArray[np.uint16] = ...,
        piece_copies: Int64s = ...,
    ) -> None: ...
    @property
    def rows(self) -> int: ...

def permutation(rows: int, key: int) -> NDArray[np.uint32]: ...
def pack_windows(
    rows: _WindowRows, kept: NDArray[np.uint32], length: int
) -> tuple[NDArray[np.uint32], Int64s, Int64s]: ...
def batch_windows(
    rows: _WindowRows, tokens: int, padded: bool, max_rows: int | None
) -> tuple[NDArray[np.uint32], Int64s]: ...
def split_window(
    rows: NDArray[np.uint32],
    kept: NDArray[np.uint32],
    lengths: NDArray[np.uint32],
    length: int,
    first: int,
    start: int,
    stop: int,
) -> NDArray[np.uint32]: ...
def draw_copies(
    weights: NDArray[Any], edges: Int64s, scale: float, key: int
) -> tuple[NDArray[np.uint16], Int64s]: ...

class BatchSender:
    def __init__(self, *, size: int, description: bytes) -> None: ...
    def allocate(self, size: int) -> LentBatch: ...
    def send(self, batches: Sequence[LentBatch]) -> list[int] | None: ...
    def report(self, memory: Sequence[int]) -> None: ...
    @property
    def held_bytes(self) -> int: ...
    @property
    def met(self) -> bool: ...
    @property
    def fd(self) -> int: ...

class ReceivedBatch:
    @property
    def rows(self) -> int: ...
    @property
    def receiver(self) -> BatchReceiver: ...
    @property
    def segment(self) -> tuple[int, int]: ...
    @property
    def areas(self) -> tuple[int, ...]: ...

class BatchReceiver:
    def __init__(self, fd: int) -> None: ...
    def take(self, slot: int) -> ReceivedBatch: ...
    @property
    def memory(self) -> list[int]: ...
    @property
    def description(self) -> bytes: ...

class LentBatch:
    @property
    def rows(self) -> int: ...
    @property
    def extent(self) -> tuple[int, int]: ...
    @property
    def window(self) -> int: ...
    @property
    def failed_kernel(self) -> int: ...
    @property
    def failed_key(self) -> int: ...
    def take_tensor(self) -> torch.Tensor | None: ...
    @property
    def areas(self) -> tuple[int, ...]: ...

class Scan:
    @property
    def opened_all(self) -> bool: ...
    @property
    def ready(self) -> bool: ...
    @property
    def waits(self) -> bool: ...
    @property
    def damage(self) -> tuple[int, int, int] | None: ...
    def describe(self) -> str: ...
    def next(self) -> LentBatch | None: ...
    def begin(self) -> None: ...
    def close(self) -> None: ...

# stage, thread, start and end in ns, file or batch or window, unit, bytes
RecordedSpan: TypeAlias = tuple[str, int, int, int, int, int, int]

class RowNumbers:
    def __init__(
        self, *, file: Sequence[int], row_group: Sequence[int], rows: Sequence[int]
    ) -> None: ...
    @property
    def rows(self) -> int: ...

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
        staging_memory_bytes: int,
        fetch_memory_bytes: int,
        verify_crc: bool = False,
        selections: Sequence[_Selection | None] = (),
        sender: BatchSender | None = None,
        allocate: Callable[[int], torch.Tensor] | None = None,
        remote: RemoteQueue | None = None,
        kernels: Sequence[KernelSpec] = (),
        fill_memory_bytes: int = ...,
        kept_memory_bytes: int = 0,
        page_hole_bytes: int = ...,
        page_table_bytes: int = ...,
        dictionary_bytes: int = ...,
    ) -> None: ...
    def take(
        self,
        numbers: RowNumbers,
        indices: Int64s,
        *,
        fetch_bytes: int,
        segment_bytes: int,
        request_bytes: int,
        hole_bytes: int,
        kernel_keys: Sequence[int] = (),
    ) -> LentBatch: ...
    def start(
        self,
        plan: ReadPlan,
        *,
        open_windows: int,
        fetch_bytes: int,
        segment_bytes: int,
        request_bytes: int,
        hole_bytes: int,
        before: Scan | None = None,
        kernel_keys: Sequence[int] = (),
        run_batches: int = 1,
    ) -> Scan: ...
    def close(self) -> None: ...
    def counts(self) -> dict[str, int]: ...
    def start_spans(self, capacity: int) -> None: ...
    def stop_spans(self) -> tuple[list[RecordedSpan], list[str], int]: ...
    @property
    def memory(self) -> list[int]: ...
    def limit_kept(self, limit_bytes: int) -> None: ...
    @property
    def lent_bytes(self) -> int: ...

_Found: TypeAlias = tuple[int, NDArray[np.uint8] | None]  # count, bits

class RangeCache:
    def __init__(self, directory: str) -> None: ...
    def covers(self, object: str, start: int, stop: int) -> bool: ...  # noqa: A002 - as below
    def read(self, object: str, start: int, stop: int) -> bytes | None: ...  # noqa: A002
    def claim(self, object: str, start: int, stop: int) -> RangeClaim | None: ...  # noqa: A002

def check_range(directory: str, object: str, start: int, stop: int) -> bool | None: ...  # noqa: A002

class RangeClaim:
    @property
    def descriptor(self) -> int: ...
    def publish(self, bytes: Buffer) -> int: ...  # noqa: A002 - as the core names it
    def release(self) -> None: ...

class RemoteQueue:
    def __init__(self, cache: RangeCache | None = None, objects: Sequence[str] = ()) -> None: ...
    @property
    def wake_fd(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    def take(self, most: int) -> list[tuple[int, int, int, int]]: ...
    def finish(
        self,
        id: int,  # noqa: A002 - as the core names it
        bytes: Buffer,  # noqa: A002 - likewise
        *,
        take: bool = False,
    ) -> tuple[int, int, int, int] | None: ...
    def fail(self, id: int, *, changed: bool, message: str) -> None: ...  # noqa: A002 - likewise
    def close(self) -> None: ...

def coalesce(
    ranges: Sequence[tuple[int, int]], *, hole_bytes: int, request_bytes: int
) -> list[tuple[int, int]]: ...

class RowFinder:
    def __init__(
        self,
        *,
        files: Sequence[_File],
        columns: Sequence[ColumnSpec],
        tests: Sequence[tuple[int, Int64s, bool]],
        program: Sequence[int],
        threads: int,
        remote: RemoteQueue | None = None,
        decodes: bool = True,
    ) -> None: ...
    def find(
        self, row_groups: Sequence[tuple[int, int]], *, skip: bool = False
    ) -> list[_Found | str]: ...

def bind_filter(serialized: _Bytes, schema: _ExportsSchema) -> tuple[Any, ...]: ...

class RoofTimes:
    @property
    def pages_s(self) -> float: ...
    @property
    def read_s(self) -> float: ...
    @property
    def kept_s(self) -> float: ...
    @property
    def memcpy_s(self) -> float: ...
    @property
    def pages(self) -> int: ...
    @property
    def read_bytes(self) -> int: ...
    @property
    def kept_bytes(self) -> int: ...

def measure_roof(
    *,
    files: Sequence[_File],
    leaves: Sequence[Sequence[int]],
    output_bytes: int,
    threads: int,
    first_rows: int = ...,
    kept_limit_bytes: int = ...,
) -> RoofTimes: ...
