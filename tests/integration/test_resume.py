"""A loaded state goes on at exactly the next row."""

import json
import os
import pickle
import shutil
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from torch.utils.data import DataLoader

from fastload import FastParquetDataset, SourceChangedError
from support.sample_files import ids_of, sample_table, write_files, write_sample

ROWS = 777


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("resume") / "sample.parquet", ROWS)


def dataset_of(path, **options):
    options = {"batch_size": 50, "shuffle": True, "shuffle_window": 200, **options}
    return FastParquetDataset(path, threads=1, memory_budget="64MB", **options)


def resumed(path, state, **options):
    dataset = dataset_of(path, **options)
    dataset.load_state_dict(json.loads(json.dumps(state)))
    return dataset


@pytest.mark.parametrize(
    "options", [{}, {"shuffle": False}, {"drop_last": True}, {"limit": 333, "seed": 2**64 - 1}]
)
def test_after_every_batch(path, options):
    with dataset_of(path, **options) as dataset:
        dataset.set_epoch(4)
        states = [dataset.state_dict()]
        batches = []
        for batch in dataset:
            batches.append(batch)
            states.append(dataset.state_dict())
            assert states[-1] == dataset.state_dict(after=batch)
            assert len(json.dumps(states[-1])) < 2000
        next_epoch = ids_of(dataset)
        # A state names its batch even when the dataset has gone on.
        assert [dataset.state_dict(after=batch) for batch in batches] == states[1:]
    for delivered, state in enumerate(states[:-1]):
        with resumed(path, state, **options) as dataset:
            assert len(dataset) == len(batches)
            running = iter(dataset)
            assert len(dataset) == len(batches)
            assert ids_of(running) == ids_of(batches[delivered:])
            if delivered % 5 == 0:
                assert ids_of(dataset) == next_epoch


def test_seed_comes_from_the_state(path):
    with dataset_of(path, seed=11) as dataset:
        whole = ids_of(dataset)
        dataset.set_epoch(0)
        running = iter(dataset)
        next(running)
        state = dataset.state_dict()
    with resumed(path, state, seed=12) as dataset:
        assert ids_of(dataset) == whole[50:]


def delivered_by_world(path, state, world, batches, **options):
    """What each rank delivers in so many steps (None = all), and the state after them."""
    ids, after = [], state
    for rank in range(world):
        with dataset_of(path, rank=rank, world_size=world, **options) as dataset:
            if state is not None:
                dataset.load_state_dict(state)
            taken = []
            for batch in dataset:
                taken.append(batch)
                if len(taken) == batches:
                    break
            ids += ids_of(taken)
            rank_state = dataset.state_dict()
            assert rank == 0 or rank_state == after
            after = rank_state
    return ids, after


@pytest.mark.parametrize("worlds", [(4, 1), (1, 3), (2, 3, 1), (3, 1, 2, 4)])
def test_other_worlds_see_each_row_once(path, worlds):
    delivered, state = [], None
    for number, world in enumerate(worlds):
        last = number == len(worlds) - 1
        ids, state = delivered_by_world(path, state, world, None if last else 2, uneven="keep")
        delivered += ids
    assert sorted(delivered) == list(range(ROWS))


def test_wrap_repeats_at_most_a_row_for_each_rank(path):
    first, state = delivered_by_world(path, None, 4, 2)
    second, _ = delivered_by_world(path, state, 5, None)
    assert len(second) % 5 == 0
    count = Counter(first + second)
    assert set(count) == set(range(ROWS))
    assert sum(count.values()) - ROWS <= 4 + 5


@pytest.mark.parametrize("stops", [(3, 4), (1, 1, 5), (0, 2)])
def test_several_resumes_are_one_run(path, stops):
    with dataset_of(path) as dataset:
        whole = ids_of(dataset)
    delivered, state = [], None
    for stop in (*stops, None):
        ids, state = delivered_by_world(path, state, 1, stop) if stop != 0 else ([], state)
        delivered += ids
    assert delivered == whole


def finished_state(path):
    with dataset_of(path) as dataset:
        dataset.set_epoch(6)
        batches = list(dataset)
        state = dataset.state_dict()
        assert state == dataset.state_dict(after=batches[-1])
        return state, ids_of(dataset)


