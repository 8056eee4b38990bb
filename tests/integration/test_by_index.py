"""Rows by number: `take`, and the map-style view in what torch and others do with one."""

import copy
import multiprocessing
import operator
import os
import pickle
import threading
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    RandomSampler,
    Subset,
    WeightedRandomSampler,
    random_split,
)

from fastload import (
    Batch,
    Column,
    CorruptFileError,
    FastParquetDataset,
    NullValueError,
    kernel,
)
from fastload.dataset.lookup import checked_indices
from fastload.testing import assert_same_batches
from support.sample_files import sample_table, write_sample

ROWS = 1000
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("rows") / "sample.parquet", ROWS)


@pytest.fixture
def dataset(path):
    with FastParquetDataset(path, threads=1, memory_budget="64MB") as dataset:
        yield dataset


def test_forms_of_indices(dataset):
    for indices in ([3, -1, 3], (3, 999, 3), np.array([3, -1, 3], np.int16)):
        assert dataset.take(indices)["id"].tolist() == [3, 999, 3]
    assert dataset.take(torch.tensor([3, 999]))["id"].tolist() == [3, 999]
    assert dataset.take(np.array([3, 999], np.uint64))["id"].tolist() == [3, 999]
    assert dataset.take(range(990, 1000))["name"][3] == "row 993"
    batch = dataset.take([])
    assert batch.rows == 0
    assert {n: v.dtype for n, v in batch.items()} == {
        n: v.dtype for n, v in dataset.take([0]).items()
    }


def test_few_long_rows_need_little_memory(tmp_path):
    texts = [str(k) * 50_000 for k in range(100)]
    table = pa.table({"text": texts})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=10, use_dictionary=False)
    with FastParquetDataset(tmp_path, batch_size=2, memory_budget="8MB", threads=1) as dataset:
        assert next(iter(dataset))["text"].tolist() == texts[:2]
        assert dataset.take([99, 0])["text"].tolist() == [texts[99], texts[0]]
        assert dataset.by_index()[50]["text"] == texts[50]


def test_no_rows_of_a_dataset_without_rows(path):
    with FastParquetDataset(path, filters=[("id", "<", 0)]) as dataset:
        for indices in ([], torch.zeros(0, dtype=torch.int64)):
            with pytest.raises(ValueError, match="Expected a dataset with rows, got one without"):
                dataset.take(indices)
        with pytest.raises(IndexError, match="the dataset has 0 rows"):
            dataset.take([0])


@pytest.mark.parametrize("index", [ROWS, -ROWS - 1, 2**62, np.uint64(2**64 - 1)])
def test_rows_that_do_not_exist(dataset, index):
    with pytest.raises(IndexError, match=rf"got {index}: the dataset has {ROWS} rows"):
        dataset.take(np.array([0, index]) if isinstance(index, int) else np.array([index]))
    with pytest.raises(IndexError):
        dataset.by_index()[index]


@pytest.mark.parametrize(
    "indices",
    [
        range(7),
        range(990, ROWS),
        range(-3, 3),
        range(9, -9, -2),
        range(5, 5),
        range(7, 8, 10**30),
        range(ROWS - 1, -ROWS - 1, -1),
    ],
)
def test_a_range_is_the_list_of_its_numbers(indices):
    expected = [n % ROWS for n in indices]
    found = checked_indices(indices, ROWS)
    assert found.dtype == np.int64
    assert found.tolist() == expected


@pytest.mark.parametrize(
    ("indices", "missing"),
    [
        (range(10**30), 10**30 - 1),
        (range(-(10**12), 5), -(10**12)),
        (range(ROWS + 1), ROWS),
        (range(0, -ROWS - 2, -1), -ROWS - 1),
    ],
)
def test_a_range_with_rows_that_do_not_exist_makes_no_list(dataset, indices, missing):
    tracemalloc.start()
    try:
        with pytest.raises(IndexError, match=rf"got {missing}: the dataset has {ROWS} rows"):
            dataset.take(indices)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_long_range_makes_no_object_for_each_number():
    rows = 200_000
    tracemalloc.start()
    try:
        checked_indices(range(rows), rows)
        assert tracemalloc.get_traced_memory()[1] < 24 * rows
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("indices", [3, 3.5, [0.5], [True, False], [[1]], ["1"], None])
def test_what_is_no_list_of_numbers(dataset, indices):
    with pytest.raises(TypeError, match="Expected the numbers of rows as a list"):
        dataset.take(indices)


