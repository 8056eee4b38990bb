"""A dataset of datasets: which batches come, in epochs, processes and resumed runs."""

import copy
import io
import json
import pickle
from collections import Counter
from functools import partial
from itertools import chain, islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

import fastload
from fastload import FastParquetDataset, Pack, SourceChangedError, TokenBudget
from fastload.testing import assert_ranks_agree, assert_resumes_exactly, assert_same_batches
from support.sample_files import ids_of, write_sample

ROWS = {"a": 397, "b": 120, "c": 33}
STOPS = ["first", "all", "repeat"]
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    directory = tmp_path_factory.mktemp("mix")
    return {
        name: write_sample(directory / f"{name}.parquet", rows, 30) for name, rows in ROWS.items()
    }


def sources_of(paths, **options):
    options = {"batch_size": 20, "shuffle": True, "shuffle_window": 90, **options}
    options = {"threads": 1, "memory_budget": "32MB", **options}
    columns = {"a": ["id", "name"], "b": None, "c": ["price", "id"]}
    return {
        name: FastParquetDataset(path, columns=columns[name], seed=seed, **options)
        for seed, (name, path) in enumerate(paths.items())
    }


def mix_of(paths, weights=None, stop="all", seed=5, **options):
    return fastload.mix(sources_of(paths, **options), weights, seed, stop)


def by_source(batches):
    """The ids of each source's batches, in order."""
    ids = {name: [] for name in ROWS}
    for batch in batches:
        ids[batch.source].append(batch["id"].tolist())
    return ids


def order_of(batches):
    return "".join(batch.source for batch in batches)


def test_a_source_comes_in_the_order_that_it_has_by_itself(paths):
    with mix_of(paths, [3, 2, 1]) as mixed:
        orders = []
        for epoch in range(3):
            assert len(mixed) == 20 + 6 + 2
            batches = list(mixed)
            assert len(batches) == 28
            orders.append(order_of(batches))
            alone = sources_of(paths)
            for name, ids in by_source(batches).items():
                alone[name].set_epoch(epoch)
                assert ids == [batch["id"].tolist() for batch in alone[name]]
                alone[name].close()
        assert len(set(orders)) == 3
        assert Counter(orders[0]) == {"a": 20, "b": 6, "c": 2}
    with mix_of(paths, [3, 2, 1], seed=6) as mixed:
        assert order_of(mixed) != orders[0]


def test_the_first_to_end_ends_it(paths):
    with mix_of(paths, {"b": 1, "c": 1, "a": 1}, "first") as mixed:
        for _ in range(3):
            expected, batches = len(mixed), list(mixed)
            assert len(batches) == expected
            assert "c" in order_of(batches)
            assert max(Counter(order_of(batches)).values()) <= 20


def test_repetitions_have_orders_of_their_own(paths):
    with mix_of(paths, {"a": 1, "b": 1, "c": 1}, "repeat") as mixed:
        expected, batches = len(mixed), list(mixed)
        assert len(batches) == expected > 28
        ids = by_source(batches)
        assert order_of(batches)[-1] == "a"
        assert sorted(chain.from_iterable(ids["a"])) == list(range(ROWS["a"]))
        # Two batches each.
        rounds = [[*a, *b] for a, b in zip(ids["c"][::2], ids["c"][1::2], strict=False)]
        assert len(rounds) > 2
        assert len({tuple(ids) for ids in rounds}) == len(rounds)
        assert all(sorted(ids) == list(range(ROWS["c"])) for ids in rounds)


def test_batches_say_where_they_come_from(paths):
    with mix_of(paths, provenance=True) as mixed:
        assert mixed.sources == ("a", "b", "c")
        assert mixed.files == {name: (path,) for name, path in paths.items()}
        for batch in DataLoader(mixed, batch_size=None, num_workers=2, timeout=TIMEOUT_S):
            assert list(batch) == list(mixed.schema[batch.source])
            index = mixed.sources.index(batch.source)
            assert torch.equal(batch["__source__"], torch.full((batch.rows,), index).int())
            assert batch["__source__"].dtype == mixed.schema[batch.source]["__source__"].dtype
            assert torch.equal(batch["__row__"], batch["id"])
            assert batch.clone().to("cpu").source == batch.source
        file = io.BytesIO()
        torch.save(batch, file)
        file.seek(0)
        assert torch.load(file, weights_only=True).source == batch.source
    with mix_of(paths) as mixed:
        batch = next(iter(mixed))
        assert "__source__" not in batch
        assert batch.source in ROWS
    with FastParquetDataset(paths["a"]) as alone:
        assert next(iter(alone)).source is None