def test_state_at_an_epochs_end_goes_on_with_the_next(path):
    state, next_epoch = finished_state(path)
    with resumed(path, state) as dataset:
        assert len(dataset) == 16
        assert ids_of(dataset) == next_epoch


def test_same_epoch_after_its_end_yields_nothing(path):
    state, next_epoch = finished_state(path)
    with resumed(path, state) as dataset:
        dataset.set_epoch(6)
        assert ids_of(dataset) == []
        dataset.set_epoch(7)
        assert ids_of(dataset) == next_epoch


def test_end_of_an_epoch_that_was_set_before_the_load_yields_nothing(path):
    state, next_epoch = finished_state(path)
    with dataset_of(path) as dataset:
        dataset.set_epoch(6)
        dataset.load_state_dict(state)
        assert ids_of(dataset) == []
        assert ids_of(dataset) == next_epoch
        # A pass has begun since set_epoch.
        dataset.load_state_dict(state)
        assert ids_of(dataset) == next_epoch


def middle_state(path, **options):
    with dataset_of(path, **options) as dataset:
        dataset.set_epoch(2)
        whole = list(dataset)
        return dataset.state_dict(after=whole[4]), ids_of(whole[5:])


def test_set_epoch_of_the_same_epoch_keeps_the_progress(path):
    state, rest = middle_state(path)
    with resumed(path, state) as dataset:
        dataset.set_epoch(2)
        dataset.set_epoch(2)
        assert ids_of(dataset) == rest


def test_set_epoch_of_another_drops_it(path):
    state, _ = middle_state(path)
    with resumed(path, state) as dataset:
        with pytest.warns(UserWarning, match=r"epoch 2; set_epoch\(3\) drops its progress"):
            dataset.set_epoch(3)
        assert len(ids_of(dataset)) == ROWS


def test_state_of_a_loaded_dataset_is_that_state(path):
    state, _ = middle_state(path)
    with resumed(path, state) as dataset:
        assert dataset.state_dict() == state
        running = iter(dataset)
        assert dataset.state_dict() == state
        next(running)
        assert dataset.state_dict()["progress"] == [[1, 1, 6]]


def test_load_ends_the_running_pass(path):
    state, rest = middle_state(path)
    with dataset_of(path) as dataset:
        running = iter(dataset)
        next(running)
        dataset.load_state_dict(state)
        with pytest.raises(RuntimeError, match=r"load_state_dict\(\) ended this pass after 1 bat"):
            next(running)
        assert ids_of(dataset) == rest


def test_moved_files_are_the_same(path, tmp_path):
    state, rest = middle_state(path)
    moved = tmp_path / "sample.parquet"
    shutil.copyfile(path, moved)
    with resumed(moved, state) as dataset:
        assert ids_of(dataset) == rest


def test_the_same_files_in_another_order_are_named(tmp_path):
    paths = write_files(tmp_path, [[10], [20], [30]])
    state = dataset_of(paths).state_dict()
    for other in ([paths[2], paths[1], paths[0]], [paths[1], paths[2], paths[0]]):
        with pytest.raises(SourceChangedError, match=rf"same files in another order.* {other[0]}$"):
            dataset_of(other).load_state_dict(state)
    dataset_of(f"{tmp_path}/*.parquet").load_state_dict(state)


def test_the_same_files_with_other_hive_keys_are_named(tmp_path):
    folders = [f"{tmp_path}/day={day}" for day in (1, 2)]
    for folder in folders:
        os.mkdir(folder)
        write_files(folder, [[10]])
    plain = dataset_of(folders)
    for source in (tmp_path, f"{tmp_path}/day=*/*.parquet"):
        keyed = dataset_of(source)
        for before, now, keys in ((plain, keyed, "`day`"), (keyed, plain, "none")):
            message = rf"same files with other keys \({keys}\): pass the directory or the glob"
            with pytest.raises(SourceChangedError, match=message):
                now.load_state_dict(before.state_dict())