@pytest.mark.parametrize(
    ("indices", "way_out"),
    [
        (slice(0, 3), "write range"),
        (np.array([True, False]), "write mask.nonzero"),
        (torch.tensor([True, False]), "write mask.nonzero"),
    ],
)
def test_slices_and_masks_are_told_how_to_become_numbers(dataset, indices, way_out):
    with pytest.raises(TypeError, match=way_out):
        dataset.take(indices)
    with pytest.raises(TypeError, match=way_out):
        dataset.by_index()[indices]


def test_passes_go_on(path):
    with FastParquetDataset(path, batch_size=64, shuffle=True, threads=2) as dataset:
        whole = [batch.clone() for batch in dataset]
        dataset.set_epoch(0)
        batches = []
        for batch in dataset:
            batches.append(batch.clone())
            assert dataset.take([5, 2])["id"].tolist() == [5, 2]
            assert dataset.state_dict(after=batch)["epoch"] == 0
        assert_same_batches(batches, whole)


def test_a_closed_dataset_has_no_rows(path):
    dataset = FastParquetDataset(path)
    batch = dataset.take([7])
    view = dataset.by_index()
    dataset.close()
    assert batch["id"].tolist() == [7]
    for call in (lambda: dataset.take([7]), lambda: view[7], lambda: view.__getitems__([7])):
        with pytest.raises(RuntimeError, match="closed"):
            call()


def test_limit_and_rank_play_no_part(path):
    with FastParquetDataset(path, limit=10, rank=1, world_size=4, uneven="pad") as dataset:
        batch = dataset.take([999])
        assert batch["id"].tolist() == [999]
        assert batch["__valid__"].tolist() == [True]
        assert list(batch) == list(dataset.schema)


def test_many_rows_and_repeats(tmp_path):
    """More rows than a bucket of a shuffle holds, from many row groups."""
    path = write_sample(tmp_path / "many.parquet", 100_000, 3_001)
    rng = np.random.default_rng(0)
    with FastParquetDataset(path, provenance=True) as dataset:
        for asked in (rng.permutation(100_000), rng.integers(0, 100_000, 150_000)):
            batch = dataset.take(asked)
            assert (batch["id"].numpy() == asked).all()
            assert (batch["__row__"].numpy() == asked).all()
            assert batch["name"][77_777] == f"row {asked[77_777]}"