@pytest.mark.parametrize(
    ("stop", "options"),
    [
        ("first", {"weights": [2, 2, 1]}),
        ("all", {"uneven": "drop", "drop_last": True, "rank": 1, "world_size": 2}),
        ("repeat", {"weights": [2, 3, 1], "uneven": "pad", "rank": 2, "world_size": 3}),
    ],
)
def test_resumes_exactly(paths, stop, options):
    assert_resumes_exactly(partial(mix_of, paths, stop=stop, **options), epoch=2)


@pytest.mark.parametrize(("stop", "workers"), [("all", 2), ("repeat", 3)])
def test_resumes_exactly_with_workers(paths, stop, workers):
    make = partial(mix_of, paths, [1, 1, 1], stop)
    assert_resumes_exactly(make, after=[1, 14, 25], num_workers=workers)


@pytest.mark.parametrize(("uneven", "drop_last"), [("wrap", False), ("pad", False), ("drop", True)])
def test_ranks_agree(paths, uneven, drop_last):
    make = partial(mix_of, paths, batch_size=7, uneven=uneven, drop_last=drop_last)
    assert_ranks_agree(make, (2, 5, 3), uneven=uneven, drop_last=drop_last)


@pytest.mark.parametrize(
    ("context", "persistent"), [("fork", True), ("spawn", True), ("fork", False)]
)
def test_epochs_of_workers(paths, context, persistent):
    with mix_of(paths, [1, 1, 1], "repeat") as mixed:
        orders = [order_of(mixed) for _ in range(4)]
        loader = DataLoader(
            mixed,
            batch_size=None,
            num_workers=2,
            multiprocessing_context=context,
            persistent_workers=persistent,
            timeout=TIMEOUT_S,
        )
        mixed.set_epoch(0)
        for epoch in (0, 1):
            batches = list(loader)
            assert order_of(batches) == orders[epoch]
            assert sorted(chain.from_iterable(by_source(batches)["a"])) == list(range(ROWS["a"]))
        mixed.set_epoch(3)
        running = iter(loader)
        state = mixed.state_dict(after=list(islice(running, 7))[-1])
        assert state["progress"] == [[1, 2, 7]]
        mixed.load_state_dict(state)
        mixed.set_epoch(3)
        assert len(mixed) == len(orders[3])
        assert order_of(loader) == orders[3][7:]


@pytest.mark.parametrize(
    ("keyword", "hint"),
    [
        ("probabilities", "pass weights="),
        ("stopping_strategy", 'pass stop="first", "all" or "repeat"'),
        ("batch_size", "pass batch_size= to each dataset"),
        ("skip_batches", r"to leave out steps, call load_state_dict\(fastload.skip\("),
        ("weight", "did you mean 'weights'"),
    ],
)
def test_a_keyword_of_another_library(paths, keyword, hint):
    with pytest.raises(TypeError, match=f"mix has no parameter '{keyword}': {hint}"):
        fastload.mix(sources_of(paths), **{keyword: 1})


def test_after_refuses_a_batch_of_another_mix(paths):
    with mix_of(paths) as mixed, mix_of(paths, uneven="pad") as other, mix_of(paths) as same:
        batch = next(iter(mixed))
        assert mixed.state_dict(after=batch) == same.state_dict(after=batch)
        with pytest.raises(ValueError, match="got one of another dataset, with other files or"):
            other.state_dict(after=batch)


def test_other_workers_and_worlds(paths):
    with mix_of(paths) as mixed:
        loader = DataLoader(mixed, batch_size=None, num_workers=3, timeout=TIMEOUT_S)
        begun = list(islice(loader, 9))
        state = mixed.state_dict(after=begun[-1])
        whole = order_of(mix_of(paths))
    with mix_of(paths) as mixed:
        mixed.load_state_dict(state)
        rest = list(mixed)
        # The sources go on as they were drawn.
        assert order_of([*begun, *rest]) == whole
        for name, rows in ROWS.items():
            ids = ids_of(batch for batch in [*begun, *rest] if batch.source == name)
            assert sorted(ids) == list(range(rows))
    ends = []
    for rank in range(3):
        with mix_of(paths, rank=rank, world_size=3) as mixed:
            mixed.load_state_dict(state)
            ends.append(list(mixed))
    assert order_of(ends[0]) == order_of(ends[1]) == order_of(ends[2])
    for name, rows in ROWS.items():
        batches = [batch for batches in [begun, *ends] for batch in batches if batch.source == name]
        assert set(ids_of(batches)) == set(range(rows))
        assert len(ids_of(batches)) <= rows + 3


