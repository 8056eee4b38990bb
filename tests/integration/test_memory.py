"""The memory of batches: whose it is, how long it lives, and how much there is."""

import ctypes
import gc
import json
import subprocess
import sys
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import DataLoader

from fastload import Column, FastParquetDataset, Ragged, Stack, TokenBudget, kernel
from support.sample_files import sample_table, write_sample

ROWS = 20_000


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("memory") / "sample.parquet", ROWS, 3000)


def tensors_of(batch):
    for value in batch.values():
        if isinstance(value, Ragged):
            yield value.values
            yield value.offsets
        else:
            yield value


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("batch_size", [1, 7, 1000, 1001, ROWS])
def test_tensors_lie_well(path, shuffle, batch_size):
    columns = {
        "wide": Stack(["id", "price"]),
        "id": "id",
        "label": Column("label", valid=True),
        "price": "price",
        "name": "name",
    }
    limit = min(ROWS, 20 * batch_size)
    with FastParquetDataset(
        path, columns=columns, batch_size=batch_size, shuffle=shuffle, limit=limit, threads=2
    ) as dataset:
        for batch in dataset:
            tensors = list(tensors_of(batch))
            assert all(tensor.is_contiguous() for tensor in tensors)
            assert all(tensor.data_ptr() % 64 == 0 for tensor in tensors)
            storages = {tensor.untyped_storage().data_ptr() for tensor in tensors}
            assert len(storages) == 1
            assert not any(tensor.requires_grad for tensor in tensors)


def test_batches_do_not_share_memory(path):
    with FastParquetDataset(path, batch_size=500, threads=2, shuffle=True) as dataset:
        batches = list(dataset)
    assert len({batch["id"].untyped_storage().data_ptr() for batch in batches}) == len(batches)
    batches[0]["id"].fill_(-1)
    assert all((batch["id"] >= 0).all() for batch in batches[1:])


@pytest.mark.parametrize("shuffle", [False, True])
def test_values_outlive_everything(path, shuffle):
    """One column of each batch is kept, while dataset and loader go and memory is reused."""
    dataset = FastParquetDataset(path, batch_size=700, threads=2, shuffle=shuffle)
    loader = DataLoader(dataset, batch_size=None)
    running = iter(loader)
    kept, want = [], []
    for batch in running:
        kept.append(batch["price"])
        want.append(batch["price"].clone())
        del batch
    for _ in dataset:
        pass
    dataset.close()
    del dataset, loader, running
    gc.collect()
    with FastParquetDataset(path, batch_size=700, threads=2) as other:
        list(other)
    assert all(torch.equal(a, b) for a, b in zip(kept, want, strict=True))


@pytest.mark.parametrize("workers", [0, 2])
def test_keeping_more_than_the_budget(path, workers):
    """Batches that are kept become copies, with one warning, and their values are right."""
    budget = 200_000
    table = sample_table(ROWS)
    assert table.nbytes > 2 * budget
    with FastParquetDataset(path, batch_size=100, threads=1, memory_budget=budget) as dataset:
        loader = DataLoader(dataset, batch_size=None, num_workers=workers)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            batches = list(loader)
        said = [str(w.message) for w in caught if "memory_budget=200000" in str(w.message)]
        if workers == 0:
            assert len(said) == 1
            assert ".clone()" in said[0]
            assert 0 < dataset.stats().copied_batches < len(batches)
    rows = torch.cat([batch["id"] for batch in batches])
    assert sorted(rows.tolist()) == list(range(ROWS))
    for batch in batches:
        ids = batch["id"].numpy()
        assert (batch["price"].numpy() == table["price"].to_numpy()[ids]).all()
        assert batch["name"].tolist() == [f"row {k}" for k in ids]


@pytest.mark.parametrize("shuffle", [False, True])
def test_least_budget_makes_no_copies_of_batches_that_are_let_go(path, shuffle):
    options = {"batch_size": 100, "shuffle": shuffle, "shuffle_window": 2000, "threads": 1}
    with pytest.raises(ValueError, match="Expected a memory_budget") as refused:
        FastParquetDataset(path, memory_budget=1, **options)
    least = int(str(refused.value).split(" bytes")[0].split()[-1])
    with pytest.raises(ValueError, match="Expected a memory_budget"):
        FastParquetDataset(path, memory_budget=least - 1, **options)
    with FastParquetDataset(path, memory_budget=least, **options) as dataset:
        assert sum(batch.rows for batch in dataset) == ROWS
        assert dataset.stats().copied_batches == 0


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("threads", [0, 2])
def test_steady_state_allocates_nothing(path, shuffle, threads):
    with FastParquetDataset(
        path,
        columns=["id", "label", "price"],
        batch_size=512,
        shuffle=shuffle,
        shuffle_window=5000,
        threads=threads,
    ) as dataset:
        # With threads, how much is open at once depends on timing: on a busy machine the most that
        # is ever open may come late. Then nothing more is taken, where a leak goes on taking.
        allocations, passes_without = [0], 0
        while passes_without < 5:
            assert len(allocations) < 100, allocations
            for _ in dataset:
                pass
            allocations.append(dataset.stats().memory_allocations)
            grew = allocations[-1] > allocations[-2]
            assert not grew or threads or len(allocations) <= 5, allocations
            passes_without = 0 if grew else passes_without + 1


