"""Weights of rows: where they come from, how often rows come, and what is refused."""

from __future__ import annotations

import copy
import json
import pickle
from collections import Counter, deque
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import DataLoader

import fastload
from fastload import Cache, FastParquetDataset, Pack, TokenBudget
from fastload.plan.permutation import stream_key
from fastload.plan.units.weighted import RowWeights, draw_copies
from fastload.runtime.native import core

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 3000
WEIGHTS = np.random.default_rng(1).exponential(size=ROWS)
WEIGHTS[::5] = 0


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(tmp_path / "kept"))


def write(directory: Path, weights: Any = WEIGHTS, **columns: Any) -> Path:
    directory.mkdir(exist_ok=True)
    table = pa.table(
        {
            "id": np.arange(ROWS),
            "value": np.random.default_rng(2).random(ROWS, np.float32),
            "text": [f"row {i}" for i in range(ROWS)],
            "items": [list(range(i % 4)) for i in range(ROWS)],
            "weight": weights,
            **columns,
        }
    )
    pq.write_table(table.slice(0, 2000), directory / "0.parquet", row_group_size=600)
    pq.write_table(table.slice(2000), directory / "1.parquet", row_group_size=600)
    return directory


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write(tmp_path / "rows")


def ids(dataset: Any) -> list[int]:
    return [i for batch in dataset for i in batch["id"].tolist()]


def planned(weights: Any, epoch: int, seed: int = 0) -> Counter[int]:
    found = RowWeights(np.asarray(weights, np.float64), "")
    edges = np.array([0, len(weights)])
    key = stream_key(seed, epoch, 4)
    copies, _ = draw_copies(found.values, edges, found.scale, key)
    return Counter({i: n for i, n in enumerate(copies.tolist()) if n})


def test_the_core_draws_the_copies_that_the_plan_defines() -> None:
    rng = np.random.default_rng(3)
    for dtype in (np.float32, np.float64):
        weights = rng.exponential(size=5000).astype(dtype)
        edges = np.array([0, 7, 7, 3000, 5000])
        got = core.draw_copies(weights, edges, 1.7, 12345)
        want = draw_copies(weights, edges, 1.7, 12345)
        assert got[0].dtype == want[0].dtype == np.uint16
        assert (got[0] == want[0]).all()
        assert (got[1] == want[1]).all()
        assert not got[0].flags.writeable  # plans share the memory


@pytest.mark.parametrize("shuffle", [False, True])
def test_each_row_comes_its_mean_rounded_down_or_up(rows: Path, shuffle: bool) -> None:
    dataset = FastParquetDataset(rows, weights="weight", shuffle=shuffle, batch_size=100)
    mean = ROWS * WEIGHTS / WEIGHTS.sum()
    for epoch in range(3):
        got = Counter(ids(dataset))
        assert got == planned(WEIGHTS, epoch)
        count = np.array([got[i] for i in range(ROWS)])
        assert ((count == np.floor(mean)) | (count == np.ceil(mean))).all()


def test_over_epochs_rows_come_as_often_as_their_weights_say() -> None:
    found = RowWeights(WEIGHTS, "")
    mean = ROWS * WEIGHTS / WEIGHTS.sum()
    epochs = 400
    edges = np.array([0, ROWS])
    drawn = [
        core.draw_copies(WEIGHTS, edges, found.scale, stream_key(5, epoch, 4))[0]
        for epoch in range(epochs)
    ]
    extra = np.sum(drawn, axis=0) - epochs * np.floor(mean)
    fraction = mean - np.floor(mean)
    random = (fraction > 0.02) & (fraction < 0.98)
    spread = epochs * fraction * (1 - fraction)
    chi_square = (((extra - epochs * fraction) ** 2) / np.where(random, spread, 1))[random].sum()
    freedom = int(random.sum())
    # Six standard deviations of the chi-square distribution.
    assert abs(chi_square - freedom) < 6 * np.sqrt(2 * freedom)
    # Neighbouring rows, and neighbouring epochs, are drawn independently.
    bits = (np.array(drawn) - np.floor(mean) - fraction)[:, random] / np.sqrt(
        fraction * (1 - fraction)
    )[random]
    for a, b in ((bits[:, 1:], bits[:, :-1]), (bits[1:], bits[:-1])):
        assert abs((a * b).mean()) < 6 / np.sqrt(a.size)