@pytest.mark.parametrize("workers", [0, 2])
def test_stateful_data_loader(paths, workers):
    def loader():
        return StatefulDataLoader(
            mix_of(paths, stop="repeat"),
            batch_size=None,
            num_workers=workers,
            timeout=TIMEOUT_S if workers else 0,
        )

    running, states, batches = loader(), [], []
    for batch in running:
        batches.append(batch.clone())
        states.append(running.state_dict())
    for delivered in (1, 8, 20):
        resumed = loader()
        resumed.load_state_dict(states[delivered - 1])
        assert_same_batches(resumed, batches[delivered:])


def test_epochs_and_states_are_those_of_a_dataset(paths):
    with mix_of(paths) as mixed:
        first = iter(mixed)
        next(first)
        whole = order_of(mixed)
        with pytest.raises(RuntimeError, match="ended this pass after 1 batches"):
            next(first)
        finished = mixed.state_dict()
        following = order_of(mixed)
        mixed.load_state_dict(finished)
        mixed.set_epoch(1)
        assert list(mixed) == []
        mixed.load_state_dict(finished)
        assert order_of(mixed) == following
        mixed.set_epoch(1)
        state = mixed.state_dict(after=list(islice(mixed, 5))[-1])
        mixed.load_state_dict(state)
        with pytest.warns(UserWarning, match=r"epoch 1; set_epoch\(2\) drops its progress"):
            mixed.set_epoch(2)
        assert order_of(mixed) == following
        with pickle.loads(pickle.dumps(mixed)) as copy:
            copy.load_state_dict(state)
            assert order_of(copy) == whole[5:]


def test_seeds_come_from_the_state(paths):
    with mix_of(paths, seed=7) as mixed:
        running = iter(mixed)
        state = mixed.state_dict(after=next(running))
        rest = [batch.clone() for batch in running]
        mixed.set_epoch(1)
        following = order_of(mixed)
    others = {
        name: FastParquetDataset(
            dataset.files,
            columns=list(dataset.schema),
            batch_size=20,
            shuffle=True,
            shuffle_window=90,
            seed=99,
        )
        for name, dataset in sources_of(paths).items()
    }
    with fastload.mix(others, seed=8, stop="all") as mixed:
        mixed.load_state_dict(state)
        assert_same_batches(mixed, rest)
        assert order_of(mixed) == following


@pytest.mark.parametrize("stop", ["all", "repeat"])
def test_next_passes_and_repetitions_are_read_ahead(paths, stop):
    with mix_of(paths, [1, 1, 1], stop) as mixed:
        ids = [by_source(mixed) for _ in range(4)]
        for name, stats in mixed.stats().items():
            assert stats.read_ahead.bytes > 0
            assert stats.batches == sum(len(epoch[name]) for epoch in ids)
            assert stats.consuming_s > 0
    for epoch, expected in enumerate(ids):
        with mix_of(paths, [1, 1, 1], stop) as mixed:
            mixed.set_epoch(epoch)
            assert by_source(mixed) == expected


def test_another_mix_is_refused(paths):
    with mix_of(paths, [1, 2, 3]) as mixed:
        running = iter(mixed)
        batch = next(running)
        state = json.loads(json.dumps(mixed.state_dict(after=batch), sort_keys=True))
        assert len(json.dumps(state)) < 1500
        for change in ({"sources": state["sources"][:2]}, {"stop": "first"}, {"weights": None}):
            with pytest.raises(ValueError, match=f"Expected {next(iter(change))}="):
                mixed.load_state_dict({**state, **change})
        for change in ({"progress": [[1, 1, 999]]}, {"seeds": [1]}, {"sources": 3}, {"version": 2}):
            with pytest.raises(ValueError, match="Expected"):
                mixed.load_state_dict({**state, **change})
        with pytest.raises(ValueError, match="Expected a batch that this MixedDataset yielded"):
            mixed.state_dict(after=next(iter(sources_of(paths)["a"])))
    with sources_of(paths)["a"] as alone:
        with pytest.raises(ValueError, match="Expected a state made by state_dict"):
            alone.load_state_dict(state)
        with pytest.raises(ValueError, match="a batch of a mix belongs to the mix"):
            alone.state_dict(after=batch)
    with (
        mix_of(paths, [1, 2, 3], batch_size=21) as mixed,
        pytest.raises(ValueError, match="Expected batch_size=20"),
    ):
        mixed.load_state_dict(state)
    with (
        mix_of({**paths, "c": paths["b"]}, [1, 2, 3]) as mixed,
        pytest.raises(SourceChangedError, match=r"b\.parquet"),
    ):
        mixed.load_state_dict(state)