PEAK = """
import json, sys
import pyarrow, torch, fastload
from pathlib import Path

def kib(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1])

options = json.loads(sys.argv[1])
Path("/proc/self/clear_refs").write_text("5")  # forgets the peak of the imports
before = kib("VmRSS")
rows = 0
with fastload.FastParquetDataset(threads=2, **options) as dataset:
    for batch in dataset:
        rows += batch.rows
print(json.dumps([rows, (kib("VmHWM") - before) * 1024]))
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """160 MB once decoded; little on disk, so that it is quick to make."""
    rng = np.random.default_rng(0)
    rows = 4_000_000
    numbers = pa.array(rng.integers(0, 500, rows))
    path = tmp_path_factory.mktemp("large") / "large.parquet"
    pq.write_table(pa.table({f"c{k}": numbers for k in range(5)}), path, row_group_size=500_000)
    return str(path)


@pytest.mark.parametrize("options", [{}, {"shuffle": True, "shuffle_window": 200_000}])
def test_peak_memory_keeps_to_the_budget(large, options):
    budget = 40 << 20
    rows, peak = measure({"source": large, "memory_budget": budget, "batch_size": 4096, **options})
    assert rows == 4_000_000
    # Beside the budget: code that is run for the first time, stacks, and malloc's own.
    assert peak < budget + (12 << 20), f"{peak / 2**20:.1f} MiB"


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("batch_size", [1, 3, TokenBudget("items", 8)], ids=str)
def test_small_batches_keep_to_the_budget(tmp_path, shuffle, batch_size):
    """One buffer for each would take 4 KiB a batch: 160 MB for batches of one row."""
    rows, budget = 40_000, 16 << 20
    table = pa.table(
        {
            "id": np.arange(rows),
            "text": [f"row {i}" for i in range(rows)],
            "items": [[i] * (i % 4) for i in range(rows)],
            "nested": [[[i], [], [i, 1]][: i % 4] for i in range(rows)],
            "fixed": pa.FixedSizeListArray.from_arrays(pa.array(np.repeat(np.arange(rows), 3)), 3),
            "some": pa.array(np.arange(rows, dtype=np.int16), mask=np.arange(rows) % 3 == 0),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=15_000)
    columns = {name: name for name in ("id", "text", "items", "nested", "fixed")}
    columns["some"] = Column("some", fill=0, valid=True)
    expected = table.set_column(5, "some", pc.fill_null(table["some"], 0))
    delivered, held = [], 0
    with FastParquetDataset(
        tmp_path / "a.parquet",
        columns=columns,
        batch_size=batch_size,
        shuffle=shuffle,
        memory_budget=budget,
        threads=2,
    ) as dataset:
        for number, batch in enumerate(dataset):
            if number % 50 == 0:
                held = max(held, dataset._engine.pipeline.memory[2])
                assert batch["id"].data_ptr() % 64 == 0
                delivered += batch.to_arrow().to_pylist()
            assert batch["items"].values.numel() <= 8 or batch_size in (1, 3)
            assert batch.rows == 1 or batch_size != 1
    assert held < budget
    ids = [row["id"] for row in delivered]
    valid = table["some"].is_valid()
    wanted = expected.append_column("some__valid", valid).take(ids).to_pylist()
    assert [{name: row[name] for name in wanted[0]} for row in delivered] == wanted


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("batch", [{"global_batch_size": 8}, {"batch_size": TokenBudget("t", 4)}])
def test_small_parts_of_slices_keep_to_the_budget(tmp_path, shuffle, batch):
    """The rows that a slice has in a batch wait in a buffer of their own."""
    table = pa.table({"t": [[i] * (i % 3) for i in range(40_000)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=15_000)
    budget, held = 16 << 20, 0
    options = {"canonical_ranks": 8, "shuffle": shuffle, "memory_budget": budget, **batch}
    if shuffle:
        with pytest.raises(ValueError, match="the largest shuffle_window that fits is") as refused:
            FastParquetDataset(tmp_path, **options)
        options["shuffle_window"] = int(str(refused.value).split()[-1])
    with FastParquetDataset(tmp_path, threads=1, **options) as dataset:
        for _ in dataset:
            held = max(held, dataset._engine.pipeline.memory[2])
    assert held < budget


@pytest.mark.parametrize("shuffle", [False, True])
def test_kernels_see_small_batches_one_by_one(tmp_path, shuffle):
    pq.write_table(pa.table({"id": np.arange(3000)}), tmp_path / "a.parquet")

    @kernel("id", {"rows": "int64"})
    def count(ids, rows):
        rows[:] = len(ids)

    with FastParquetDataset(
        tmp_path / "a.parquet", batch_size=7, shuffle=shuffle, preprocess=count, threads=2
    ) as dataset:
        rows = [row for batch in dataset for row in batch["rows"].tolist()]
    assert rows == [7] * 2996 + [4] * 4


def test_windows_that_cut_pages_of_many_columns_keep_one_of_each(tmp_path):
    rows, columns, page_bytes = 80_000, 400, 80_000
    path = str(tmp_path / "many.parquet")
    numbers = np.random.default_rng(0).random(rows, np.float32)
    table = pa.table({f"c{k}": numbers for k in range(columns)})
    pq.write_table(table, path, row_group_size=20_000, use_dictionary=False)
    budget = 24 << 20
    got, peak = measure({"source": path, "memory_budget": budget, "batch_size": 2048})
    assert got == rows
    # Of each column, the page that is being decoded, decompressed alone, and as much as that for
    # its reader and fragments of the heap.
    assert peak < budget + 3 * columns * page_bytes, f"{peak / 2**20:.1f} MiB"


def measure(options):
    """Rows of a pass in a process of its own, and by how many bytes its memory grew at most."""
    done = subprocess.run(
        [sys.executable, "-c", PEAK, json.dumps(options)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


MEMORY_OF_THE_NEXT_DATASET = """
import json, os, sys
from fastload import FastParquetDataset

