"""Filters and splits, with all that decides an order: every row that stays, as often as said."""

import tempfile
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from fastload import Column, FastParquetDataset


@st.composite
def tables(draw):
    rows = draw(st.integers(0, 1000))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    key = rng.integers(0, 1000, rows)
    if draw(st.booleans()):
        key = np.sort(key)
    nulls = rng.random(rows) < draw(st.sampled_from([0, 0.01, 0.5]))
    return pa.table(
        {
            "id": np.arange(rows),
            "key": pa.array(key, mask=nulls),
            "text": pa.array([f"t{n % 9}" * (n % 4) for n in range(rows)], pa.string(), mask=nulls),
            "number": pa.array(rng.integers(-5, 5, rows), pa.int16(), mask=nulls),
            "list": pa.array([list(range(n % 3)) for n in range(rows)], pa.list_(pa.int64())),
        }
    )


@st.composite
def predicates(draw):
    low = draw(st.integers(0, 1000))
    high = low + draw(st.sampled_from([0, 1, 10, 100, 1000]))
    key = pc.field("key")
    return draw(
        st.sampled_from(
            [
                (key >= low) & (key < high),
                (key < low) | (key >= high),
                key.is_null() | (key == low),
                (pc.field("number") == 3) | (key < low // 10),
                pc.field("text") == "t3t3t3",
            ]
        )
    )


@st.composite
def readings(draw):
    return {
        "batch_size": draw(st.integers(1, 300)),
        "shuffle": draw(st.booleans()),
        "shuffle_window": draw(st.sampled_from([1, 7, 100, 2**19])),
        "seed": draw(st.integers(0, 2**32)),
        "threads": draw(st.sampled_from([0, 2])),
    }


COLUMNS = {
    "id": "id",
    "key": Column("key", fill=-1),
    "text": Column("text", fill="none"),
    "number": Column("number", fill=7, valid=True),
    "list": "list",
}


def write(draw, table, directory):
    half = table.num_rows // 2
    for number, part in enumerate([table.slice(0, half), table.slice(half)]):
        pq.write_table(
            part,
            f"{directory}/{number}.parquet",
            row_group_size=draw(st.sampled_from([1, 10, 500, 10_000])) + part.num_rows // 50,
            data_page_size=draw(st.sampled_from([100, 2000, 1 << 20])),
            write_batch_size=draw(st.sampled_from([8, 64])),
            use_dictionary=draw(st.booleans()),
            data_page_version=draw(st.sampled_from(["1.0", "2.0"])),
            write_page_index=draw(st.booleans()),
            compression=draw(st.sampled_from(["none", "snappy"])),
        )


def rows_of(batches):
    rows = []
    for batch in batches:
        columns = [batch[name].tolist() for name in (*COLUMNS, "number__valid")]
        rows += zip(*columns, strict=True)
    return rows


def expected(directory, filters):
    table = pads.dataset(directory, schema=None).to_table(filter=filters)
    return [
        (
            row["id"],
            -1 if row["key"] is None else row["key"],
            "none" if row["text"] is None else row["text"],
            7 if row["number"] is None else row["number"],
            row["list"],
            row["number"] is not None,
        )
        for row in table.to_pylist()
    ]


def hashable(rows):
    return Counter((*row[:4], tuple(row[4]), row[5]) for row in rows)


CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(
    max_examples=settings.default.max_examples // 4, deadline=None, suppress_health_check=CHECKS
)
@given(st.data(), tables(), predicates(), readings(), st.integers(1, 4))
def test_ranks_share_what_pyarrow_keeps(data, table, filters, reading, world):
    uneven = data.draw(st.sampled_from(["wrap", "drop", "pad", "keep"]))
    drop_last = data.draw(st.booleans())
    with tempfile.TemporaryDirectory() as directory:
        write(data.draw, table, directory)
        want = expected(directory, filters)
        found = []
        counts = []
        for rank in range(world):
            dataset = FastParquetDataset(
                directory,
                columns=COLUMNS,
                filters=filters,
                rank=rank,
                world_size=world,
                uneven=uneven,
                drop_last=drop_last,
                **reading,
            )
            batches = list(dataset)
            dataset.set_epoch(0)  # with "keep" and shuffle each epoch has its own number
            assert len(batches) == len(dataset)
            # The rows may stay in memory from the first pass on.
            assert rows_of(dataset) == rows_of(batches)
            counts.append(len(batches))
            if uneven == "pad":
                for batch in batches:
                    valid = batch["__valid__"].tolist()
                    rows = rows_of([batch])
                    found += [row for row, real in zip(rows, valid, strict=True) if real]
            else:
                found += rows_of(batches)
        if uneven != "keep":
            assert len(set(counts)) == 1
        got, rows = hashable(found), hashable(want)
        assert set(got) <= set(rows)
        if drop_last or uneven == "drop":
            lost = sum(rows.values()) - len(found)
            assert lost < world * (reading["batch_size"] + 1) or not want
        elif uneven == "wrap":
            assert set(got) == set(rows)
            assert len(found) - len(want) < world or not want
        else:
            assert got == rows
        if world == 1 and not reading["shuffle"] and not drop_last:
            assert found == want


@settings(
    max_examples=settings.default.max_examples // 8, deadline=None, suppress_health_check=CHECKS
)
@given(st.data(), tables(), predicates(), readings(), st.integers(1, 3), st.integers(1, 3))
def test_resumes_exactly_on_other_ranks(data, table, filters, reading, world, new_world):
    split = data.draw(st.sampled_from([None, (None, 0.2, 0.9), ("text", 0, 0.7), ("id", 0, 0.5)]))
    with tempfile.TemporaryDirectory() as directory:
        write(data.draw, table, directory)

        def dataset(rank, world_size):
            return FastParquetDataset(
                directory,
                columns=COLUMNS,
                filters=filters,
                split=split,
                rank=rank,
                world_size=world_size,
                uneven="pad",
                **reading,
            )

        def real(batch):
            rows = rows_of([batch])
            return [r for r, v in zip(rows, batch["__valid__"].tolist(), strict=True) if v]

        whole = [row for batch in dataset(0, 1) for row in real(batch)]
        steps = data.draw(st.integers(0, len(dataset(0, world))))
        if not steps:
            return
        found = []
        for rank in range(world):
            first = dataset(rank, world)
            for _, batch in zip(range(steps), first, strict=False):
                found += real(batch)
                state = first.state_dict(after=batch)
        for rank in range(new_world):
            second = dataset(rank, new_world)
            second.set_epoch(0)
            second.load_state_dict(state)
            second.set_epoch(0)
            found += [row for batch in second for row in real(batch)]
        assert hashable(found) == hashable(whole)


@settings(max_examples=4, deadline=None, suppress_health_check=CHECKS)
@given(st.data(), tables(), readings())
def test_workers(data, table, reading):
    filters = pc.field("key") < 300
    with tempfile.TemporaryDirectory() as directory:
        write(data.draw, table, directory)
        dataset = FastParquetDataset(directory, columns=COLUMNS, filters=filters, **reading)
        loader = DataLoader(dataset, batch_size=None, num_workers=2)
        assert hashable(rows_of(loader)) == hashable(expected(directory, filters))