def test_wrong_arguments(paths):
    sources = sources_of(paths)
    for weights, message in [
        ([1, 2], "Expected a weight of each of"),
        ({"a": 1, "b": 1}, r"Expected weights of \['a', 'b', 'c'\]"),
        ([1, 2, 0], "positive and finite weights, got 0 - at source `c`"),
        ([1, float("inf"), 1], "positive and finite weights, got inf - at source `b`"),
    ]:
        with pytest.raises(ValueError, match=message):
            fastload.mix(sources, weights)
    with pytest.raises(ValueError, match="Expected stop to be one of 'first', 'all', 'repeat'"):
        fastload.mix(sources, stop="never")
    with pytest.raises(ValueError, match="Expected at least one dataset"):
        fastload.mix({})
    with pytest.raises(ValueError, match="dataset of source `a` is used twice - at source `z`"):
        fastload.mix({**sources, "z": sources["a"]})
    for wrong, message in [
        (({"a": fastload.mix(sources)},), "a FastParquetDataset, got MixedDataset - at source `a`"),
        ((set(sources.values()),), "Expected datasets as a list of .* or a mapping"),
        (({1: sources["a"]},), "Expected the name of a source as str"),
        ((sources, ["1", "2", "3"]), "Expected weights as numbers"),
        ((sources, None, 1.5), "Expected seed as int"),
    ]:
        with pytest.raises(TypeError, match=message):
            fastload.mix(*wrong)


def token_sources(folder, ranks=(0, 1), **options):
    tokens = f"{folder}/tokens.parquet"
    if not Path(tokens).exists():
        lengths = [(7 * k * k + 3 * k) % 29 for k in range(240)]
        lists = pa.array([list(range(length)) for length in lengths], pa.list_(pa.int32()))
        table = pa.table({"t": lists, "id": range(240)})
        pq.write_table(table, tokens, row_group_size=30)
    shared = {"shuffle": True, "shuffle_window": 50, "threads": 1, "memory_budget": "32MB"}
    shared |= {"rank": ranks[0], "world_size": ranks[1], **options}
    return {
        "rows": FastParquetDataset(tokens, columns=["id"], batch_size=20, **shared),
        "best": FastParquetDataset(tokens, pack=Pack("t", 32), batch_size=3, **shared),
        "split": FastParquetDataset(
            tokens, pack=Pack("t", 32, fit="split"), batch_size=50, **shared
        ),
        "budget": FastParquetDataset(tokens, batch_size=TokenBudget("t", 90), **shared),
    }


@pytest.mark.parametrize("stop", STOPS)
def test_packed_sources(tmp_path, stop):
    def mixed_of(ranks=(0, 1)):
        return fastload.mix(token_sources(tmp_path, ranks), [1, 2, 1, 2], 5, stop)

    with mixed_of() as mixed, mixed_of() as other:
        lengths = set()
        # The second pass of a mix is read ahead in the first one.
        for epoch in range(3):
            lengths.add(len(mixed))
            other.set_epoch(epoch)
            batches = list(mixed)
            assert len(batches) == len(other)
            assert_same_batches(batches, copy.copy(other))
        assert len(lengths) > 1
    assert_resumes_exactly(mixed_of)
    if stop == "all":
        assert_ranks_agree(lambda rank, world_size: mixed_of((rank, world_size)), (2, 3))


