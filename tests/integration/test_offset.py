"""offset= and limit=: parts of the epoch's sequence."""

import json

import pyarrow.parquet as pq
import pytest

import fastload
from fastload import FastParquetDataset
from support.same_rows import assert_same_rows
from support.sample_files import ids_of, sample_table, write_sample

ROWS = 1000


@pytest.fixture
def path(tmp_path):
    return write_sample(tmp_path / "a.parquet", ROWS, 70)


def make(path, **arguments):
    given = {"columns": ["id"], "batch_size": 30, "threads": 0, **arguments}
    return FastParquetDataset(path, **given)


@pytest.mark.parametrize(("offset", "limit"), [(0, 10), (130, None), (69, 2), (995, 100)])
def test_rows_in_stored_order_are_a_slice_of_the_table(path, offset, limit):
    dataset = FastParquetDataset(path, offset=offset, limit=limit, batch_size=30)
    table = pq.read_table(path).slice(offset, limit)
    assert_same_rows(dataset, table)
    assert len(dataset) == -(-table.num_rows // 30)
    assert dataset.num_rows == ROWS


@pytest.mark.parametrize("epoch", [0, 3])
def test_parts_of_a_shuffled_epoch_are_the_epoch(path, epoch):
    def rows(**arguments):
        with make(path, shuffle=True, shuffle_window=90, seed=7, **arguments) as dataset:
            dataset.set_epoch(epoch)
            return ids_of(dataset)

    whole = rows()
    parts = rows(limit=333), rows(offset=333, limit=400), rows(offset=733)
    assert [row for part in parts for row in part] == whole
    assert rows(offset=333) == whole[333:]


@pytest.mark.parametrize("offset", [ROWS, ROWS + 1, 2**62])
@pytest.mark.parametrize("uneven", ["wrap", "drop", "pad", "keep"])
def test_an_offset_beyond_the_rows_leaves_none(path, offset, uneven):
    for rank in range(2):
        arguments = {"uneven": uneven, "rank": rank, "world_size": 2}
        with make(path, offset=offset, **arguments) as dataset:
            assert len(dataset) == 0
            assert list(dataset) == []
            assert list(dataset) == []


@pytest.mark.parametrize("uneven", ["wrap", "pad"])
def test_a_rank_without_rows_repeats_the_last_row_of_the_epoch(path, uneven):
    arguments = {"uneven": uneven, "world_size": 3, "offset": 400, "limit": 2}
    ranks = [ids_of(make(path, rank=rank, **arguments)) for rank in range(3)]
    assert ranks == [[400], [401], [401]]


@pytest.mark.parametrize("offset", [-1, True, 1.5, "3"])
def test_offsets_of_no_use(path, offset):
    error = ValueError if offset == -1 else (TypeError, ValueError)
    with pytest.raises(error, match="offset"):
        make(path, offset=offset)


def test_a_state_of_another_offset_is_refused(path):
    with make(path) as dataset:
        next(iter(dataset))
        state = json.loads(json.dumps(dataset.state_dict()))
    with (
        make(path, offset=4) as other,
        pytest.raises(ValueError, match=r"Expected offset=0, .* got offset=4: a state cannot"),
    ):
        other.load_state_dict(state)


def test_a_state_with_an_offset(path):
    with make(path, offset=100, limit=500, shuffle=True) as dataset:
        whole = ids_of(dataset)
    with make(path, offset=100, limit=500, shuffle=True) as dataset:
        next(iter(dataset))
        state = dataset.state_dict()
    rest = []
    for rank in range(3):
        with make(
            path, offset=100, limit=500, shuffle=True, rank=rank, world_size=3, uneven="keep"
        ) as dataset:
            state["order"]["uneven"] = "keep"
            dataset.load_state_dict(state)
            rest += ids_of(dataset)
    assert rest == whole[30:]
    state["order"]["uneven"] = "wrap"
    with make(path, shuffle=True) as other, pytest.raises(ValueError, match="Expected offset=100"):
        other.load_state_dict(state)


def test_a_source_of_a_mix_keeps_its_offset(path):
    with fastload.mix(
        {"a": make(path, offset=940), "b": make(path, limit=60)}, stop="all"
    ) as mixed:
        rows = {"a": [], "b": []}
        for batch in mixed:
            rows[batch.source] += batch["id"].tolist()
        assert rows == {"a": list(range(940, 1000)), "b": list(range(60))}
        state = mixed.state_dict()
        assert [source["order"]["offset"] for source in state["sources"]] == [940, 0]


def test_text_and_head(path):
    with make(path, offset=970, limit=100) as dataset:
        assert "1,000 in 1 file, of which offset and limit keep 30" in repr(dataset)
        assert dataset.head(2)["id"].tolist() == [0, 1]
    with make(path, offset=970) as dataset:
        assert "of which offset keeps 30" in repr(dataset)
    with make(path, limit=0) as dataset:
        assert "of which limit keeps 0" in repr(dataset)
        with pytest.raises(ValueError, match="Expected a dataset with rows, got one without"):
            dataset.head()


def test_all_rows_are_prepared_whatever_the_offset(path, tmp_path):
    table = sample_table(ROWS).slice(300, 200)
    seen = []
    with FastParquetDataset(
        path, offset=300, limit=200, cache=tmp_path / "kept", preprocess=lambda block: block
    ) as dataset:
        dataset.warm_cache(progress=lambda done, total: seen.append((done, total)))
        assert seen[-1] == (ROWS, ROWS)
        assert_same_rows(dataset, table)