def memory_of_three(path):
    with FastParquetDataset(path, batch_size=100_000, threads=2) as dataset:
        begun = dataset.stats().memory.spare
        for batch in dataset:
            pass
        del batch
    # One narrow column takes a small part of the memory that the first dataset leaves.
    with FastParquetDataset(path, columns=["id"], batch_size=100, threads=2) as dataset:
        next(iter(dataset))
        large = dataset.stats().memory
    with FastParquetDataset(
        path, columns=["id"], batch_size=100, threads=2, memory_budget="2MB"
    ) as dataset:
        next(iter(dataset))
        small = dataset.stats().memory
    return begun, large.spare, large.total, small.spare

found = [memory_of_three(sys.argv[1])]
reading, writing = os.pipe()
if os.fork() == 0:
    os.write(writing, json.dumps(memory_of_three(sys.argv[1])).encode())
    os._exit(0)
found.append(json.loads(os.read(reading, 1000)))
os.wait()
print(json.dumps(found))
"""


def test_memory_of_a_closed_dataset_serves_the_next(tmp_path):
    """A process keeps memory between datasets, within the budgets; a fork begins with none."""
    path = write_sample(tmp_path / "a.parquet", 100_000, 20_000)
    done = subprocess.run(
        [sys.executable, "-c", MEMORY_OF_THE_NEXT_DATASET, str(path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    for before, large, total, small in json.loads(done.stdout):
        assert before == 0
        assert 0 < large <= min(total, 64 << 20)
        assert small <= 2_000_000 < large


HELD_OF_FOOTERS = """
import ctypes, gc, sys
import torch, fastload.source.footers
from fastload import FastParquetDataset

fields = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()

class Allocated(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in fields]

of_heap = ctypes.CDLL(None).mallinfo2
of_heap.restype = Allocated

def allocated():
    gc.collect()
    found = of_heap()
    return found.uordblks + found.hblkhd

fastload.source.footers._UNPACKED_BYTES = 0  # all footers are packed
with FastParquetDataset(sys.argv[1], batch_size=100):
    pass  # code that runs for the first time
before = allocated()
with FastParquetDataset(sys.argv[1], batch_size=100, threads=1) as dataset:
    print(allocated() - before)
    for batch in dataset:
        pass
    del batch
    print(allocated() - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="counts glibc's heap")
@pytest.mark.parametrize(("groups", "metadata_bytes"), [(10_000, 0), (100, 1 << 20)])
def test_packed_footers_take_little_memory(tmp_path, groups, metadata_bytes):
    """Neither what was parsed stays, nor a copy of a file's metadata for each row group."""
    path = tmp_path / "a.parquet"
    table = pa.table({"a": range(groups)})
    table = table.replace_schema_metadata({"of file": "x" * metadata_bytes})
    pq.write_table(table, path, row_group_size=1)
    done = subprocess.run(
        [sys.executable, "-c", HELD_OF_FOOTERS, str(path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    opened, read = map(int, done.stdout.split())
    assert opened < (4 << 20) + 8 * metadata_bytes
    assert read < 160 << 20