def test_a_packed_source_has_the_batches_that_it_has_by_itself(tmp_path):
    alone = token_sources(tmp_path, provenance=True)
    sources = token_sources(tmp_path, provenance=True)
    with fastload.mix(sources, stop="all") as mixed:
        assert len(mixed) == sum(map(len, alone.values()))
        batches = list(mixed)
        assert [batch.source for batch in batches] != sorted(batch.source for batch in batches)
        for number, (name, dataset) in enumerate(alone.items()):
            own = [batch for batch in batches if batch.source == name]
            for batch in own:
                # One number for each packed row, or each row of a batch by tokens.
                assert batch.pop("__source__").tolist() == [number] * len(batch["__row__"])
            assert_same_batches(own, dataset)
            dataset.close()


def test_sources_that_disagree_about_slices_are_refused(tmp_path):
    plain = token_sources(tmp_path)
    path = f"{tmp_path}/tokens.parquet"

    def sliced(slices, **options):
        shape = {"rank": 0, "world_size": 1, "canonical_ranks": slices}
        options = {"columns": ["id"], "global_batch_size": 12, **options}
        return FastParquetDataset(path, **shape, **options)

    four, six = sliced(4, global_batch_size=8), sliced(6)
    lacks = (
        r"canonical_ranks=4 as source `y` has, got none: write canonical_ranks=4 in each dataset, "
        r"with global_batch_size .* - at source `rows`"
    )
    with pytest.raises(ValueError, match=lacks):
        fastload.mix({"y": four, "rows": plain["rows"]})
    with pytest.raises(ValueError, match=lacks):
        fastload.mix({"rows": plain["rows"], "y": four})
    with pytest.raises(ValueError, match=r"=4 as source `y` has, got .*=6: .* - at source `z`"):
        fastload.mix({"y": four, "z": six})
    # One of these has the slices of its world.
    fastload.mix({"y": sliced(None, global_batch_size=3), "z": sliced(1)})


def test_a_world_that_does_not_divide_the_slices_is_refused(tmp_path):
    token_sources(tmp_path)
    dataset = FastParquetDataset(
        f"{tmp_path}/tokens.parquet",
        columns=["id"],
        global_batch_size=12,
        canonical_ranks=4,
        rank=0,
        world_size=3,
    )
    with pytest.raises(ValueError, match="world_size that divides canonical_ranks=4, got 3"):
        next(iter(fastload.mix({"a": dataset})))


def test_progress_on_ranks_that_do_not_divide_the_slices_is_refused(tmp_path):
    token_sources(tmp_path)
    dataset = FastParquetDataset(
        f"{tmp_path}/tokens.parquet", columns=["id"], global_batch_size=12, canonical_ranks=4
    )
    mixed = fastload.mix({"a": dataset})
    state = {**mixed.state_dict(), "progress": [[3, 1, 1], [2, 1, 1]]}
    with pytest.raises(ValueError, match=r"state .* divides canonical_ranks=4, got .* 3 ranks"):
        mixed.load_state_dict(state)


def test_ranks_that_differ(paths, monkeypatch):
    with pytest.raises(ValueError, match="got uneven='keep' and 2 ranks - at source `a`"):
        mix_of(paths, uneven="keep", rank=0, world_size=2)
    with mix_of(paths, uneven="keep") as mixed:
        monkeypatch.setenv("WORLD_SIZE", "2")
        monkeypatch.setenv("RANK", "1")
        with pytest.raises(ValueError, match="got uneven='keep' and 2 ranks"):
            len(mixed)
    told = FastParquetDataset(paths["a"], rank=0, world_size=2)
    with (
        fastload.mix({"told": told, "found": FastParquetDataset(paths["b"])}) as mixed,
        pytest.raises(ValueError, match=r"Expected rank 0 of 2 .* got rank 1 of 2 - at"),
    ):
        iter(mixed)


def test_closing(paths):
    sources = sources_of(paths)
    mixed = fastload.mix(sources, stop="all")
    alone = iter(sources["a"])
    next(alone)
    running = iter(mixed)
    batch = next(running)
    with pytest.raises(
        RuntimeError, match="A pass of a mix that the dataset belongs to ended this"
    ):
        next(alone)
    assert "'c': FastParquetDataset(" in repr(mixed)
    mixed.close()
    mixed.close()
    assert batch.rows == 20
    with pytest.raises(RuntimeError, match=r"close\(\) of the dataset ended this pass after 1 bat"):
        next(running)
    for closed in (mixed, sources["a"]):
        with pytest.raises(RuntimeError, match="Expected an open dataset"):
            iter(closed)
    mixed = mix_of(paths)
    sources = sources_of(paths)
    with fastload.mix(sources) as mixed:
        sources["b"].close()
        with pytest.raises(RuntimeError, match="closed - at source `b`"):
            iter(mixed)


