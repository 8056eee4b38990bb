"""assert_resumes_exactly and assert_ranks_agree say no to datasets that break their promise."""

import json
from functools import partial

import pytest

from fastload import FastParquetDataset, mix
from fastload.testing import assert_ranks_agree, assert_resumes_exactly
from support.sample_files import write_sample


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("testing") / "sample.parquet", 100, 30)


class Sample(FastParquetDataset):
    def __init__(self, path, **options):
        super().__init__(path, batch_size=10, shuffle=True, threads=0, **options)


class OneTooFar(Sample):
    def load_state_dict(self, state):
        legs = [[world, workers, done + (done == 4)] for world, workers, done in state["progress"]]
        super().load_state_dict({**state, "progress": legs})


class SameEpochAgain(Sample):
    def load_state_dict(self, state):
        super().load_state_dict(state)
        self.set_epoch(state["epoch"])


class LargeState(Sample):
    def state_dict(self, after=None):
        return {**super().state_dict(after), "more": "x" * 2000}


class CountsWhatWasPrefetched(Sample):
    def state_dict(self, after=None):
        state = super().state_dict(after)
        return state if after is None else {**state, "epoch": 0, "progress": [[1, 1, 9]]}


class RankZeroAlone(Sample):
    def __init__(self, path, rank, world_size):
        super().__init__(path, rank=0, world_size=world_size)


class ShortRank(Sample):
    def __init__(self, path, rank, world_size):
        limit = 70 if (rank, world_size) == (1, 2) else None
        super().__init__(path, rank=rank, world_size=world_size, limit=limit)

    def load_state_dict(self, state):
        order = {**state["order"], "limit": self._options.limit}
        super().load_state_dict({**state, "order": order})


def test_datasets_as_they_are(path):
    assert_resumes_exactly(partial(Sample, path))
    assert_resumes_exactly(partial(Sample, path, limit=0))
    assert_ranks_agree(partial(Sample, path))


def test_a_mix_has_a_state_of_each_source(path):
    def make():
        return mix({f"source {i}": Sample(path) for i in range(12)}, stop="all")

    assert len(json.dumps(make().state_dict())) > 2000
    assert_resumes_exactly(make, after=[7])


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (
            OneTooFar,
            r"Expected .*, got .* - at batch 0, row 0.* of the run resumed after 4 batches",
        ),
        (SameEpochAgain, "got no more after 0 of the run resumed after 10 batches, in the next"),
        (LargeState, r"Expected a state under 2 KB, got \d+ bytes"),
        (CountsWhatWasPrefetched, r"from state_dict\(\) after batch 0"),
    ],
)
def test_runs_that_differ(path, broken, message):
    with pytest.raises(AssertionError, match=message):
        assert_resumes_exactly(partial(broken, path))


def test_no_such_batch(path):
    with pytest.raises(ValueError, match="Expected `after` between 0 and 10 batches, got 11"):
        assert_resumes_exactly(partial(Sample, path), after=[11])


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (RankZeroAlone, "Expected at most 2 rows of the epoch left out, got 50 - on 2 ranks"),
        (ShortRank, r"Expected equally many batches on each rank, got \[5, 4\]"),
    ],
)
def test_ranks_that_differ(path, broken, message):
    uneven = "drop" if broken is RankZeroAlone else "wrap"
    with pytest.raises(AssertionError, match=message):
        assert_ranks_agree(partial(broken, path), uneven=uneven)


def test_keep_without_its_promise(path):
    with pytest.raises(AssertionError, match="Expected at most 0 rows repeated, got 2 - on 3 rank"):
        assert_ranks_agree(partial(Sample, path), (3,), uneven="keep")
