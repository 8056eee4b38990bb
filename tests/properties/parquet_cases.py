"""Random Parquet files, and how to write them."""

import os
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import settings
from hypothesis import strategies as st
from nested_cases import Shape, with_nulls

# Each example writes files; `make test-properties` tries more.
EXAMPLES = settings(max_examples=int(os.environ.get("EXAMPLES", "100")))
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = {"float16": np.uint16, "float32": np.uint32, "float64": np.uint64}
TIMES = [
    (pa.date32(), np.int32, 10**5),
    (pa.date64(), np.int64, None),
    (pa.time32("s"), np.int32, 86_400),
    (pa.time32("ms"), np.int32, 86_400_000),
    (pa.time64("us"), np.int64, 86_400 * 10**6),
    (pa.time64("ns"), np.int64, 86_400 * 10**9),
    # 2^33 s are 272 years: INT96 is read as nanoseconds in int64, whose range is 292 years.
    (pa.timestamp("s"), np.int64, 2**33),
    *((pa.timestamp(unit), np.int64, 2**40) for unit in ("ms", "us", "ns")),
    (pa.timestamp("us", "Europe/Berlin"), np.int64, 2**50),
    *((pa.duration(unit), np.int64, 2**40) for unit in ("s", "ms", "us", "ns")),
]
DECIMALS = [
    *(pa.decimal128(*of) for of in ((3, 1), (9, 0), (9, 9), (15, 2), (18, 4), (38, 10))),
    pa.decimal256(60, 20),
]
# Values of a column that are slow to make, each of which comes again.
DISTINCT = 50
# What pyarrow writes, by physical type, where there is no dictionary.
ENCODINGS = {
    "BOOLEAN": ["PLAIN", "RLE"],
    "INT32": ["PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"],
    "INT64": ["PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"],
    "INT96": ["PLAIN"],
    "FLOAT": ["PLAIN", "BYTE_STREAM_SPLIT"],
    "DOUBLE": ["PLAIN", "BYTE_STREAM_SPLIT"],
    "BYTE_ARRAY": ["PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"],
    "FIXED_LEN_BYTE_ARRAY": ["PLAIN", "DELTA_BYTE_ARRAY", "BYTE_STREAM_SPLIT"],
}


def integers(rng, n, kind):
    info = np.iinfo(kind)
    few = rng.integers(info.min, info.max, 5, kind, endpoint=True)
    any_of = rng.integers(info.min, info.max, n, kind, endpoint=True)
    special = np.array([info.min, info.max, 0, 1], kind)
    values = {0: any_of, 1: few[rng.integers(0, 5, n)], 2: special[rng.integers(0, 4, n)]}
    return pa.array(values[int(rng.integers(3))])


def floats(rng, n, kind):
    # Of random bits some are NaN, infinite or subnormal.
    bits = np.dtype(kind).itemsize * 8
    values = rng.integers(0, 2**bits - 1, n, FLOATS[kind], endpoint=True).view(kind)
    if rng.integers(2):
        values = np.array([0.0, -0.0, np.nan, np.inf, 1.5], kind)[rng.integers(0, 5, n)]
    return pa.array(values)


def times(rng, n, arrow, kind, most):
    if pa.types.is_date64(arrow):
        values = rng.integers(-(10**5), 10**5, n) * 86_400_000
    else:
        least = 0 if pa.types.is_time(arrow) else -most
        values = rng.integers(least, most, n)
    return pa.array(values.astype(kind)).view(arrow)


def decimals(rng, n, arrow):
    digits = rng.integers(1, arrow.precision + 1, DISTINCT).tolist()
    unscaled = ["-"[: rng.integers(2)] + "".join(map(str, rng.integers(0, 10, d))) for d in digits]
    values = pa.array([Decimal(f"{digits}e-{arrow.scale}") for digits in unscaled], arrow)
    return values.take(pa.array(rng.integers(0, DISTINCT, n)))


def strings(rng, n, arrow):
    pool = ["", "a", "naïve", "日本語", "x" * 300, *(str(k) for k in range(40))]
    return pa.array([pool[k] for k in rng.integers(0, len(pool), n).tolist()], arrow)


def binaries(rng, n, arrow):
    width = arrow.byte_width if pa.types.is_fixed_size_binary(arrow) else None
    sizes = rng.integers(0, 20, DISTINCT).tolist() if width is None else [width] * DISTINCT
    values = pa.array([rng.bytes(size) for size in sizes], arrow)
    return values.take(pa.array(rng.integers(0, DISTINCT, n)))


def dictionaries(rng, n, values):
    codes = pa.array(rng.integers(0, len(values), n).astype(np.int32))
    return pa.DictionaryArray.from_arrays(codes, values)


