"""Weighted epochs of random datasets, against a plain oracle that shares no code with fastload."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastload import FastParquetDataset
from support.plan_definition import copies_of

if TYPE_CHECKING:
    from pathlib import Path

_CASES = 240


def _weights(kind: str, rows: int, rng: np.random.Generator) -> np.ndarray:  # type: ignore[type-arg]
    if kind == "ones":
        return np.ones(rows)
    if kind == "whole":
        return rng.integers(0, 4, rows).astype(np.float64) + (np.arange(rows) == 0)
    if kind == "sparse":
        return (rng.random(rows) < 0.05) * 1.0 + (np.arange(rows) == rows // 2)
    if kind == "heavy":
        return np.where(rng.random(rows) < 0.01, 40.0, rng.random(rows)) + 1e-9
    return rng.exponential(size=rows) + 1e-9


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, dict[str, Any]]]:
    """Return directories of files, and the columns of their rows."""
    rng = np.random.default_rng(7)
    made = []
    for number, kind in enumerate(["ones", "whole", "sparse", "heavy", "random", "random"]):
        directory = tmp_path_factory.mktemp("rows") / kind
        directory.mkdir()
        rows = int(rng.integers(1, 700))
        columns = {
            "id": np.arange(rows),
            "weight": _weights(kind, rows, rng),
            "part": rng.integers(0, 3, rows),
            "text": [f"{i}" * (i % 3) for i in range(rows)],
        }
        table = pa.table(columns)
        cuts = sorted({0, rows, *rng.integers(0, rows + 1, int(number % 3)).tolist()})
        for first, end in pairwise(cuts):
            pq.write_table(
                table.slice(first, end - first),
                directory / f"{first:04}.parquet",
                row_group_size=int(rng.integers(1, 200)),
            )
        made.append((directory, columns))
    return made


def _ids(batches: list[Any]) -> Counter[int]:
    return Counter(i for batch in batches for i in batch["id"].tolist())


def _check(got: Counter[int], expected: Counter[int], uneven: str, repeats: int) -> None:
    """Check what all ranks delivered, where each rank of each leg adds or leaves out one row."""
    if uneven == "keep":
        assert got == expected
    elif uneven == "drop":
        assert not got - expected
        assert got.total() >= expected.total() - repeats
    else:
        assert not expected - got
        assert got.total() <= expected.total() + repeats


@pytest.mark.parametrize("case", range(_CASES))
def test_all_ranks_and_resumes_deliver_the_planned_copies(
    case: int, files: list[tuple[Path, dict[str, Any]]]
) -> None:
    draw = random.Random(case)
    directory, columns = files[draw.randrange(len(files))]
    part = draw.choice([None, None, 0, 1])
    kept = [i for i, p in enumerate(columns["part"].tolist()) if part is None or p == part]
    if not kept or sum(columns["weight"][kept]) == 0:
        kept, part = list(range(len(columns["id"]))), None
    by_column = draw.random() < 0.5
    weights = [float(columns["weight"][i]) for i in kept]
    if not by_column:
        draw.shuffle(weights)
    seed, epoch = draw.randrange(5), draw.randrange(3)
    arguments: dict[str, Any] = {
        "columns": draw.choice([["id"], ["id", "text"], ["id", "part", "text"]]),
        "batch_size": draw.choice([1, 3, 16, 100]),
        "filters": None if part is None else [("part", "==", part)],
        "shuffle": draw.random() < 0.7,
        "shuffle_window": draw.choice([1, 7, 50, 300]),
        "seed": seed,
        "weights": "weight" if by_column else weights,
        "threads": draw.choice([0, 2]),
    }
    expected = Counter(
        {i: n for i, n in zip(kept, copies_of(weights, seed, epoch), strict=True) if n}
    )
    uneven = draw.choice(["keep", "keep", "wrap", "pad", "drop"])
    world, after = draw.randrange(1, 4), draw.randrange(1, 4)

    def opened(rank: int, world: int) -> FastParquetDataset:
        return FastParquetDataset(
            directory, rank=rank, world_size=world, uneven=uneven, **arguments
        )

    first = [opened(rank, world) for rank in range(world)]
    for dataset in first:
        dataset.set_epoch(epoch)
    most = min(len(dataset) for dataset in first)
    stop = draw.randrange(0, most + 1)
    delivered = []
    if stop == 0:
        delivered = [batch for dataset in first for batch in dataset]
    else:
        for dataset in first:
            passing = iter(dataset)
            delivered += [next(passing) for _ in range(stop)]
        state = first[0].state_dict()
        for rank in range(after):
            dataset = opened(rank, after)
            dataset.load_state_dict(state)
            dataset.set_epoch(epoch)  # also where nothing is left of the epoch
            delivered += dataset
            dataset.close()
    for dataset in first:
        dataset.close()
    _check(_ids(delivered), expected, uneven, world + after)


@pytest.mark.parametrize("case", range(40))
def test_rows_of_names_the_copies_of_each_step(
    case: int, files: list[tuple[Path, dict[str, Any]]]
) -> None:
    draw = random.Random(1000 + case)
    directory, columns = files[draw.randrange(len(files))]
    world = draw.randrange(1, 3)
    slices = draw.choice([None, None, world, 2 * world])
    sizes = {"batch_size": 16} if slices is None else {"global_batch_size": 4 * slices}
    part = draw.choice([None, 0]) if columns["weight"][columns["part"] == 0].sum() else None
    shuffle = draw.random() < 0.7
    for rank in range(world):
        dataset = FastParquetDataset(
            directory,
            columns=["id"],
            filters=None if part is None else [("part", "==", part)],
            weights="weight",
            shuffle=shuffle,
            shuffle_window=60,
            canonical_ranks=slices,
            rank=rank,
            world_size=world,
            provenance=True,
            **sizes,  # type: ignore[arg-type]
        )
        for number, batch in enumerate(dataset):
            rows = dataset.rows_of(number, rank)
            assert rows["row"].tolist() == batch["__row__"].tolist()
            assert rows["file"].tolist() == batch["__file__"].tolist()
