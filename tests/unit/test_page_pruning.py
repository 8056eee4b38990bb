"""Pages are left out of finding rows only where none of their rows passes."""

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

from fastload import FastParquetDataset
from fastload.rows.filter_schema import FilterSchema
from fastload.rows.page_pruning import rows_of_pages
from fastload.runtime.native import core
from fastload.source.source import Source

ROWS = 4000
GROUP = 1000
PAGE = 100


def columns_of(rows):
    n = np.arange(rows)

    def some(values, arrow):  # with a page of nothing but nulls, and one with some
        null = (n // PAGE == 3) | ((n // PAGE == 5) & (n % 2 == 0))
        return pa.array([None if gone else v for gone, v in zip(null, values, strict=True)], arrow)

    return {
        "i64": pa.array(n - 700),
        "i8": some((n // 40 - 60).tolist(), pa.int8()),
        "u16": pa.array(n * 16, pa.uint16()),
        "u64": pa.array([2**63 - 1500 + int(i) for i in n], pa.uint64()),
        "day": some((n // 10 + 19000).tolist(), pa.date32()),
        "when": some((n * 10**6).tolist(), pa.timestamp("ms", "UTC")),
        "name": some([f"{i:05}" for i in n], pa.string()),
        "long": pa.array([f"{i:05}" + "é" * 60 for i in n]),
        "raw": pa.array([int(i).to_bytes(4, "big") for i in n], pa.binary()),
        "f64": pa.array([float("nan") if i % 50 == 0 else float(i) for i in n]),
        "wide": pa.array(np.sin(n) * 10**6).cast(pa.int32(), safe=False),
    }


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "a.parquet"
    with pq.ParquetWriter(path, (table := pa.table(columns_of(ROWS))).schema, **OPTIONS) as writer:
        writer.write_table(table, row_group_size=GROUP)
    return path


OPTIONS = {
    "write_page_index": True,
    "data_page_size": 1,
    "write_batch_size": PAGE,
    "use_dictionary": False,
    "compression": "none",
}


def kept(path, filters):
    """The rows of the pages that are left, of all row groups."""
    source = Source.open(path)
    schema = FilterSchema.of(source)
    names = schema.names_in(schema.predicate(filters, None))
    assert names
    groups = range(len(source.row_group_rows))
    left = rows_of_pages(source.files[0], names, filters, schema.arrow, groups)
    everything = np.ones(GROUP, np.bool_)
    return np.concatenate([left.get(group, everything) for group in groups])


CLUSTERED = [
    (pc.field("i64") >= 1000) & (pc.field("i64") < 1050),
    pc.field("i8") == -7,
    pc.field("i8").is_null(),
    pc.field("u16") > 60_000,
    pc.field("u64") >= pa.scalar(2**63 + 2000, pa.uint64()),
    pc.field("day").isin([datetime.date(2022, 1, 20), datetime.date(2022, 1, 27)]),
    pc.field("when") < pa.scalar(5 * 10**7, pa.timestamp("ms", "UTC")),
    (pc.field("name") > "01234") & (pc.field("name") <= "01244"),
    pc.field("raw") == (2345).to_bytes(4, "big"),
    (pc.field("i64") > 2000) & (pc.field("u16") < 48_000),
    (pc.field("i64") < -600) | (pc.field("name") == "03999"),
]


@pytest.mark.parametrize("filters", CLUSTERED, ids=str)
def test_pages_without_a_row_that_stays_are_left_out(path, filters):
    table = pq.read_table(path)
    passes = (
        pads.dataset(table.append_column("n", pa.array(np.arange(ROWS))))
        .to_table(["n"], filter=filters)["n"]
        .to_numpy()
    )
    rows = kept(path, filters)
    assert rows[passes].all()
    assert rows.sum() < ROWS / 2
    assert rows.sum() % PAGE == 0
    dataset = FastParquetDataset(path, columns=["i64"], filters=filters)
    found = [n + 700 for batch in dataset for n in batch["i64"].tolist()]
    assert found == passes.tolist()


def test_pages_of_columns_need_not_begin_together(tmp_path):
    path = tmp_path / "a.parquet"
    columns = {name: columns_of(ROWS)[name] for name in ("i64", "u16", "raw")}
    options = {**OPTIONS, "data_page_size": 700, "write_batch_size": 10}
    pq.write_table(pa.table(columns), path, row_group_size=GROUP, **options)
    firsts = [
        tuple(chunk[0].first_rows)
        for chunk in (
            core.read_page_bounds(
                file=(str(path), path.stat().st_mtime_ns, Source.open(path).files[0].footer),
                leaf=leaf,
                row_groups=[0],
            )
            for leaf in range(3)
        )
    ]
    assert len(set(firsts)) > 1
    for first in range(-700, ROWS - 900, 97):
        filters = (pc.field("i64") >= first) & (pc.field("u16") < (first + 730) * 16)
        rows = kept(path, filters)
        passes = np.arange(first + 700, first + 730)
        assert rows[passes].all(), first
        assert rows.sum() < 500


@pytest.mark.parametrize(
    "filters",
    [pc.field("f64") < 10, ~(pc.field("f64") < 10), pc.field("wide") == 3, pc.field("long") < "1"],
    ids=str,
)
def test_what_bounds_do_not_tell_is_read(path, filters):
    assert kept(path, filters).all()


def test_files_without_an_index_are_read_whole(tmp_path):
    pq.write_table(pa.table(columns_of(300)), tmp_path / "a.parquet", row_group_size=GROUP)
    source = Source.open(tmp_path)
    schema = FilterSchema.of(source).arrow
    assert rows_of_pages(source.files[0], ["i64"], pc.field("i64") < 0, schema, [0]) == {}


def test_fewer_bytes_are_read_of_the_filters_columns(path):
    def read():
        with open("/proc/self/io") as file:
            return int(file.readline().split()[1])

    # Another limit each time, so that nothing is known of it.
    before = read()
    FastParquetDataset(path, columns=["i64"], filters=pc.field("long") < "00011")
    few = read() - before
    before = read()
    FastParquetDataset(path, columns=["i64"], filters=pc.field("long") != "00011")
    assert few < (read() - before) / 3