def test_columns_and_arrays_give_the_same_epochs(rows: Path) -> None:
    want = ids(FastParquetDataset(rows, weights="weight", shuffle=True))
    for given in (WEIGHTS, torch.tensor(WEIGHTS), WEIGHTS.tolist(), 3 * WEIGHTS):
        got = ids(FastParquetDataset(rows, weights=given, shuffle=True))
        if given is WEIGHTS:
            assert got == want
        assert len(got) == pytest.approx(len(want), abs=2)
    whole = FastParquetDataset(rows, weights=np.arange(ROWS) % 3)
    assert Counter(ids(whole)) == Counter({i: i % 3 for i in range(ROWS) if i % 3}), (
        "N * w / sum(w) is w itself"
    )


def test_weights_follow_filters_and_split(rows: Path) -> None:
    filters = [("id", ">=", 1000)]
    dataset = FastParquetDataset(rows, weights="weight", filters=filters, columns=["id", "text"])
    assert dataset.num_rows == ROWS - 1000
    want = Counter({i + 1000: n for i, n in planned(WEIGHTS[1000:], 0).items()})
    assert Counter(ids(dataset)) == want
    array = FastParquetDataset(rows, weights=WEIGHTS[1000:], filters=filters, shuffle=True)
    assert Counter(ids(array)) == want
    half = FastParquetDataset(rows, weights="weight", split=("id", 0, 0.5))
    kept = half.take(range(half.num_rows))["id"].numpy()
    got = Counter(ids(half))
    assert got == Counter({int(kept[i]): n for i, n in planned(WEIGHTS[kept], 0).items()})


def test_an_array_has_the_order_of_take(rows: Path) -> None:
    weights = np.zeros(ROWS)
    weights[[7, 2500]] = [1, 2]
    dataset = FastParquetDataset(rows, weights=weights, filters=[("id", "<", ROWS)])
    assert Counter(ids(dataset)) == {7: 1000, 2500: 2000}
    assert dataset.take([7, 2500])["id"].tolist() == [7, 2500]


