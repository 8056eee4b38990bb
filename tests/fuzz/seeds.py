"""Small Parquet files of every kind, for fuzzers to begin with.

python tests/fuzz/seeds.py DIRECTORY [--data DIRECTORY]
"""

import argparse
import datetime
import decimal
import inspect
import itertools
import random
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 40
MOST_BYTES = 24 << 10  # of a file found: a larger one is mutated too slowly
CODECS = ("none", "snappy", "zstd", "gzip", "lz4", "brotli")
PLAIN = ("PLAIN",)
INTEGERS = ("PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT")
TEXTS = ("PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY")
FIXED = ("PLAIN", "DELTA_BYTE_ARRAY", "BYTE_STREAM_SPLIT")
_EPOCH = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)


def kinds(choice):
    """By name: a type, its encodings beside the dictionary, and a value of it."""

    def integer(bits):
        return choice.randrange(-(1 << (bits - 1)), 1 << (bits - 1))

    def word():
        return "word " * choice.randrange(4) + str(choice.randrange(50))

    def numbers():
        return [choice.randrange(9) for _ in range(choice.randrange(4))]

    return {
        "bool": (pa.bool_(), ("PLAIN", "RLE"), lambda: choice.random() < 0.5),
        "int8": (pa.int8(), INTEGERS, lambda: integer(8)),
        "uint32": (pa.uint32(), INTEGERS, lambda: choice.randrange(1 << 32)),
        "int32": (pa.int32(), INTEGERS, lambda: integer(16)),
        "int64": (pa.int64(), INTEGERS, lambda: integer(60)),
        "half": (pa.float16(), ("PLAIN", "BYTE_STREAM_SPLIT"), lambda: choice.randrange(99) / 4),
        "float": (pa.float32(), ("PLAIN", "BYTE_STREAM_SPLIT"), choice.random),
        "double": (pa.float64(), ("PLAIN", "BYTE_STREAM_SPLIT"), choice.random),
        "date": (pa.date32(), PLAIN, _EPOCH.date),
        "time": (pa.time32("ms"), PLAIN, lambda: datetime.time(choice.randrange(24))),
        "timestamp": (pa.timestamp("ns"), INTEGERS, lambda: _EPOCH),
        "decimal": (pa.decimal128(9, 2), FIXED, lambda: decimal.Decimal(integer(20)) / 4),
        "fixed": (pa.binary(5), FIXED, lambda: choice.randbytes(5)),
        "text": (pa.string(), TEXTS, word),
        "list": (pa.list_(pa.int32()), INTEGERS, numbers),
        "texts": (pa.list_(pa.string()), TEXTS, lambda: [word() for _ in numbers()]),
        "lists": (pa.list_(pa.list_(pa.int16())), PLAIN, lambda: [numbers() for _ in numbers()]),
        "vector": (pa.list_(pa.float32(), 3), PLAIN, lambda: [choice.random()] * 3),
        "struct": (pa.struct({"a": pa.int32()}), PLAIN, lambda: {"a": integer(9)}),
        "structs": (
            pa.list_(pa.struct({"a": pa.bool_()})),
            PLAIN,
            lambda: [{"a": n > 3} for n in numbers()],
        ),
        "map": (pa.map_(pa.string(), pa.int64()), PLAIN, lambda: [(word(), 1) for _ in numbers()]),
    }