MAKERS = [
    lambda rng, n: pa.array(rng.integers(0, 2, n).astype(bool)),
    lambda rng, n: pa.array(np.repeat(rng.integers(0, 2, n).astype(bool), 9)[:n]),
    *(lambda rng, n, kind=kind: integers(rng, n, kind) for kind in INTEGERS),
    *(lambda rng, n, kind=kind: floats(rng, n, kind) for kind in FLOATS),
    *(lambda rng, n, of=of: times(rng, n, *of) for of in TIMES),
    *(lambda rng, n, arrow=arrow: decimals(rng, n, arrow) for arrow in DECIMALS),
    *(
        lambda rng, n, arrow=arrow: strings(rng, n, arrow)
        for arrow in (pa.string(), pa.large_string(), pa.string_view())
    ),
    *(
        lambda rng, n, arrow=arrow: binaries(rng, n, arrow)
        for arrow in (pa.binary(), pa.large_binary(), pa.binary(1), pa.binary(16))
    ),
    lambda rng, n: dictionaries(rng, n, pa.array(["red", "", "green"])),
    lambda rng, n: dictionaries(rng, n, pa.array([b"\xff", b""])),
    lambda rng, n: pa.nulls(n),
]


# Arrow writes or reads no lists of views or dictionaries.
NESTED_LEAVES = [
    maker
    for maker in MAKERS
    if maker(np.random.default_rng(0), 1).type != pa.string_view()
    and not pa.types.is_dictionary(maker(np.random.default_rng(0), 1).type)
]


@dataclass(frozen=True)
class Files:
    """What is written: `rows` by file and row group, and columns.

    kinds: one per column: an index into MAKERS, or, past its end, the seed of a nested Shape.
    null_shares: of the flat ones.
    encodings: one per column: which of its ENCODINGS the first of its leaves has, its other
        leaves the next ones; None = dictionaries.
    """

    rows: list
    kinds: list
    null_shares: list
    encodings: list
    seed: int
    options: dict
    store_schema: bool

    def write(self, directory):
        """The paths of the files, in order."""
        rng = np.random.default_rng(self.seed)
        paths = []
        for number, groups in enumerate(self.rows):
            table = self._table(rng, sum(groups))
            path = f"{directory}/part-{number}.parquet"
            with self._writer(path, table.schema, **self._encodings(table.schema)) as writer:
                start = 0
                for rows in groups:
                    part = table.slice(start, rows)
                    writer.write_table(part, row_group_size=max(1, rows))
                    start += rows
            paths.append(path)
        return paths

    def _writer(self, path, schema, **encodings):
        return pq.ParquetWriter(
            path, schema, store_schema=self.store_schema, **self.options, **encodings
        )

    def _encodings(self, schema):
        """What says so to pyarrow, by the paths that it gives the leaves."""
        empty = pa.BufferOutputStream()
        self._writer(empty, schema).close()
        leaves = pq.ParquetFile(empty.getvalue()).schema
        dictionaries, others = [], {}
        for index in range(len(leaves)):
            leaf = leaves.column(index)
            first = self.encodings[int(leaf.path.split(".")[0].removeprefix("c"))]
            if first is None:
                dictionaries.append(leaf.path)
            else:
                known = ENCODINGS[leaf.physical_type]
                others[leaf.path] = known[(first + index) % len(known)]
        return {"use_dictionary": dictionaries, "column_encoding": others}

    def _table(self, rng, rows):
        columns = {}
        for number, (kind, share) in enumerate(zip(self.kinds, self.null_shares, strict=True)):
            if kind < len(MAKERS):
                column = with_nulls(rng, MAKERS[kind](rng, rows), share)
            else:
                column = Shape(kind, NESTED_LEAVES).array(rng, rows)
            columns[f"c{number}"] = column
        return pa.table(columns)


PAGES = {
    "data_page_size": st.sampled_from([16, 200, 5000, 2**20]),
    "compression": st.sampled_from(["none", "snappy", "gzip", "zstd", "lz4", "brotli"]),
    "data_page_version": st.sampled_from(["1.0", "2.0"]),
    "dictionary_pagesize_limit": st.sampled_from([50, 2**20]),
    "write_batch_size": st.sampled_from([3, 64, 1024]),
    "write_statistics": st.booleans(),
    "write_page_checksum": st.booleans(),
    "use_deprecated_int96_timestamps": st.sampled_from([False, False, False, True]),
    "store_decimal_as_integer": st.booleans(),
    "version": st.sampled_from(["1.0", "2.4", "2.6"]),
}

group_rows = st.one_of(st.integers(0, 9), st.integers(0, 60), st.integers(0, 300))


@st.composite
def files(draw):
    flat = st.integers(0, len(MAKERS) - 1)
    nested = st.integers(len(MAKERS), 2**16)
    kinds = draw(st.lists(st.one_of(flat, flat, nested), min_size=1, max_size=6))
    shares = st.sampled_from([0, 0, 0.05, 0.5, 0.95, 1])
    encodings = st.sampled_from([None, None, 0, 1, 2])
    count = len(kinds)
    return Files(
        draw(st.lists(st.lists(group_rows, min_size=1, max_size=3), min_size=1, max_size=3)),
        kinds,
        draw(st.lists(shares, min_size=count, max_size=count)),
        draw(st.lists(encodings, min_size=count, max_size=count)),
        draw(st.integers(0, 2**32)),
        draw(st.fixed_dictionaries(PAGES)),
        draw(st.booleans()),
    )