def test_limit_and_offset_cut_the_sequence_of_copies(rows: Path) -> None:
    arguments: dict[str, Any] = {"weights": "weight", "shuffle": True, "shuffle_window": 500}
    whole = ids(FastParquetDataset(rows, **arguments))
    part = FastParquetDataset(rows, offset=700, limit=1100, batch_size=64, **arguments)
    assert ids(part) == whole[700:1800]
    assert len(part) == -(-1100 // 64)


@pytest.mark.parametrize("filters", [None, [("id", ">", 100)]])
def test_nulls_of_rows_without_weight_are_no_error(tmp_path: Path, filters: Any) -> None:
    gone = np.arange(ROWS) % 3 == 0
    keeps = np.where(gone, 0.0, 1.0)
    holes = pa.array([None if g else i for i, g in enumerate(gone)], pa.int64())
    lists = pa.array([None if g else [i] for i, g in enumerate(gone)], pa.list_(pa.int64()))
    directory = write(tmp_path / "rows", keeps, holes=holes, lists=lists)
    dataset = FastParquetDataset(
        directory,
        columns=["id", "holes", "lists"],
        weights="weight",
        filters=filters or [("id", ">=", 0)],
        shuffle=True,
    )
    for batch in dataset:
        assert (batch["holes"] == batch["id"]).all()
        assert [one.tolist() for one in batch["lists"]] == [[i] for i in batch["id"].tolist()]


@pytest.mark.parametrize(
    ("weight", "said"),
    [(-1.0, "-1.0"), (np.nan, "nan"), (np.inf, "inf")],
)
def test_wrong_weights_are_refused_with_their_place(
    tmp_path: Path, weight: float, said: str
) -> None:
    weights = WEIGHTS.copy()
    weights[2700] = weight
    directory = write(tmp_path / "rows", weights)
    place = rf"got {said}.* - at .*1\.parquet, row group 1, row 100 of the row group"
    with pytest.raises(ValueError, match=place + ", column `weight`"):
        FastParquetDataset(directory, weights="weight")
    with pytest.raises(ValueError, match=place):
        FastParquetDataset(directory, weights=weights)
    kept = FastParquetDataset(directory, weights="weight", filters=[("id", "<", 2700)])
    assert ids(kept)


def test_a_null_weight_is_refused_unless_its_row_is_left_out(tmp_path: Path) -> None:
    for kind in (pa.float64(), pa.int32()):
        weights = pa.array([None if i == 650 else 1 for i in range(ROWS)], kind)
        directory = write(tmp_path / str(kind), weights)
        place = r"got nan \(null counts as nan\) - at .*0\.parquet, row group 1, row 50 "
        with pytest.raises(ValueError, match=place):
            FastParquetDataset(directory, columns=["id"], weights="weight")
        kept = FastParquetDataset(
            directory, columns=["id"], weights="weight", filters=[("id", "!=", 650)]
        )
        assert len(ids(kept)) == ROWS - 1


def test_other_wrong_weights_are_refused(rows: Path) -> None:
    wrong: list[tuple[Any, type[Exception], str]] = [
        (np.zeros(ROWS), ValueError, "sum is positive"),
        (np.full(ROWS, 1e308), ValueError, "finite, and at least 1e-290, got the sum inf of"),
        (np.full(ROWS, 5e-324), ValueError, "at least 1e-290, got the sum 1"),
        (np.ones(5), ValueError, r"each of the 3000 rows .* shape \(5,\)"),
        (np.ones((ROWS, 1)), ValueError, r"shape \(3000, 1\)"),
        (["a"] * ROWS, TypeError, "numbers"),
        ("text", ValueError, "one number a row, got strings - at column `text`"),
        ("items", ValueError, "one number a row, got lists - at column `items`"),
        ("lost", fastload.ColumnNotFoundError, "lost"),
    ]
    for weights, error, said in wrong:
        with pytest.raises(error, match=said):
            FastParquetDataset(rows, weights=weights)
    with pytest.raises(OverflowError, match="inf"):
        RowWeights(np.full(40_000, 1e308), "")  # without a warning
    for beside in (
        {"pack": Pack("items", length=8)},
        {"batch_size": TokenBudget("items", 64)},
        {"on_error": "skip"},
    ):
        with pytest.raises(ValueError, match="beside weights"):
            FastParquetDataset(rows, weights="weight", **beside)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="made without weights"):
        FastParquetDataset(rows).set_weights("weight")


def test_a_row_can_not_come_more_often_than_the_core_counts(tmp_path: Path) -> None:
    many = 70_000
    pq.write_table(pa.table({"id": np.arange(many)}), tmp_path / "many.parquet")
    one = np.zeros(many)
    one[9] = 1
    with pytest.raises(ValueError, match=r"fewer than 65535 times .*got 70000 times .*row 9 "):
        FastParquetDataset(tmp_path / "many.parquet", weights=one)
    one[10] = 1
    dataset = FastParquetDataset(tmp_path / "many.parquet", weights=one, batch_size=999)
    assert Counter(ids(dataset)) == {9: 35_000, 10: 35_000}


