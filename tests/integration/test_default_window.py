"""The shuffle window that the dataset chooses: about a rank's share, and that of a loaded state."""

import copy
import json
import re
from itertools import chain, islice

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from torch.utils.data import DataLoader

import fastload
from fastload import FastParquetDataset, Pack, TokenBudget

ROWS = 6_007
GROUP = 50


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("window")
    rows = np.arange(ROWS)
    table = pa.table({"i": rows, "tokens": [[r] * (r % 7 + 1) for r in rows.tolist()]})
    for file, (start, stop) in enumerate([(0, 3000), (3000, ROWS)]):
        part = table.slice(start, stop - start)
        pq.write_table(part, path / f"{file}.parquet", row_group_size=GROUP)
    return path


def make(path, **options):
    options = {"columns": ["i"], "batch_size": 20, "shuffle": True, "seed": 5, **options}
    return FastParquetDataset(path, threads=0, **options)


def of_ranks(path, world, steps=None, **options):
    """Return a dataset of each rank, and the rows of the first steps of each."""
    datasets = [make(path, rank=rank, world_size=world, **options) for rank in range(world)]
    return datasets, [rows_of(dataset, steps) for dataset in datasets]


def rows_of(dataset, steps=None):
    batches = islice(dataset, steps)
    return [(b["i"] if "i" in b else b["tokens"].values).tolist() for b in batches]


def window_of(dataset):
    order = dataset.state_dict()["order"]
    return order["shuffle_window"], order.get("window_slices", 1)


