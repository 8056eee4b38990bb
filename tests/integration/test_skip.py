"""fastload.skip: a state that leaves the next steps out."""

import json
from functools import partial
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from torchdata.stateful_dataloader import StatefulDataLoader

import fastload
from fastload import FastParquetDataset, Pack, TokenBudget
from support.deliveries import loader_of

FORMS = {
    "rows": {"columns": ["id"], "batch_size": 12},
    "in order": {"columns": ["id"], "batch_size": 12, "shuffle": False},
    "kept": {"columns": ["id"], "batch_size": 12, "uneven": "keep"},
    "filtered": {"columns": ["id"], "batch_size": 7, "filters": [("id", ">=", 130)]},
    "weighted": {"columns": ["id"], "batch_size": 12, "weights": "weight"},
    "budget": {"columns": ["id", "ids"], "batch_size": TokenBudget("ids", 120, padded=True)},
    "packed": {"pack": Pack("ids", 32), "batch_size": 4},
    "slices": {"columns": ["id"], "global_batch_size": 24, "canonical_ranks": 4},
}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("skip") / "a.parquet"
    lists = pa.array([[n] * (n * 7 % 29) for n in range(400)], pa.list_(pa.int32()))
    table = pa.table({"ids": lists, "id": range(400), "weight": [1 + n % 3 for n in range(400)]})
    pq.write_table(table, path, row_group_size=30)
    return path


def make(path, form, rank=0, world_size=1, **options):
    shape = {"rank": rank, "world_size": world_size, "threads": 0, "memory_budget": "64MB"}
    shape |= {"shuffle": True, "shuffle_window": 90, **FORMS[form]}
    return FastParquetDataset(path, **shape, **options)


def mix_of(path, rank=0, world_size=1):
    shape = {"rank": rank, "world_size": world_size}
    sources = {form: make(path, form, **shape) for form in ("rows", "packed")}
    return fastload.mix(sources, {"rows": 2, "packed": 3}, 5, "all")


def contents(batches):
    """What counts of each batch."""
    return [
        (batch.source, [batch[name].tolist() for name in ("id", "ids") if name in batch])
        for batch in batches
    ]


def saved(made, workers, steps):
    """All that a run delivers, and its state after some steps."""
    with made() as dataset:
        batches = list(loader_of(dataset, workers))
        return contents(batches), dataset.state_dict(after=batches[steps - 1])


def continued(made, state, workers=0):
    with made() as dataset:
        dataset.load_state_dict(json.loads(json.dumps(state)))
        dataset.set_epoch(0)
        return contents(loader_of(dataset, workers))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("form", [*FORMS, "mix"])
def test_the_other_steps_have_their_rows(path, form, workers):
    for rank in range(2 if not workers else 1):
        kind = mix_of if form == "mix" else partial(make, form=form)
        made = partial(kind, path, rank=rank, world_size=2)
        whole, state = saved(made, workers, 3)
        before = json.dumps(state)
        for steps in (0, 1, 4) if not workers else (3,):
            skipped = fastload.skip(state, steps)
            assert continued(made, skipped, workers) == whole[3 + steps :]
        assert json.dumps(state) == before


@pytest.mark.parametrize("form", ["rows", "slices", "packed", "mix"])
def test_skipped_steps_are_left_out_on_another_number_of_ranks(path, form):
    kind = mix_of if form == "mix" else partial(make, form=form)
    # A run that delivers the steps leaves the same rows to other ranks as a run that skips them.
    made = partial(kind, path, world_size=2)
    _, state = saved(made, 0, 2)
    _, later = saved(made, 0, 5)
    skipped = fastload.skip(state, 3)
    assert skipped == later
    for rank in range(4):
        on_four = partial(kind, path, rank=rank, world_size=4)
        assert continued(on_four, skipped) == continued(on_four, later)


def test_after_a_resume_on_other_ranks_the_newest_steps_are_left_out(path):
    _, state = saved(partial(make, path, "rows", world_size=2), 0, 2)
    with make(path, "rows") as dataset:
        dataset.load_state_dict(state)
        batches = list(dataset)
        state = dataset.state_dict(after=batches[0])
        assert [leg[0] for leg in state["progress"]] == [2, 1]
    assert continued(partial(make, path, "rows"), fastload.skip(state, 2)) == contents(batches[3:])


def test_numbers_of_steps_stay(path):
    whole, state = saved(partial(make, path, "rows"), 0, 2)
    with make(path, "rows") as dataset:
        dataset.load_state_dict(fastload.skip(state, 3))
        assert len(dataset) == len(whole)
        batch = next(iter(dataset))
        assert sorted(dataset.rows_of(5)["row"].tolist()) == sorted(batch["id"].tolist())
        assert dataset.state_dict()["progress"] == [[1, 1, 6]]


@pytest.mark.parametrize("kind", [mix_of, partial(make, form="rows"), partial(make, form="slices")])
def test_steps_up_to_the_end_of_the_epoch(path, kind):
    whole, state = saved(partial(kind, path), 0, 3)
    left = len(whole) - 3
    with kind(path) as dataset:
        of_end = [contents(dataset) for _ in range(2)][1]
    with kind(path) as dataset:
        # As a state of the end: the next epoch follows, unless this epoch is set.
        dataset.load_state_dict(fastload.skip(state, left))
        assert contents(dataset) == of_end
        dataset.load_state_dict(fastload.skip(state, left))
        dataset.set_epoch(0)
        assert contents(dataset) == []
        with pytest.raises(ValueError, match=r"did fastload\.skip leave out more steps than"):
            dataset.load_state_dict(fastload.skip(state, left + 1))


def test_many_legs(path):
    whole, state = saved(partial(make, path, "rows"), 0, 1)
    state["progress"] = [[1 + n % 2, 1, 0] for n in range(40)] + [[1, 1, 1]]
    skipped = fastload.skip(fastload.skip(state, 1), 1)
    assert isinstance(skipped["progress"], str)
    assert continued(partial(make, path, "rows"), skipped) == whole[3:]


@pytest.mark.parametrize("steps", [1.0, "2", None, True])
def test_steps_that_are_no_number(steps):
    with pytest.raises(TypeError, match="Expected steps as an int, got"):
        fastload.skip({}, steps)


def test_what_is_refused(path):
    with make(path, "rows") as dataset:
        fresh = dataset.state_dict()
        assert fastload.skip(fresh, 0) == fresh
        with pytest.raises(ValueError, match="Expected steps to be at least 0, got -1"):
            fastload.skip(fresh, -1)
        with pytest.raises(ValueError, match="got one from before the first batch"):
            fastload.skip(fresh, 1)
    for state in (None, 3, [], {}, {"version": 1}):
        with pytest.raises(ValueError, match=r"Expected a state made by state_dict\(\)"):
            fastload.skip(state, 1)


def test_states_of_single_workers_are_refused(path):
    loader = StatefulDataLoader(make(path, "rows"), batch_size=None, num_workers=2)
    next(iter(islice(loader, 1)))
    with pytest.raises(ValueError, match="Expected a state of a whole rank, got one of a Stateful"):
        fastload.skip(loader.state_dict(), 1)
    own = {"worker": [0, 2, 3]}
    with pytest.raises(ValueError, match="Expected a state of a whole rank, got one of a Stateful"):
        fastload.skip(own, 1)
