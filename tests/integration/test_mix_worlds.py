"""Steps of a mix: the same on every number of ranks."""

import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastload
from fastload import FastParquetDataset, Pack
from fastload.testing import assert_resumes_exactly, assert_same_steps

STOPS = ["first", "all", "repeat"]


@pytest.fixture
def path(tmp_path):
    lists = pa.array([[n] * (n * 7 % 29) for n in range(400)], pa.list_(pa.int32()))
    table = pa.table({"ids": lists, "id": range(400)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=30)
    return tmp_path / "a.parquet"


def mix_of(path, stop="all", rank=0, world_size=1, canonical=False, **options):
    shared = {"rank": rank, "world_size": world_size, "threads": 0, "memory_budget": "64MB"}
    shared |= {"shuffle": True, "shuffle_window": 90, "provenance": True, **options}
    size = "global_batch_size" if canonical else "batch_size"
    if canonical:
        shared["canonical_ranks"] = 4
    conditions = [("id", ">=", 300)]
    datasets = {
        "rows": FastParquetDataset(path, columns=["id"], **{size: 24}, **shared),
        "packed": FastParquetDataset(path, pack=Pack("ids", 32), **{size: 8}, **shared),
        "few": FastParquetDataset(path, columns=["id"], filters=conditions, **{size: 20}, **shared),
    }
    weights = {"rows": 2, "packed": 3, "few": 1}
    return fastload.mix(datasets, weights, 5, stop)


def rows(batches):
    return [
        (batch.source, batch["__row__"].tolist(), batch["__source__"].tolist()) for batch in batches
    ]


@pytest.mark.parametrize("stop", STOPS)
def test_resumes_exactly(path, stop):
    for canonical in (False, True):
        assert_resumes_exactly(
            lambda canonical=canonical: mix_of(path, stop, canonical=canonical),
            after=[0, 1, 2, 8, 14],
            epoch=1,
        )


def test_corrupt_row_groups_have_substitutes(path):
    """Substitutes are the same after a resume."""
    name = "broken.parquet"
    content = bytearray(path.read_bytes())
    chunk = pq.ParquetFile(path).metadata.row_group(2).column(1)
    first = chunk.dictionary_page_offset or chunk.data_page_offset
    content[first : first + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    path.with_name(name).write_bytes(content)

    def make():
        datasets = {
            key: FastParquetDataset(
                path.with_name(name),
                columns=["id"],
                batch_size=24,
                shuffle=True,
                shuffle_window=90,
                seed=seed,
                threads=0,
                memory_budget="64MB",
                on_error="skip",
            )
            for seed, key in enumerate("ab")
        }
        return fastload.mix(datasets, None, 5, "all")

    with make() as mixed, pytest.warns(UserWarning, match="Row group 2"):
        assert len(list(mixed)) == len(mixed) == 2 * 17
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Row group 2")
        for workers in (0, 2):
            assert_resumes_exactly(make, after=[0, 2, 9], num_workers=workers)


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("uneven", ["wrap", "drop", "pad"])
def test_the_same_steps(path, stop, uneven):
    def make(rank, world_size):
        return mix_of(path, stop, rank, world_size, canonical=True, uneven=uneven)

    assert_same_steps(make, (1, 2, 4))


def test_other_steps_without_slices(path):
    def make(rank, world_size):
        return mix_of(path, "all", rank, world_size)

    with pytest.raises(AssertionError, match="Expected the rows of step"):
        assert_same_steps(make, (1, 2))