def test_changed_files_are_refused(path, tmp_path):
    state, _ = middle_state(path)
    other = tmp_path / "sample.parquet"
    pq.write_table(sample_table(ROWS, seed=1), other, row_group_size=100)
    with (
        dataset_of(other) as dataset,
        pytest.raises(SourceChangedError, match=r"1 files, 777 rows.*sample\.parquet"),
    ):
        dataset.load_state_dict(state)


@pytest.mark.parametrize(
    ("option", "value"),
    [("batch_size", 51), ("shuffle", False), ("shuffle_window", 99), ("uneven", "pad")],
)
def test_another_order_is_refused(path, option, value):
    state, rest = middle_state(path)
    with dataset_of(path, **{option: value}) as dataset:
        with pytest.raises(ValueError, match=f"Expected {option}="):
            dataset.load_state_dict(state)
        assert len(ids_of(dataset)) == ROWS
    with resumed(path, state) as dataset:
        assert ids_of(dataset) == rest


def test_a_state_brings_its_window_to_other_columns(tmp_path):
    table = pa.table({"id": range(60), "image": ["x" * 3000] * 60, "size": range(60)})
    pq.write_table(table, tmp_path / "a.parquet", use_dictionary=False)

    def make(columns, **options):
        path = tmp_path / "a.parquet"
        return FastParquetDataset(path, columns=columns, batch_size=8, shuffle=True, **options)

    with make(["id", "image"]) as dataset:
        first = next(iter(dataset))
        state = dataset.state_dict()
    told = pytest.raises(ValueError, match="leave out shuffle_window")
    with make(["id"], shuffle_window=7) as dataset, told:
        dataset.load_state_dict(state)
    with make(["id", "image", "size"]) as dataset:
        dataset.load_state_dict(state)
        rest = [i for batch in dataset for i in batch["id"].tolist()]
        assert dataset.state_dict()["order"] == state["order"]
    assert sorted([*first["id"].tolist(), *rest]) == list(range(60))


@pytest.mark.parametrize(
    "change",
    [
        {"version": 99},
        {"progress": [[1, 1]]},
        {"progress": [[1, 1, 999]]},
        {"progress": [[0, 1, 1]]},
        {"progress": "none"},
        {"epoch": None},
        {"epoch": -1},
        {"order": None},
    ],
)
def test_broken_states_are_refused(path, change):
    state, _ = middle_state(path)
    with dataset_of(path) as dataset:
        with pytest.raises(ValueError, match="Expected"):
            dataset.load_state_dict({**state, **change})
        with pytest.raises(ValueError, match="Expected a state made by state_dict"):
            dataset.load_state_dict({})
        assert dataset.state_dict()["progress"] == []
        assert len(ids_of(dataset)) == ROWS


def test_after_needs_a_batch(path):
    with dataset_of(path) as dataset:
        batch = next(iter(dataset))
        with pytest.raises(ValueError, match=r"got dict without a position \(a collate_fn"):
            dataset.state_dict(after=dict(batch))
        assert dataset.state_dict(after=batch.clone()) == dataset.state_dict(after=batch.to("cpu"))


@pytest.mark.parametrize("workers", [0, 1])
def test_after_refuses_a_batch_of_another_dataset(path, workers):
    with dataset_of(path) as training, dataset_of(path, batch_size=7) as evaluation:
        trained = next(iter(DataLoader(training, batch_size=None, num_workers=workers)))
        evaluated = next(iter(DataLoader(evaluation, batch_size=None, num_workers=workers)))
        for batch in (evaluated, evaluated.clone(), pickle.loads(pickle.dumps(evaluated))):
            with pytest.raises(ValueError, match="got one of another dataset, with other files or"):
                training.state_dict(after=batch)
        state = training.state_dict(after=trained)
    with dataset_of(path) as same, dataset_of(path, seed=3) as similar:
        assert same.state_dict(after=trained) == state
        assert similar.state_dict(after=trained) == state


def test_behind_a_data_loader(path):
    with dataset_of(path) as dataset:
        loader = DataLoader(dataset, batch_size=None)
        batches = list(loader)
        state = dataset.state_dict(after=batches[3])
    with resumed(path, state) as dataset:
        assert ids_of(DataLoader(dataset, batch_size=None)) == ids_of(batches[4:])