def test_weights_of_a_column_are_read_once_for_each_version(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fastload.rows.values import weights

    want = ids(FastParquetDataset(rows, weights="weight"))
    read: list[int] = []
    whole = weights.read_files
    monkeypatch.setattr(weights, "read_files", lambda *a: (read.extend(a[2]), whole(*a))[1])
    assert ids(FastParquetDataset(rows, weights="weight")) == want
    assert read == []
    entries = sorted((tmp_path / "kept").rglob("weights/*"))
    assert len(entries) == 2
    damaged = bytearray(entries[0].read_bytes())
    damaged[40] ^= 1
    entries[0].write_bytes(damaged)
    assert ids(FastParquetDataset(rows, weights="weight")) == want
    assert len(read) == 1


def test_set_weights_counts_from_the_next_epoch_on(rows: Path) -> None:
    dataset = FastParquetDataset(rows, weights="weight", shuffle=True, batch_size=100)
    passing = iter(dataset)
    got = Counter(next(passing)["id"].tolist())
    steps = len(dataset)
    dataset.set_weights(np.arange(ROWS) < 10)  # type: ignore[arg-type]
    assert len(dataset) == steps
    state = json.loads(json.dumps(dataset.state_dict()))
    for batch in passing:
        got.update(batch["id"].tolist())
    assert got == planned(WEIGHTS, 0)
    assert Counter(ids(dataset)) == planned(np.arange(ROWS) < 10, 1)
    resumed = FastParquetDataset(rows, weights="weight", shuffle=True, batch_size=100)
    resumed.load_state_dict(state)
    resumed.set_weights((np.arange(ROWS) < 10) * 1.0)
    assert len(ids(resumed)) == planned(WEIGHTS, 0).total() - 100
    assert Counter(ids(resumed)) == planned(np.arange(ROWS) < 10, 1)


def test_a_prepared_pass_gives_way_to_new_weights(rows: Path) -> None:
    dataset = FastParquetDataset(rows, weights="weight", batch_size=500, threads=2)
    for epoch in range(4):
        assert Counter(ids(dataset)) == planned(WEIGHTS, epoch)
    dataset.set_weights(np.ones(ROWS))
    for _ in range(3):
        assert ids(dataset) == list(range(ROWS))


def test_a_state_of_other_weights_is_refused_by_name(rows: Path) -> None:
    dataset = FastParquetDataset(rows, weights="weight", batch_size=100)
    next(iter(dataset))
    state = dataset.state_dict()
    for other in (None, np.ones(ROWS)):
        with pytest.raises(ValueError, match="Expected weights="):
            FastParquetDataset(rows, weights=other, batch_size=100).load_state_dict(state)
    plain = FastParquetDataset(rows, batch_size=100)
    next(iter(plain))
    with pytest.raises(ValueError, match="Expected weights=None"):
        dataset.load_state_dict(plain.state_dict())
    for hostile in (5, ["x"], {"a": 1}):
        with pytest.raises(ValueError, match="state"):
            dataset.load_state_dict({**state, "order": {**state["order"], "weights": hostile}})


@pytest.mark.parametrize("workers", [1, 2])
def test_worker_processes_deliver_the_same_copies(rows: Path, workers: int) -> None:
    dataset = FastParquetDataset(
        rows, weights="weight", shuffle=True, batch_size=100, columns=["id"]
    )
    loader = DataLoader(dataset, batch_size=None, num_workers=workers)
    assert Counter(ids(loader)) == planned(WEIGHTS, 0)
    dataset.set_weights(np.ones(ROWS))
    assert Counter(ids(loader)) == Counter(range(ROWS))
    seen: Counter[int] = Counter()
    batch = None
    for number, batch in enumerate(loader):
        seen.update(batch["id"].tolist())
        if number == 6:
            break
    assert batch is not None
    rest = FastParquetDataset(
        rows, weights=np.ones(ROWS), shuffle=True, batch_size=100, columns=["id"]
    )
    rest.load_state_dict(dataset.state_dict(after=batch))
    assert seen + Counter(ids(rest)) == Counter(range(ROWS))


def check_counts(got: Counter[int], weights: Any, epoch: int) -> None:
    """Each row came its mean, rounded down or up, and as often as the plan says."""
    mean = ROWS * np.asarray(weights, np.float64) / np.sum(weights)
    count = np.array([got[i] for i in range(ROWS)])
    assert ((count == np.floor(mean)) | (count == np.ceil(mean))).all()
    assert got == planned(weights, epoch)


@pytest.mark.parametrize("context", ["fork", "forkserver", "spawn"])
def test_persistent_workers_begin_the_next_epoch_with_new_weights(rows: Path, context: str) -> None:
    dataset = FastParquetDataset(
        rows, weights="weight", shuffle=True, batch_size=100, columns=["id"], threads=0
    )
    loader = DataLoader(
        dataset,
        batch_size=None,
        num_workers=2,
        persistent_workers=True,
        multiprocessing_context=context,
        timeout=120,
    )
    check_counts(Counter(ids(loader)), WEIGHTS, 0)
    rng = np.random.default_rng(4)
    weights: Any = rng.exponential(size=ROWS).astype(np.float32)
    dataset.set_weights(weights)
    for epoch in range(1, 3):
        check_counts(Counter(ids(loader)), weights, epoch)
    # Weights that come within an epoch count from the next epoch on; the last ones win.
    passing = iter(loader)
    got = Counter(next(passing)["id"].tolist())
    for _ in range(5):
        later = rng.exponential(size=ROWS)
        dataset.set_weights(later)
        got.update(next(passing)["id"].tolist())
    state = dataset.state_dict(after=next(passing))
    for batch in loader:  # begins anew, and ends the pass before
        got = Counter(batch["id"].tolist())
        break
    assert len(dataset._epochs.shared_weights) <= 3
    # A resumed epoch keeps its weights, though the workers have others by now.
    dataset.load_state_dict(state)
    left = planned(weights, 3).total() - 700
    assert sum(len(batch["id"]) for batch in loader) == left
    dataset.set_epoch(9)
    check_counts(Counter(ids(loader)), later, 9)
    # The first weights, which all workers were born with.
    dataset.set_weights(WEIGHTS)
    check_counts(Counter(ids(loader)), WEIGHTS, 10)


def test_a_pass_of_persistent_workers_keeps_its_weights_until_its_end(rows: Path) -> None:
    dataset = FastParquetDataset(rows, weights="weight", batch_size=50, columns=["id"], threads=0)
    loader = DataLoader(dataset, batch_size=None, num_workers=2, persistent_workers=True)
    check_counts(Counter(ids(loader)), WEIGHTS, 0)
    weights: Any = WEIGHTS
    rng = np.random.default_rng(5)
    for epoch in range(1, 5):
        got: Counter[int] = Counter()
        for batch in loader:
            got.update(batch["id"].tolist())
            following = rng.exponential(size=ROWS)
            dataset.set_weights(following)
        check_counts(got, weights, epoch)
        weights = following
    assert len(dataset._epochs.shared_weights) <= 3


def test_persistent_workers_return_to_an_epoch_whose_weights_they_have_forgotten(
    rows: Path,
) -> None:
    dataset = FastParquetDataset(rows, weights="weight", batch_size=50, columns=["id"], threads=0)
    loader = DataLoader(
        dataset, batch_size=None, num_workers=1, persistent_workers=True, timeout=120
    )
    check_counts(Counter(ids(loader)), WEIGHTS, 0)
    weights: Any = np.random.default_rng(6).exponential(size=ROWS)
    dataset.set_weights(weights)
    batches = list(loader)
    state = dataset.state_dict(after=batches[2])
    for epoch in range(2, 6):
        check_counts(Counter(ids(loader)), weights, epoch)
    dataset.load_state_dict(state)
    assert ids(loader) == [i for batch in batches[3:] for i in batch["id"].tolist()]


def test_a_copy_made_in_a_worker_has_the_weights_that_came_later(rows: Path) -> None:
    dataset = FastParquetDataset(rows, weights="weight", columns=["id"], threads=0)
    loader = DataLoader(Copied(dataset), batch_size=None, num_workers=1, persistent_workers=True)
    assert Counter(i for one in loader for i in one) == planned(WEIGHTS, 0)
    dataset.set_weights(np.ones(ROWS))
    assert [i for one in loader for i in one] == list(range(ROWS))


class Copied(torch.utils.data.IterableDataset[list[int]]):
    """Yields the rows of a copy of a dataset, after a pass over the dataset has begun."""

    def __init__(self, dataset: FastParquetDataset) -> None:
        self.dataset = dataset

    def __iter__(self) -> Any:
        begun = iter(self.dataset)
        epoch = next(begun)._position.start.epoch  # type: ignore[union-attr]
        other = copy.copy(self.dataset)
        other.set_epoch(epoch)
        yield ids(other)


def test_cached_row_groups_are_repeated(rows: Path, tmp_path: Path) -> None:
    calls = []

    def double(block: dict[str, Any]) -> dict[str, Any]:
        calls.append(len(block["id"]))
        return {**block, "double": 2 * block["id"]}

    arguments: dict[str, Any] = {
        "weights": "weight",
        "shuffle": True,
        "shuffle_window": 700,
        "batch_size": 64,
        "preprocess": double,
        "provenance": True,
    }
    dataset = FastParquetDataset(rows, cache=Cache(tmp_path / "cache"), **arguments)
    for epoch in range(3):
        got: Counter[int] = Counter()
        for batch in dataset:
            number = batch["id"].numpy()
            assert (batch["double"].numpy() == 2 * number).all()
            assert (batch["__file__"].numpy() * 2000 + batch["__row__"].numpy() == number).all()
            assert [len(one) for one in batch["items"]] == (number % 4).tolist()
            assert list(batch["text"]) == [f"row {i}" for i in number]
            got.update(number.tolist())
        assert got == planned(WEIGHTS, epoch)


def test_copies_and_pickles_deliver_the_same(rows: Path) -> None:
    dataset = FastParquetDataset(rows, weights="weight")
    want = ids(dataset)
    for other in (copy.copy(dataset), pickle.loads(pickle.dumps(dataset))):
        other.set_epoch(0)
        assert ids(other) == want
    assert dataset.head(3)["id"].tolist() == [0, 1, 2]


def test_steps_are_the_same_on_every_number_of_ranks(rows: Path) -> None:
    def steps(world: int) -> list[Counter[int]]:
        passes = [
            FastParquetDataset(
                rows,
                weights="weight",
                shuffle=True,
                global_batch_size=120,
                canonical_ranks=4,
                rank=rank,
                world_size=world,
            )
            for rank in range(world)
        ]
        return [
            Counter(i for batch in batches for i in batch["id"].tolist())
            for batches in zip(*passes, strict=True)
        ]

    assert steps(1) == steps(2) == steps(4)
    together = sum(steps(2), Counter())
    assert not planned(WEIGHTS, 0) - together


def test_augment_gives_copies_of_a_row_the_same_seed(rows: Path) -> None:
    def keep(batch: Any, seeds: Any) -> Any:
        return {"seed": seeds.astype(np.int64)}

    dataset = FastParquetDataset(rows, weights="weight", augment=keep, batch_size=333)
    seeds: dict[int, set[int]] = {}
    for batch in dataset:
        for i, seed in zip(batch["id"].tolist(), batch["seed"].tolist(), strict=True):
            seeds.setdefault(i, set()).add(seed)
    assert all(len(own) == 1 for own in seeds.values())


HEAVY = {
    "numbers": (pa.list_(pa.float32()), np.ones(50_000, np.float32)),
    "words": (pa.string(), "w" * 200_000),
    "lists": (pa.list_(pa.list_(pa.float32())), [np.ones(50, np.float32)] * 1000),
    "lists of words": (pa.list_(pa.string()), ["w" * 20] * 10_000),
}


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("kind", HEAVY)
def test_copies_of_a_long_row_are_refused_before_they_take_more_than_the_budget(
    tmp_path: Path, kind: str, shuffle: bool
) -> None:
    dtype, heavy = HEAVY[kind]
    rows = 2000
    values = pa.array([heavy if i == 7 else heavy[:1] for i in range(rows)], dtype)
    table = pa.table({"id": np.arange(rows), "value": values})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=500)
    weights = np.ones(rows)
    weights[7] = rows  # 1,000 copies of 200 KB
    with FastParquetDataset(
        tmp_path / "a.parquet",
        batch_size=8,
        weights=weights,
        shuffle=shuffle,
        memory_budget="64MB",
        threads=2,
    ) as dataset:
        with pytest.raises(ValueError, match="copies of rows, as `weights` wants them, that take"):
            deque(dataset, maxlen=0)
        dataset.set_weights(np.ones(rows))
        assert sorted(ids(dataset)) == list(range(rows))
