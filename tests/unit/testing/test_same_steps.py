"""assert_same_steps: passes where the steps are equal, and names the step where they are not."""

import functools

import pytest

import fastload
from fastload import FastParquetDataset
from fastload.testing import assert_same_steps
from support.sample_files import write_sample


@pytest.fixture
def make(tmp_path):
    path = write_sample(tmp_path / "a.parquet", 240, 50)
    return functools.partial(
        FastParquetDataset, path, columns=["id"], batch_size=20, threads=0, shuffle=True
    )


@pytest.mark.parametrize("world", [1, 3])
def test_equal_steps(make, world):
    assert_same_steps(make, (world, world))
    assert_same_steps(make, (world, world, world), steps=2, epoch=3)


def test_the_same_rows_on_other_ranks(tmp_path):
    # Batches of 240 / world rows: one step has all rows, on any number of ranks.
    path = write_sample(tmp_path / "a.parquet", 240, 50)

    def make(rank, world_size):
        return FastParquetDataset(
            path, batch_size=240 // world_size, threads=0, rank=rank, world_size=world_size
        )

    assert_same_steps(make, (1, 2, 3, 8))


def test_steps_that_differ(make):
    with pytest.raises(AssertionError, match=r"step 0 on 1 ranks, got \d+ others .* on 2 ranks"):
        assert_same_steps(make, (1, 2))

    def other(rank, world_size):
        # The first three steps are equal.
        augment = None if not made else later
        made.append(rank)
        return make(rank=rank, world_size=world_size, augment=augment)

    def later(batch, seeds):
        batches.append(seeds)
        return {"id": batch["id"] + (1000 if len(batches) > 3 else 0)}

    made, batches = [], []
    with pytest.raises(AssertionError, match="step 3 on 1 ranks, got 20 others and 20 of these"):
        assert_same_steps(other, (1, 1))
    made, batches = [], []
    assert_same_steps(other, (1, 1), steps=3)


def test_the_sources_of_a_mix(make):
    def mixed(rank, world_size):
        # Both sources have the same rows.
        made.append(rank)
        names = "ab" if len(made) == 1 else "ac"
        sources = {name: make(rank=rank, world_size=world_size) for name in names}
        return fastload.mix(sources, seed=3, stop="all")

    made = []
    with pytest.raises(AssertionError, match=r"got 20 others and 20 of these rows missing"):
        assert_same_steps(mixed, (1, 1))
    assert_same_steps(mixed, (1, 1))


def test_another_number_of_steps(make):
    def shorter(rank, world_size):
        made.append(rank)
        return make(rank=rank, world_size=world_size, limit=200 if len(made) > 1 else None)

    made = []
    with pytest.raises(AssertionError, match="Expected 12 steps as on 1 ranks, got 10 - on 1"):
        assert_same_steps(shorter, (1, 1))


@pytest.mark.parametrize("worlds", [(), (2,)])
def test_nothing_to_compare(make, worlds):
    with pytest.raises(ValueError, match="at least two numbers of ranks"):
        assert_same_steps(make, worlds)