def leaf_paths(table):
    """The columns as column_encoding names them."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    schema = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema
    return [schema.column(i).path for i in range(len(schema.names))]


def write(path, table, encoding, **options):
    """Several row groups and pages; encoding None: a dictionary."""
    if encoding is None:
        options |= {"use_dictionary": True}
    else:
        encodings = dict.fromkeys(leaf_paths(table), encoding)
        options |= {"use_dictionary": False, "column_encoding": encodings}
    pq.write_table(
        table, path, row_group_size=ROWS * 2 // 3, data_page_size=64, write_batch_size=8, **options
    )


def write_all(directory):
    """Each type in each encoding; page versions, codecs, nulls and indexes take turns."""
    choice = random.Random(0)
    turns = itertools.cycle(itertools.product(("1.0", "2.0"), (0.2, 0), CODECS, (False, True)))
    for name, (type_, encodings, value) in kinds(choice).items():
        for encoding in (None, *encodings):
            for _ in range(5):
                version, nulls, codec, index = next(turns)
                values = [None if choice.random() < nulls else value() for _ in range(ROWS)]
                field = pa.field("c", type_, nullable=nulls > 0)
                table = pa.table([pa.array(values, type_)], schema=pa.schema([field]))
                number = len(list(directory.iterdir()))
                write(
                    directory / f"{name}-{number}.parquet", table, encoding,
                    data_page_version=version, compression=codec, write_page_index=index,
                )  # fmt: skip
    table = pa.table({"t": pa.array([_EPOCH] * ROWS, pa.timestamp("ns"))})
    pq.write_table(table, directory / "int96.parquet", use_deprecated_int96_timestamps=True)


NAMES = ("two\nlines", "nul\0", "`quoted`", "a.b", " ", "\u00e9\u4e2d", "n" * 300)


def write_filtered(directory):
    """Files to search: sorted and unsorted numbers beside each other, with bounds of pages.

    Where pyarrow can write Bloom filters, half of the files have them instead of bounds.
    """
    with_bloom = "bloom_filter_options" in inspect.signature(pq.write_table).parameters
    choice = random.Random(1)
    rows = 300
    for index, codec, dictionary in itertools.product(
        (False, True), ("none", "zstd"), (False, True)
    ):
        columns = {
            "sorted": pa.array(range(rows), pa.int32()),
            "few": pa.array([row // 100 for row in range(rows)], pa.int8()),
            "nulls": pa.array([None if row % 50 < 40 else row / 8 for row in range(rows)]),
            "floats": pa.array(
                [choice.choice((0.0, -0.0, 1.5, float("nan"), -2.0)) for _ in range(rows)]
            ),
            "any": pa.array([choice.randrange(1 << 64) for _ in range(rows)], pa.uint64()),
            "flag": pa.array([row > 200 for row in range(rows)]),
        }
        for number, names in enumerate((("sorted", "nulls", "flag"), ("few", "floats", "any"))):
            bloom = {}
            if with_bloom and not index:
                filters = {name: {"ndv": 20} for name in names if name != "flag"}
                bloom = {"write_statistics": ["few"], "bloom_filter_options": filters}
            pq.write_table(
                pa.table({name: columns[name] for name in names}),
                directory / f"filtered-{index}-{codec}-{dictionary}-{number}.parquet",
                row_group_size=200, data_page_size=64, write_batch_size=16, compression=codec,
                use_dictionary=dictionary, write_page_index=index, **bloom,
            )  # fmt: skip


def write_others(directory):
    """Files of odd names, of runs of many rows, and of null items in lists."""
    table = pa.table({name: pa.array([n, n + 1, None]) for n, name in enumerate(NAMES)})
    pq.write_table(table, directory / "names.parquet")
    rows = 3000
    runs = pa.table({"run": [row // 1000 for row in range(rows)], "text": ["a"] * rows})
    pq.write_table(runs, directory / "runs.parquet", row_group_size=1300, compression="none")
    # The second dictionary is larger than the first lets expect, so its codes do not fit.
    codes = [row % 40 for row in range(150)] + [row * 7 for row in range(400)]
    for name, type_ in (("int64", pa.int64()), ("float", pa.float32()), ("int16", pa.int16())):
        numbers = pa.table({"n": pa.array(codes, type_)})
        path = directory / f"dictionaries-{name}.parquet"
        pq.write_table(numbers, path, row_group_size=150, compression="snappy")
    vectors = pa.array(
        [[None, [1.0, 2.0]], [], None, [None] * 5], pa.list_(pa.list_(pa.float32(), 2))
    )
    pq.write_table(pa.table({"v": vectors}), directory / "null-vectors.parquet")
    inner = pa.list_(pa.list_(pa.int16(), 2), 2)
    nested = pa.array([[[[1, 2], None], None], [[None, [3, 4]]], []], pa.list_(inner))
    pq.write_table(pa.table({"v": nested}), directory / "null-inner-vectors.parquet")


def take_found(data, directory):
    """The small ones of the files found, as they are."""
    for path in sorted(Path(data).rglob("*.parquet")):
        if 0 < path.stat().st_size <= MOST_BYTES:
            shutil.copyfile(path, directory / f"{path.parent.name}-{path.name}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--data")
    arguments = parser.parse_args()
    arguments.directory.mkdir(parents=True, exist_ok=True)
    write_all(arguments.directory)
    write_filtered(arguments.directory)
    write_others(arguments.directory)
    if arguments.data:
        take_found(arguments.data, arguments.directory)
    print(f"{len(list(arguments.directory.iterdir()))} seeds")
