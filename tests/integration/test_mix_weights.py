"""A mix of datasets whose rows have weights: exact counts, resumes, ranks and workers."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from torch.utils.data import DataLoader

import fastload
from fastload import FastParquetDataset
from fastload.plan.mix.mix_plan import _seed_of
from fastload.plan.permutation import stream_key
from fastload.plan.units.weighted import RowWeights, draw_copies
from fastload.testing import assert_resumes_exactly
from support.sample_files import write_sample

if TYPE_CHECKING:
    from pathlib import Path

    from fastload.batch.batch import Batch
    from fastload.dataset.mixes.mix import MixedDataset

ROWS = {"a": 397, "b": 120, "c": 150}
SEEDS = {"a": 0, "b": 1, "c": 2}
WEIGHTS = {
    "a": np.random.default_rng(1).exponential(size=ROWS["a"]),
    "b": np.arange(ROWS["b"]) % 3 * 1.0,
}


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    directory = tmp_path_factory.mktemp("mix")
    return {
        name: write_sample(directory / f"{name}.parquet", rows, 30) for name, rows in ROWS.items()
    }


def mix_of(
    paths: dict[str, Path],
    stop: Any = "all",
    *,
    weights: Any = WEIGHTS,
    mixed: Any = None,
    **options: Any,
) -> MixedDataset:
    options = {"batch_size": 20, "shuffle": True, "shuffle_window": 90, **options}
    sources = {
        name: FastParquetDataset(
            path,
            columns=["id"],
            seed=SEEDS[name],
            weights=weights.get(name),
            threads=1,
            memory_budget="32MB",
            **options,
        )
        for name, path in paths.items()
    }
    return fastload.mix(sources, mixed, 5, stop)


def planned(name: str, epoch: int, seed: int | None = None) -> Counter[int]:
    if name not in WEIGHTS:
        return Counter(range(ROWS[name]))
    found = RowWeights(WEIGHTS[name], "")
    key = stream_key(SEEDS[name] if seed is None else seed, epoch, 4)
    edges = np.array([0, ROWS[name]])
    copies, _ = draw_copies(found.values, edges, found.scale, key)
    mean = found.values * found.scale
    assert ((copies == np.floor(mean)) | (copies == np.ceil(mean))).all()
    return Counter({i: n for i, n in enumerate(copies.tolist()) if n})


def counted(batches: Any) -> dict[str, Counter[int]]:
    found: dict[str, Counter[int]] = {name: Counter() for name in ROWS}
    for batch in batches:
        found[batch.source].update(batch["id"].tolist())
    return found


@pytest.mark.parametrize("shuffle", [False, True])
def test_each_source_has_the_epochs_that_it_has_by_itself(
    paths: dict[str, Path], shuffle: bool
) -> None:
    with mix_of(paths, shuffle=shuffle) as mixed:
        for epoch in range(3):
            expected, batches = len(mixed), list(mixed)
            assert len(batches) == expected
            assert counted(batches) == {name: planned(name, epoch) for name in ROWS}
            for name, path in paths.items():
                alone = FastParquetDataset(
                    path,
                    columns=["id"],
                    batch_size=20,
                    shuffle=shuffle,
                    shuffle_window=90,
                    seed=SEEDS[name],
                    weights=WEIGHTS.get(name),
                )
                alone.set_epoch(epoch)
                own = [b["id"].tolist() for b in batches if b.source == name]
                assert own == [b["id"].tolist() for b in alone]


def test_repetitions_draw_copies_of_their_own(paths: dict[str, Path]) -> None:
    with mix_of(paths, "repeat", mixed=[1, 3, 1]) as mixed:
        expected, batches = len(mixed), list(mixed)
        assert len(batches) == expected
        ids = [i for batch in batches if batch.source == "b" for i in batch["id"].tolist()]
        repetition = 0
        while True:
            own = planned("b", 0, _seed_of(SEEDS["b"], repetition))
            if own.total() > len(ids):
                break
            assert Counter(ids[: own.total()]) == own
            ids = ids[own.total() :]
            repetition += 1
        assert repetition > 1
        assert not Counter(ids) - own


@pytest.mark.parametrize("world", [1, 2, 3])
def test_ranks_share_the_copies(paths: dict[str, Path], world: int) -> None:
    together: dict[str, Counter[int]] = {name: Counter() for name in ROWS}
    orders = set()
    padding = 0
    for rank in range(world):
        with mix_of(paths, uneven="pad", rank=rank, world_size=world) as mixed:
            order = ""
            for batch in mixed:
                order += batch.source
                valid = batch["__valid__"]
                padding += int((~valid).sum())
                together[batch.source].update(batch["id"][valid].tolist())
            assert len(order) == len(mixed)
            orders.add(order)
    assert len(orders) == 1
    assert padding < world * len(ROWS)
    assert together == {name: planned(name, 0) for name in ROWS}


@pytest.mark.parametrize("stop", ["first", "all", "repeat"])
def test_a_mix_with_weights_resumes_exactly(paths: dict[str, Path], stop: str) -> None:
    assert_resumes_exactly(partial(mix_of, paths, stop, mixed=[2, 3, 1]), epoch=2)
    ranked = partial(mix_of, paths, stop, uneven="pad", rank=1, world_size=2)
    assert_resumes_exactly(ranked, epoch=1, after=[3, 11])


def test_a_resume_on_other_ranks_and_workers_delivers_the_rest(paths: dict[str, Path]) -> None:
    seen: list[Batch] = []
    states = []
    for rank in range(2):
        with mix_of(paths, uneven="pad", rank=rank, world_size=2) as mixed:
            begun = list(islice(mixed, 9))
            seen += begun
            states.append(json.loads(json.dumps(mixed.state_dict(after=begun[-1]))))
    assert states[0] == states[1]
    with mix_of(paths, uneven="pad") as mixed:
        mixed.load_state_dict(states[0])
        loader = DataLoader(mixed, batch_size=None, num_workers=2, timeout=60)
        # `list` would ask for the loader's length, which DataLoader then expects of all epochs.
        seen.extend(batch for batch in loader)
        # The epochs after the resumed one.
        assert counted_valid(loader) == {name: planned(name, 1) for name in ROWS}
    assert counted_valid(seen) == {name: planned(name, 0) for name in ROWS}


def counted_valid(batches: Any) -> dict[str, Counter[int]]:
    found: dict[str, Counter[int]] = {name: Counter() for name in ROWS}
    for batch in batches:
        found[batch.source].update(batch["id"][batch["__valid__"]].tolist())
    return found


@pytest.mark.parametrize("context", ["fork", "forkserver", "spawn"])
def test_persistent_workers_deliver_each_epoch(paths: dict[str, Path], context: str) -> None:
    with mix_of(paths) as mixed:
        loader = DataLoader(
            mixed,
            batch_size=None,
            num_workers=2,
            persistent_workers=True,
            multiprocessing_context=context,
            timeout=120,
        )
        for epoch in range(3):
            assert counted(loader) == {name: planned(name, epoch) for name in ROWS}


def test_rows_of_a_step_are_those_of_its_batch(paths: dict[str, Path]) -> None:
    with mix_of(paths, "repeat", mixed=[1, 3, 1]) as mixed:
        for step, batch in enumerate(mixed):
            rows = mixed.rows_of(step)
            assert rows["row"].tolist() == batch["id"].tolist()
            assert set(rows["source"]) == {batch.source}


def test_the_weights_of_a_source_are_a_part_of_its_state(paths: dict[str, Path]) -> None:
    with mix_of(paths) as mixed:
        next(iter(mixed))
        state = mixed.state_dict()
    for weights in ({}, {**WEIGHTS, "a": WEIGHTS["a"] + 1}):
        with (
            mix_of(paths, weights=weights) as other,
            pytest.raises(ValueError, match="Expected weights="),
        ):
            other.load_state_dict(state)
    with mix_of(paths, weights={}) as plain:
        next(iter(plain))
        state = plain.state_dict()
        assert "weights" not in state["sources"][0]["order"]
    with mix_of(paths) as mixed, pytest.raises(ValueError, match="Expected weights=None"):
        mixed.load_state_dict(state)


def test_a_source_keeps_its_weights(paths: dict[str, Path]) -> None:
    dataset = FastParquetDataset(paths["a"], columns=["id"], weights=np.ones(ROWS["a"]))
    dataset.set_weights(WEIGHTS["a"])
    with fastload.mix({"a": dataset}) as mixed:
        with pytest.raises(ValueError, match="source of a mix keeps its weights"):
            dataset.set_weights(np.ones(ROWS["a"]))
        assert counted(mixed)["a"] == planned("a", 0)
