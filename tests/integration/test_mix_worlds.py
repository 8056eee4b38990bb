"""Steps of a mix: left out by number, and the same on every number of ranks."""

import warnings
from functools import partial
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from torchdata.stateful_dataloader import StatefulDataLoader

import fastload
from fastload import FastParquetDataset, Pack
from fastload.testing import assert_resumes_exactly, assert_same_steps
from support.deliveries import assert_other_steps_stay

STOPS = ["first", "all", "repeat"]
ALL = 10**6  # more batches than there are
SKIPPED = {1, 2, 9, 16, 17, 40}


@pytest.fixture
def path(tmp_path):
    lists = pa.array([[n] * (n * 7 % 29) for n in range(400)], pa.list_(pa.int32()))
    table = pa.table({"ids": lists, "id": range(400)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=30)
    return tmp_path / "a.parquet"


def mix_of(path, stop="all", skip_steps=(), rank=0, world_size=1, canonical=False, **options):
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
    return fastload.mix(datasets, weights, 5, stop, skip_steps=skip_steps)


def rows(batches):
    return [
        (batch.source, batch["__row__"].tolist(), batch["__source__"].tolist()) for batch in batches
    ]


# With workers, each `stop` once with slices and once without, and each number of workers with both.
@pytest.mark.parametrize(
    ("stop", "workers", "canonical"),
    [
        *((stop, 0, canonical) for stop in STOPS for canonical in (False, True)),
        *(("first", 2, False), ("first", 3, True)),
        *(("all", 2, True), ("all", 3, False)),
        *(("repeat", 2, True), ("repeat", 3, False)),
    ],
)
def test_other_steps_have_their_rows(path, stop, workers, canonical):
    for rank in range(2 if workers == 0 else 1):
        shape = {"stop": stop, "rank": rank, "world_size": 2, "canonical": canonical}
        make = partial(mix_of, path, **shape)
        assert_other_steps_stay(make, rows, SKIPPED, (0, 1, 7, ALL), workers)


@pytest.mark.parametrize("stop", STOPS)
def test_resumes_exactly(path, stop):
    for canonical in (False, True):
        assert_resumes_exactly(
            lambda canonical=canonical: mix_of(path, stop, SKIPPED, canonical=canonical),
            after=[0, 1, 2, 8, 14],
            epoch=1,
        )


def test_a_state_from_before_a_spike(path):
    with mix_of(path) as mixed:
        whole = rows(mixed)
        mixed.set_epoch(0)
        for batch in islice(mixed, 6):
            state = mixed.state_dict(after=batch)
    with mix_of(path, skip_steps=range(8, 12)) as mixed:
        assert "without 4 steps" in repr(mixed)
        mixed.load_state_dict(state)
        assert len(mixed) == len(whole) - 4
        assert rows(islice(mixed, 3)) == [*whole[6:8], whole[12]]
        after = mixed.state_dict()
        assert after.keys() == state.keys()
        assert after["progress"] == [[1, 1, 13]]
        # A step that is left out keeps its number and its rows.
        found = mixed.rows_of(9)
        assert set(found["source"]) == {whole[9][0]}
        assert set(whole[9][1]) <= set(found["row"].tolist())
    with mix_of(path, skip_steps=[15]) as mixed:
        mixed.load_state_dict(after)
        assert rows(mixed) == [*whole[13:15], *whole[16:]]


def test_a_whole_epoch_may_be_left_out(path):
    with mix_of(path, skip_steps=range(1000)) as mixed:
        assert len(mixed) == 0
        assert list(mixed) == []


def test_stateful_loader(path):
    def loader(*skipped):
        return StatefulDataLoader(mix_of(path, "all", skipped), batch_size=None, num_workers=2)

    whole = rows(loader(1, 6, 7))
    running = loader(1, 6, 7)
    batches = iter(running)
    got = rows(next(batches) for _ in range(9))
    state = running.state_dict()
    again = loader(1, 6, 7)
    again.load_state_dict(state)
    assert got + rows(again) == whole
    other = loader(1)
    other.load_state_dict(state)
    with pytest.raises(ValueError, match="Expected the skip_steps that the state was saved with"):
        next(iter(other))


def test_corrupt_row_groups_have_substitutes(path):
    """Substitutes come for the rows of the steps that are left, as often as they are resumed."""
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
        return fastload.mix(datasets, None, 5, "all", skip_steps={3, 4, 10})

    with make() as mixed, pytest.warns(UserWarning, match="Row group 2"):
        assert len(list(mixed)) == len(mixed) == 2 * 17 - 3
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Row group 2")
        for workers in (0, 2):
            assert_resumes_exactly(make, after=[0, 2, 9], num_workers=workers)


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("uneven", ["wrap", "drop", "pad"])
def test_the_same_steps(path, stop, uneven):
    def make(rank, world_size):
        return mix_of(path, stop, SKIPPED, rank, world_size, canonical=True, uneven=uneven)

    assert_same_steps(make, (1, 2, 4))


def test_other_steps_without_slices(path):
    def make(rank, world_size):
        return mix_of(path, "all", (), rank, world_size)

    with pytest.raises(AssertionError, match="Expected the rows of step"):
        assert_same_steps(make, (1, 2))
