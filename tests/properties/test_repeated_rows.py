"""A row that a short rank repeats is a copy, whatever the type and wherever a batch holds it."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from fastload import FastParquetDataset, Pad

LEAVES = [pa.int8(), pa.int64(), pa.float32(), pa.bool_(), pa.string(), pa.timestamp("us")]


@st.composite
def types(draw):
    """Draw a type of at most three levels of lists that a dataset can deliver."""
    arrow = draw(st.sampled_from(LEAVES))
    sizes = draw(st.lists(st.sampled_from([None, None, 1, 3, 16]), max_size=3))
    # Fixed sizes stand inside of lists, and around numbers.
    if arrow == pa.string():
        sizes = [None for _ in sizes]
    fixed = [size for size in sizes if size is not None]
    for size in [*fixed, *(None for size in sizes if size is None)]:
        arrow = pa.list_(arrow) if size is None else pa.list_(arrow, size)
    return arrow


def array_of(arrow, count, rng):
    """Make an array of a type, with lists of at most three values."""
    if pa.types.is_fixed_size_list(arrow):
        size = arrow.list_size
        return pa.FixedSizeListArray.from_arrays(
            array_of(arrow.value_type, count * size, rng), type=arrow
        )
    if pa.types.is_list(arrow):
        offsets = np.concatenate([[0], rng.integers(0, 4, count).cumsum()])
        values = array_of(arrow.value_type, int(offsets[-1]), rng)
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=arrow)
    numbers = rng.integers(0, 100, count)
    if arrow == pa.string():
        return pa.array([f"text {number}" for number in numbers.tolist()], arrow)
    return pa.array(numbers).cast(arrow)


def can_be_padded(arrow):
    return (
        pa.types.is_list(arrow) and arrow.value_type in LEAVES and arrow.value_type != pa.string()
    )


@settings(max_examples=settings.default.max_examples // 3)
@given(
    arrow=types(),
    world=st.integers(2, 3),
    per_rank=st.integers(1, 12),
    batches=st.integers(1, 3),
    short=st.integers(1, 4),
    shuffle=st.sampled_from([True, True, False]),
    uneven=st.sampled_from(["wrap", "pad"]),
    seed=st.integers(0, 2**32),
)
def test_repeated_rows_are_copies(
    tmp_path_factory, arrow, world, per_rank, batches, short, shuffle, uneven, seed
):
    # Each rank gets `steps` rows, and short ranks repeat the last of these. With batches of
    # `per_rank` rows, and one row more, the repeated row opens a batch of its own.
    steps = per_rank * batches + 1
    rows = steps * world - min(short, world - 1)
    rng = np.random.default_rng(seed)
    path = tmp_path_factory.mktemp("repeated") / "a.parquet"
    stored = array_of(arrow, rows, rng)
    pq.write_table(pa.table({"value": stored}), path, row_group_size=max(1, rows // 3))
    columns = {"value": "value"}
    if can_be_padded(arrow):
        columns["padded"] = Pad("value", 3)
        columns["left"] = Pad("value", 2, side="left", keep="last", mask=True)
    options = {"shuffle": shuffle, "uneven": uneven, "seed": seed, "columns": columns}
    with FastParquetDataset(path, batch_size=rows, provenance=True, columns=columns) as dataset:
        whole = next(iter(dataset))
        expected = {name: whole[name].tolist() for name in columns}
    if not pa.types.is_timestamp(arrow) and arrow in LEAVES:
        assert expected["value"] == stored.cast(arrow).to_pylist()
    for rank in range(world):
        delivered = 0
        with FastParquetDataset(
            path,
            batch_size=per_rank,
            rank=rank,
            world_size=world,
            provenance=True,
            **options,
        ) as dataset:
            for batch in dataset:
                at = batch["__row__"].tolist()
                for name in columns:
                    assert batch[name].tolist() == [expected[name][row] for row in at]
                delivered += len(at)
        assert delivered == steps


def test_vectors_of_a_repeated_row_that_opens_a_batch(tmp_path):
    vectors = [[[float(row)] * 16 for _ in range(row % 5)] for row in range(811)]
    table = pa.table({"vectors": pa.array(vectors, pa.list_(pa.list_(pa.float32(), 16)))})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=100)
    for rank in range(2):
        with FastParquetDataset(
            tmp_path / "a.parquet",
            batch_size=405,
            shuffle=True,
            rank=rank,
            world_size=2,
            provenance=True,
        ) as dataset:
            for batch in dataset:
                rows = batch["__row__"].tolist()
                assert batch["vectors"].tolist() == [vectors[row] for row in rows]