def test_threads_take_at_once(dataset):
    rng = np.random.default_rng(0)
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(20):
            asked = rng.integers(0, ROWS, 50)
            batch = dataset.take(asked)
            if batch["id"].tolist() != asked.tolist():
                wrong.append(asked)

    threads = [threading.Thread(target=work, args=(int(rng.integers(99)),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert not wrong


def doubled(block):
    block["twice"] = block["id"] * 2
    return block


def shifted(batch, seeds):
    return {"id": batch["id"] + 1000 + seeds.size * 0}


def test_preprocess_runs_and_augment_does_not(path):
    with FastParquetDataset(path, preprocess=doubled, augment=shifted) as dataset:
        batch = dataset.take([4, 900, 4])
        assert batch["id"].tolist() == [4, 900, 4]
        assert batch["twice"].tolist() == [8, 1800, 8]
        assert "__row__" not in batch


def test_kernels_run(path):
    @kernel(inputs=["id"], outputs={"half": torch.float32})
    def half(number, out):
        for i in range(len(number)):
            out[i] = number[i] / 2

    with FastParquetDataset(path, columns=["id"], preprocess=half) as dataset:
        assert dataset.take([4, 901])["half"].tolist() == [2.0, 450.5]


def test_nulls_raise_as_in_a_pass(tmp_path):
    path = tmp_path / "nulls.parquet"
    table = pa.table({"a": pa.array([1, None, 3]), "keep": [1, 1, 1]})
    pq.write_table(table, path)
    with FastParquetDataset(path, filters=[("keep", "==", 1)]) as dataset:
        assert dataset.take([2, 0])["a"].tolist() == [3, 1]
        with pytest.raises(NullValueError, match=r"nulls.parquet, row group 0, column `a`"):
            dataset.take([0, 1])
    with FastParquetDataset(path, columns=[Column("a", fill=-5)]) as dataset:
        assert dataset.take([1, 1, 0])["a"].tolist() == [-5, -5, 1]


def test_corrupt_row_groups_raise(tmp_path):
    path = tmp_path / "corrupt.parquet"
    write_sample(path, 400, 100, compression="zstd", use_dictionary=False)
    chunk = pq.read_metadata(path).row_group(2).column(0)
    data = bytearray(path.read_bytes())
    start = chunk.data_page_offset
    data[start + 40 : start + chunk.total_compressed_size] = b"x" * (
        chunk.total_compressed_size - 40
    )
    path.write_bytes(data)
    for on_error in ("raise", "skip"):
        with FastParquetDataset(path, on_error=on_error) as dataset:
            assert dataset.take([0, 399])["id"].tolist() == [0, 399]
            with pytest.raises(CorruptFileError, match="row group 2, column `id`"):
                dataset.take([0, 250])


# The view -----------------------------------------------------------------------------


def test_items_of_the_view(dataset):
    view = dataset.by_index()
    assert len(view) == ROWS
    row = view[-1]
    assert type(row) is dict
    assert row["id"].item() == 999
    assert row["id"].ndim == 0
    assert row["name"] == "row 999"
    assert view[np.int64(3)]["id"].item() == view[torch.tensor(3)]["id"].item() == 3
    batch = view[[5, 1]]
    assert isinstance(batch, Batch)
    assert batch["id"].tolist() == [5, 1]
    with FastParquetDataset(dataset.files[0]) as plain:
        expected = next(next(iter(plain)).iter_rows())
    assert {n: type(v) for n, v in view[0].items()} == {n: type(v) for n, v in expected.items()}
    with pytest.raises(TypeError):
        view["id"]


def ids_of(loader):
    ids = []
    for batch in loader:
        assert type(batch) is Batch
        assert [f"row {i}" for i in batch["id"].tolist()] == batch["name"].tolist()
        ids += batch["id"].tolist()
    return ids


def test_loader_hands_out_batches(dataset):
    view = dataset.by_index()
    assert ids_of(DataLoader(view, batch_size=32)) == list(range(ROWS))
    assert sorted(ids_of(DataLoader(view, batch_size=32, shuffle=True))) == list(range(ROWS))
    sampler = BatchSampler(RandomSampler(view), 64, drop_last=True)
    ids = ids_of(DataLoader(view, batch_size=None, sampler=sampler))
    assert len(set(ids)) == len(ids) == ROWS // 64 * 64
    weights = torch.zeros(ROWS, dtype=torch.float64)
    weights[[3, 500]] = 1
    sampler = WeightedRandomSampler(weights, 200)
    assert set(ids_of(DataLoader(view, batch_size=32, sampler=sampler))) == {3, 500}


def test_subsets(dataset):
    view = dataset.by_index()
    generator = torch.Generator().manual_seed(0)
    first, second = random_split(view, [0.8, 0.2], generator)
    ids = [ids_of(DataLoader(part, batch_size=50)) for part in (first, second)]
    assert len(ids[0]) == 800
    assert sorted(ids[0] + ids[1]) == list(range(ROWS))
    inner = Subset(Subset(view, range(0, ROWS, 10)), [3, 1, 3])
    assert ids_of(DataLoader(inner, batch_size=2)) == [30, 10, 30]
    assert inner[1]["id"].item() == 10


def names_of(rows):
    return [(row["id"].item(), row["name"]) for row in rows]


def test_collate_fn_gets_rows(dataset):
    view = dataset.by_index()
    loader = DataLoader(view, batch_size=300, collate_fn=names_of)
    assert [name for batch in loader for name in batch] == [(i, f"row {i}") for i in range(ROWS)]
    rows = view.__getitems__([4, 5, 6])
    assert len(rows) == 3
    assert [row["id"].item() for row in rows[1:]] == [5, 6]
    assert rows[-1]["name"] == "row 6"
    with pytest.raises(IndexError):
        rows[3]
    assert operator.attrgetter("batch")(rows).rows == 3


def test_rows_of_others_beside_them(path, dataset):
    """ConcatDataset asks for row by row, which torch collates itself."""
    with FastParquetDataset(path, columns=["id", "price"]) as other:
        both = ConcatDataset([Subset(other.by_index(), [1, 2]), other.by_index()])
        batch = next(iter(DataLoader(both, batch_size=4)))
        assert batch["id"].tolist() == [1, 2, 0, 1]
        rows = list(other.by_index().__getitems__([8, 9]))
        mixed = torch.utils.data.default_collate(rows)
        assert mixed["id"].tolist() == [8, 9]


@pytest.mark.parametrize("context", ["fork", "forkserver", "spawn"])
def test_workers(dataset, context):
    view = dataset.by_index()
    view[0]  # the engine of this process is not that of its children
    loader = DataLoader(
        view,
        batch_size=32,
        shuffle=True,
        num_workers=2,
        multiprocessing_context=context,
        persistent_workers=True,
        timeout=TIMEOUT_S,
    )
    kept = list(loader)
    assert sorted(ids_of(kept)) == list(range(ROWS))
    assert sorted(ids_of(loader)) == list(range(ROWS))
    assert sorted(ids_of(kept)) == list(range(ROWS))


def test_workers_run_steps(path):
    with FastParquetDataset(path, preprocess=doubled, threads=1) as dataset:
        loader = DataLoader(dataset.by_index(), batch_size=100, num_workers=1, timeout=TIMEOUT_S)
        twice = [n for batch in loader for n in batch["twice"].tolist()]
        assert twice == list(range(0, 2 * ROWS, 2))


def item_of(view, results):
    results.put(view[17]["id"].item())


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_other_processes(dataset, context):
    view = dataset.by_index()
    assert view[17]["id"].item() == 17
    processes = multiprocessing.get_context(context)
    results = processes.SimpleQueue()
    child = processes.Process(target=item_of, args=(view, results))
    child.start()
    assert results.get() == 17
    child.join(TIMEOUT_S)
    assert child.exitcode == 0


def test_copies(dataset):
    view = dataset.by_index()
    view[0]
    for copied in (copy.deepcopy(view), pickle.loads(pickle.dumps(view))):
        assert copied[5]["name"] == "row 5"
    assert "1000 rows" in repr(view)


def test_rows_equal_those_of_the_table(dataset):
    table = sample_table(ROWS)
    for i, row in zip(
        (0, 500, 999), map(dataset.by_index().__getitem__, (0, 500, 999)), strict=True
    ):
        want = table.slice(i, 1).to_pylist()[0]
        got = {n: v.item() if isinstance(v, torch.Tensor) else v for n, v in row.items()}
        assert got == want


def test_a_take_larger_than_the_budget_is_no_copy(tmp_path):
    """A copy would need the memory of the batch twice; the core frees it with the batch."""
    numbers = np.random.default_rng(0).random(1_000_000)
    pq.write_table(pa.table({"number": numbers}), tmp_path / "a.parquet", row_group_size=100_000)
    asked = np.random.default_rng(1).permutation(len(numbers))
    with FastParquetDataset(tmp_path, threads=1, memory_budget="4MiB") as dataset:
        batch = dataset.take(asked)
        pipeline = dataset._taker._made[os.getpid()].pipeline
        assert pipeline.lent_bytes >= numbers.nbytes
        assert (batch["number"].numpy() == numbers[asked]).all()
        del batch
        assert pipeline.lent_bytes == 0
        assert sum(pipeline.memory[:3]) < 4 << 20
