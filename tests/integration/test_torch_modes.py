"""Batches are the same tensors whatever torch's default device, default dtype and mode are."""

import contextlib
import copy

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import DataLoader

import fastload
from fastload import Column, DevicePrefetcher, FastParquetDataset, Hash, Pad, Ragged, Stack, per_row

ROWS = 40
COLUMNS = {
    "x": "x",
    "f": Column("f", fill=1.5, valid=True),
    "half": Column("f", dtype=torch.bfloat16, fill=0),
    "s": "s",
    "l": "l",
    "nested": "nested",
    "fixed": "fixed",
    "hash": Hash("s", 10),
    "padded": Pad("l", 3),
    "stacked": Stack(["x", "f"], dtype=torch.float32, fill=0.5),
}


@contextlib.contextmanager
def default_device():
    """Make "meta" the default device: a tensor that lands there has lost its values."""
    torch.set_default_device("meta")
    try:
        yield
    finally:
        torch.set_default_device(None)


@contextlib.contextmanager
def default_dtype():
    torch.set_default_dtype(torch.bfloat16)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


MODES = [default_device, default_dtype, torch.inference_mode, torch.no_grad]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    table = pa.table(
        {
            "x": pa.array(range(ROWS), pa.int32()),
            "f": [None if row % 3 == 0 else row / 2 for row in range(ROWS)],
            "s": [f"s{row}" for row in range(ROWS)],
            "l": [list(range(row % 4)) for row in range(ROWS)],
            "nested": [[[row] * (row % 3)] * (row % 2) for row in range(ROWS)],
            "fixed": pa.array([[row, 2] for row in range(ROWS)], pa.list_(pa.int64(), 2)),
        }
    )
    path = tmp_path_factory.mktemp("modes") / "a.parquet"
    pq.write_table(table, path, row_group_size=10)
    return path


def doubled(block):
    return {"double": block["x"] * 2, "triple": block["fixed"] * 1.5}


def dataset_of(path, **options):
    options = {"batch_size": 7, "shuffle": True, "uneven": "pad", "provenance": True, **options}
    return FastParquetDataset(path, columns=COLUMNS, rank=0, world_size=3, **options)


def parts_of(value):
    return [value] if isinstance(value, torch.Tensor) else [*parts_of(value.values), value.offsets]


def described(batch):
    """Return dtypes and values of a batch, whose tensors must lie on the CPU."""
    parts = {name: parts_of(value) for name, value in batch.items()}
    assert {part.device.type for some in parts.values() for part in some} == {"cpu"}
    return {
        name: ([part.dtype for part in parts[name]], value.tolist())
        for name, value in batch.items()
    }


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"threads": 0},
        {"filters": [("x", ">", 3)], "split": ("s", 0, 0.7)},
        {"preprocess": [doubled, per_row(lambda x: [x] * (x % 3), "x", "list")]},
        {"preprocess": doubled, "cache": True},
        {"augment": lambda batch, seeds: {"random": seeds.astype("int64")}},
    ],
)
def test_modes_change_no_batch(path, tmp_path, options, mode):
    def epochs(name):
        own = {**options, "cache": tmp_path / name} if "cache" in options else options
        with dataset_of(path, **own) as dataset:
            return [described(batch) for _ in range(2) for batch in dataset]

    expected = epochs("without")
    with mode():
        assert epochs("with") == expected


@pytest.mark.parametrize("mode", MODES)
def test_modes_change_no_mix_and_no_prefetcher(path, mode):
    def batches():
        with dataset_of(path) as dataset:
            sources = {"a": dataset, "b": copy.copy(dataset)}
            ahead = [described(batch) for batch in DevicePrefetcher(dataset, "cpu")]
            with fastload.mix(sources) as mixed:
                return ahead + [described(batch) for batch in mixed]

    expected = batches()
    with mode():
        assert batches() == expected


def summed(loader):
    total = torch.zeros((), dtype=torch.int64)
    for batch in loader:
        total = total + batch["x"].sum() * len(batch["x"])
    return total


def test_a_compiled_loop_gets_the_same_batches(path):
    def sums(loop):
        with dataset_of(path) as dataset:
            rows = FastParquetDataset(path, columns=["x"]).by_index()
            loaders = [
                dataset,
                DevicePrefetcher(dataset, "cpu"),
                fastload.mix({"a": dataset, "b": copy.copy(dataset)}),
                DataLoader(rows, batch_size=4),
            ]
            return [loop(loader) for loader in loaders]

    expected = sums(summed)
    try:
        assert sums(torch.compile(summed, backend="eager")) == expected
    finally:
        torch._dynamo.reset()


def test_a_compiled_function_looks_rows_up(path):
    with dataset_of(path) as dataset:
        rows = dataset.by_index()

        def look_up(number):
            return rows[number]["x"] + dataset.take([number])["x"] + dataset.head(1)["x"]

        expected = look_up(3)
        try:
            assert torch.compile(look_up, backend="eager")(3) == expected
        finally:
            torch._dynamo.reset()


@pytest.mark.parametrize("mode", [default_dtype, torch.inference_mode, torch.no_grad])
def test_modes_change_no_batch_of_workers(path, mode):
    """A forked worker inherits the mode. (DataLoader itself can't start on the device "meta".)"""

    def batches():
        with dataset_of(path) as dataset:
            return [described(b) for b in DataLoader(dataset, batch_size=None, num_workers=2)]

    expected = batches()
    with mode():
        assert batches() == expected


@pytest.mark.parametrize("options", [{}, {"threads": 0}, {"preprocess": doubled}])
def test_a_model_trains_on_the_dataset_that_was_evaluated(path, options):
    with dataset_of(path, **options) as dataset:
        with torch.inference_mode():
            for _ in dataset:
                pass
        for batch in dataset:
            weights = torch.ones(2, requires_grad=True)
            (batch["stacked"] * weights).sum().backward()
            assert weights.grad is not None


@pytest.mark.parametrize("mode", MODES)
def test_rows_of_a_ragged_stay_on_its_device(mode):
    lists = Ragged(torch.arange(6), torch.tensor([0, 2, 3, 6]))
    lists = Ragged(lists, torch.tensor([0, 1, 3]))
    rows = torch.tensor([1, 0])
    with mode():
        for index in ([1, 0], [False, True], rows, rows.numpy(), slice(None, None, -1)):
            assert {part.device.type for part in parts_of(lists[index])} == {"cpu"}
        assert lists[[1, 0]].tolist() == [[[2], [3, 4, 5]], [[0, 1]]]
        assert lists[[False, True]].tolist() == [[[2], [3, 4, 5]]]
        assert lists.to_padded(0).tolist() == [[[0, 1, 0], [0, 0, 0]], [[2, 0, 0], [3, 4, 5]]]
        if mode is not torch.inference_mode:  # torch itself makes no jagged tensor in it
            assert lists.values.to_nested().device.type == "cpu"