def test_rows_by_number_are_those_of_a_source(paths):
    with mix_of(paths) as mixed, pytest.raises(TypeError) as refused:
        mixed[0]
    for way in ("head(5) of a source", "limit= of a source", "by_index() of a source"):
        assert way in str(refused.value)


def test_what_only_one_source_has(paths):
    with mix_of(paths) as mixed:
        for name, hint in (
            ("head", r"several datasets; .*\]\.head$"),
            ("take", r"several datasets; .*\]\.take$"),
            ("num_rows", r"several datasets; .*\]\.num_rows$"),
            ("datasets", r"write mixed\.sources$"),
        ):
            with pytest.raises(AttributeError, match=hint):
                getattr(mixed, name)
        assert not hasattr(mixed, "unknown")


def test_rows_of_a_source_during_a_pass_of_the_mix(paths):
    datasets = {name: FastParquetDataset(path, columns=["id"]) for name, path in paths.items()}
    expected = [dataset.num_rows for dataset in datasets.values()]
    with fastload.mix(datasets, stop="all") as mixed:
        rows = 0
        for batch in mixed:
            rows += batch.rows
            for dataset in datasets.values():
                assert dataset.take([1, 0])["id"].tolist() == [1, 0]
                assert dataset.head(2)["id"].tolist() == [0, 1]
        assert rows == sum(expected)


def test_second_iter_ends_the_first(paths):
    with mix_of(paths) as mixed:
        for _ in range(2):
            with pytest.raises(RuntimeError, match=r"A second iter\(\) of the dataset ended this"):
                [next(iter(mixed)) for _ in mixed]
        assert len(list(mixed)) == len(mixed)


@pytest.mark.parametrize("options", [{}, {"threads": 0}, {"preprocess": dict}])
def test_closing_a_source_ends_the_pass(paths, options):
    sources = sources_of(paths, **options)
    said = r"close\(\) of the dataset of source `a` ended this pass of the mix after \d+ batches: "
    with fastload.mix(sources, stop="all") as mixed, pytest.raises(RuntimeError, match=said):
        [sources["a"].close() for _ in mixed]


def test_closing_the_mix_in_mid_pass_names_no_source(paths):
    mixed = mix_of(paths)
    running = iter(mixed)
    next(running)
    mixed.close()
    with pytest.raises(RuntimeError, match=r"^close\(\) of the dataset ended this pass after 1"):
        next(running)


@pytest.mark.filterwarnings("ignore:Expected a batch of each source")
def test_empty_sources(paths):
    for stop, count in (("first", 0), ("all", 28), ("repeat", 20)):
        sources = sources_of(paths)
        sources["none"] = FastParquetDataset(paths["a"], limit=0)
        with fastload.mix(sources, [1, 1e-9, 1e-9, 1e9], stop=stop) as mixed:
            assert len(mixed) == len(list(mixed)) >= count
            assert (len(mixed) == 0) == (stop == "first")
    with fastload.mix({"none": FastParquetDataset(paths["a"], limit=0)}) as mixed:
        assert len(mixed) == len(list(mixed)) == 0


def test_a_source_without_a_batch_warns_once(paths):
    sources = {**sources_of(paths), "none": FastParquetDataset(paths["a"], limit=0)}
    said = r"source ends epoch [01], after 0 batches. Leave the source out, or pass stop='all' "
    with fastload.mix(sources, [1, 1, 1, 1e9], stop="first") as mixed:
        # A worker's warning is an error here.
        with pytest.raises(UserWarning, match="DataLoader worker process 0(.|\n)*" + said):
            list(DataLoader(mixed, batch_size=None, num_workers=2))
        with pytest.warns(UserWarning, match=f"{said}- at source `none`$"):
            assert not list(mixed)
        assert not list(mixed)


@pytest.mark.parametrize(("weights", "stop"), [(None, "first"), ([1] * 4, "all")])
def test_a_source_without_a_batch_that_ends_nothing(paths, weights, stop):
    sources = {**sources_of(paths), "none": FastParquetDataset(paths["a"], limit=0)}
    with fastload.mix(sources, weights, stop=stop) as mixed:
        assert len(list(mixed)) > 0