def test_a_rank_of_many_decodes_little_beyond_its_share(tmp_path):
    rows, group, world = 512 * 300 + 77, 200, 512
    for file in range(2):
        table = pa.table({f"c{n}": np.zeros(rows // 2 + file, "f4") for n in range(4)})
        pq.write_table(table, tmp_path / f"{file}.parquet", row_group_size=group)
    for rank in (0, 255, 511):
        with make(tmp_path, columns=None, rank=rank, world_size=world) as dataset:
            delivered = sum(len(batch["c0"]) for batch in dataset)
            stats = dataset.stats()
        assert delivered in (300, 301)
        assert stats.decode.rows / 4 <= 1.5 * delivered


@pytest.mark.parametrize("options", [{}, {"limit": 4000, "offset": 100}], ids=["all", "part"])
def test_all_ranks_together_have_each_row_once(path, options):
    _, rows = of_ranks(path, 7, uneven="keep", **options)
    found = sorted(i for of_rank in rows for batch in of_rank for i in batch)
    assert len(set(found)) == len(found) == (4000 if options else ROWS)


WAYS = {
    "rows": {},
    "filters": {"filters": [("i", ">=", 1500)]},
    "part": {"limit": 4000, "offset": 100},
    "tokens": {"columns": ["tokens"], "batch_size": TokenBudget("tokens", 100)},
    "padded": {
        "columns": ["tokens"],
        "batch_size": TokenBudget("tokens", 100, padded=True),
        "shuffle": False,
    },
}


@pytest.mark.parametrize("way", WAYS)
def test_a_resume_on_another_world_keeps_the_order(path, way):
    with make(path, rank=0, world_size=1, **WAYS[way]) as alone:
        own = window_of(alone)
    datasets, whole = of_ranks(path, 4, **WAYS[way])
    states = []
    for dataset in datasets:
        dataset.set_epoch(0)
        rows_of(dataset, 3)
        states.append(json.loads(json.dumps(dataset.state_dict())))
    assert all(state["order"] == states[0]["order"] for state in states)
    window = window_of(datasets[0])
    assert window != own
    # The same world goes on as if nothing had happened, also in the next epochs.
    after = [rows_of(dataset) for dataset in datasets]
    for rank, dataset in enumerate(datasets):
        with make(path, rank=rank, world_size=4, **WAYS[way]) as again:
            again.load_state_dict(states[0])
            assert rows_of(again) == whole[rank][3:]
            assert rows_of(again) == after[rank]
        dataset.close()
    # Another world has the rows that are left, and in the next epoch the same sequence.
    with make(path, rank=0, world_size=1, **WAYS[way]) as one:
        one.load_state_dict(states[0])
        assert window_of(one) == window
        rest = sorted(i for batch in rows_of(one) for i in batch)
        left = sorted(i for rank in whole for batch in rank[3:] for i in batch)
        if way in ("rows", "filters", "part"):
            assert len(set(rest)) == len(rest)
            assert set(rest) == set(left)
        if way == "rows":  # each rank's slice in the order of the epoch
            of_ranks_after = [i for rank in after for batch in rank for i in batch]
            following = [i for batch in rows_of(one) for i in batch]
            assert list(dict.fromkeys(of_ranks_after)) == following


def test_the_order_of_canonical_ranks_is_that_of_every_world(path):
    steps = {}
    for world in (1, 2, 4):
        options = {"global_batch_size": 40, "canonical_ranks": 4}
        datasets = [
            FastParquetDataset(
                path, columns=["i"], shuffle=True, threads=0, rank=r, world_size=world, **options
            )
            for r in range(world)
        ]
        assert {window_of(dataset) for dataset in datasets} == {(4 * (ROWS // 4), 1)}
        rows = [rows_of(dataset) for dataset in datasets]
        steps[world] = [list(chain(*step)) for step in zip(*rows, strict=True)]
    assert steps[1] == steps[2] == steps[4]


def test_a_slice_of_canonical_ranks_decodes_its_own_rows(path):
    with FastParquetDataset(
        path,
        columns=["i"],
        shuffle=True,
        threads=0,
        rank=2,
        world_size=4,
        global_batch_size=40,
        canonical_ranks=4,
    ) as dataset:
        delivered = sum(len(batch["i"]) for batch in dataset)
        assert dataset.stats().decode.rows <= 1.1 * delivered


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_running_workers_take_over_the_window_of_a_state(path, context):
    with make(path, rank=0, world_size=4) as dataset:
        rows_of(dataset, 2)
        state = dataset.state_dict()
    with make(path, rank=0, world_size=1) as dataset:
        dataset.load_state_dict(state)
        rest = rows_of(dataset)
    with make(path, rank=0, world_size=1) as dataset:
        before = window_of(dataset)
        loader = DataLoader(
            dataset,
            batch_size=None,
            num_workers=1,
            persistent_workers=True,
            multiprocessing_context=context,
        )
        assert rows_of(loader)
        dataset.load_state_dict(state)
        assert window_of(dataset) != before
        batches = list(loader)
        assert [batch["i"].tolist() for batch in batches] == rest
        assert dataset.state_dict(after=batches[0])["order"] == state["order"]
        del loader


def test_a_copy_keeps_the_window_of_a_state(path):
    with make(path, rank=0, world_size=4) as dataset:
        rows_of(dataset, 2)
        state = dataset.state_dict()
    with make(path, rank=0, world_size=1) as dataset:
        dataset.load_state_dict(state)
        with copy.copy(dataset) as other:
            assert window_of(other) == window_of(dataset)
            assert rows_of(other) == rows_of(dataset)


def test_a_mix_resumes_in_the_windows_of_its_sources(path):
    def mixed(rank, world):
        sources = {
            "a": make(path, rank=rank, world_size=world),
            "b": make(path, rank=rank, world_size=world, shuffle_window=200),
            "c": make(
                path,
                rank=rank,
                world_size=world,
                columns=["tokens"],
                batch_size=1,
                pack=Pack("tokens", 64),
            ),
        }
        return fastload.mix(sources, seed=3)

    def batches(mix, steps=None):
        got = []
        for batch in islice(mix, steps):
            values = batch["i"] if batch.source != "c" else batch["tokens"]
            got.append((batch.source, values.tolist()))
        return got

    with mixed(1, 4) as mix:
        whole, after = batches(mix), batches(mix)
    with mixed(1, 4) as mix:
        batches(mix, 5)
        state = json.loads(json.dumps(mix.state_dict()))
    with mixed(1, 4) as mix:
        mix.load_state_dict(state)
        assert batches(mix) == whole[5:]
        assert batches(mix) == after
    with mixed(0, 1) as mix:
        own = mix.state_dict()["sources"]
        mix.load_state_dict(state)
        windows = [source["order"]["shuffle_window"] for source in mix.state_dict()["sources"]]
        assert windows == [source["order"]["shuffle_window"] for source in state["sources"]]
        assert windows[1] == 200
        assert windows != [source["order"]["shuffle_window"] for source in own]
        assert len(batches(mix, 20)) == 20


def test_a_refused_state_changes_no_window(path):
    with make(path, rank=0, world_size=4) as dataset:
        rows_of(dataset, 2)
        state = dataset.state_dict()
    with make(path, rank=0, world_size=2) as dataset:
        before = window_of(dataset)
        for order in ({"batch_size": 21}, {"shuffle_window": 0}, {"window_slices": "x"}):
            with pytest.raises(ValueError, match="Expected"):
                dataset.load_state_dict({**state, "order": {**state["order"], **order}})
        assert window_of(dataset) == before


def test_a_window_of_many_shares_warns_once(tmp_path):
    rows = 400_000
    columns = {f"c{n}": np.zeros(rows) for n in range(10)}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=20_000)
    told = re.escape("shuffle_window=300000 mixes 300000 rows at once, 12 times the 25000 rows")
    with (
        pytest.warns(UserWarning, match=f"{told}.*pass shuffle_window=25000, or leave") as warned,
        make(tmp_path, columns=None, shuffle_window=300_000, rank=3, world_size=16) as dataset,
    ):
        next(iter(dataset))
    assert len(warned) == 1
    with make(tmp_path, columns=None, shuffle_window=100_000, rank=3, world_size=16) as dataset:
        next(iter(dataset))
