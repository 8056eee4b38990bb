"""kernel: what batches hold after compiled steps, in every way of reading."""

import ctypes
import json
import pickle
import re
from functools import partial
from itertools import islice
from multiprocessing import forkserver

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

import fastload
from fastload import Batch, Column, DevicePrefetcher, FastParquetDataset, kernel
from fastload.plan.permutation import stream_key
from fastload.steps.code_digest import code_digest
from fastload.steps.kernel_code import counts
from fastload.steps.kernel_entry import Argument
from fastload.testing import assert_ranks_agree, assert_resumes_exactly, assert_same_batches
from support.damage import damage, write_groups
from support.kernel_samples import (
    label_as_float,
    letters,
    noisy,
    refuses,
    scaled,
    spins,
    value,
    widen,
)
from support.sample_files import ids_of, sample_table, write_sample

pytestmark = pytest.mark.filterwarnings("ignore:Row group .* is left out")

ROWS = 500
STEPS = [value, widen, scaled, letters, label_as_float]
TABLE = sample_table(ROWS)
PRICE, LABEL = (TABLE[name].to_numpy() for name in ("price", "label"))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("kernels") / "a.parquet", ROWS, 70)


def dataset_of(path, preprocess=STEPS, augment=noisy, **options):
    options = {"batch_size": 40, "threads": 2, "memory_budget": "64MB", **options}
    return FastParquetDataset(path, preprocess=preprocess, augment=augment, **options)


def check(batch, seed=0, epoch=0):
    """What STEPS and noisy make of rows of the sample, which is one file."""
    ids = batch["id"].numpy()
    values = ids * 10 + PRICE[ids]
    seeds = np.array([stream_key(seed, epoch, 3, 0, 0, k) for k in ids.tolist()], np.uint64)
    assert np.array_equal(batch["value"], values)
    assert np.array_equal(
        batch["wide"], np.stack([values.astype(np.int32), LABEL[ids], 0 * ids], axis=1)
    )
    assert np.array_equal(batch["flag"], LABEL[ids] == 1)
    assert np.array_equal(batch["label"], LABEL[ids].astype(np.float64))
    assert batch["label"].dtype == torch.float64
    assert np.array_equal(batch["letters"], [len(name) for name in batch["name"].tolist()])
    assert np.array_equal(batch["seed"].numpy(), seeds)
    noise = ((seeds >> np.uint64(40)) * 2.0**-24).astype(np.float32)
    assert np.array_equal(batch["price"], PRICE[ids] * 2 + noise)


NAMES = ["id", "price", "name", "value", "wide", "flag", "letters", "label", "seed"]


@pytest.mark.parametrize(
    ("workers", "options"),
    [
        (0, {}),
        (0, {"threads": 0, "batch_size": 64}),
        (0, {"shuffle": True, "seed": 7, "shuffle_window": 130}),
        (2, {"shuffle": True, "seed": 7}),
        (0, {"preprocess": [lambda block: {"id": block["id"]}, *STEPS]}),
        (0, {"augment": [noisy, lambda batch, seeds: {}]}),
    ],
)
def test_batches_after_kernels(path, workers, options):
    """By the core, and by the thread that asks where a step of Python's comes before them."""
    with dataset_of(path, **options) as dataset:
        loader = DataLoader(dataset, batch_size=None, num_workers=workers)
        for epoch in range(2):
            batches = list(loader)
            assert [type(batch) for batch in batches] == [Batch] * len(dataset)
            assert sorted(ids_of(batches)) == list(range(ROWS))
            for batch in batches:
                assert list(batch) == list(dataset.schema)
                assert sorted(batch) == sorted(NAMES)
                check(batch, options.get("seed", 0), epoch)
        for name, field in dataset.schema.items():
            assert field.dtype == batches[0][name].dtype
        assert "  steps    6 steps\n  9 outputs" in repr(dataset) or len(options) == 1


def test_outputs_lie_in_the_memory_of_the_batch(path):
    with dataset_of(path) as dataset:
        batch = next(iter(dataset))
        pointers = {value.untyped_storage().data_ptr() for value in map(batch.get, NAMES[3:])}
        assert len(pointers) == 1
        assert dataset._engine.pipeline.counts()["kernel_calls"] >= 6


def test_kernels_run_while_another_thread_has_the_lock_of_the_interpreter(path):
    sleep = ctypes.PyDLL(None).usleep  # keeps the lock, unlike CDLL
    with dataset_of(path, spins, None, batch_size=5) as dataset:
        iterator = iter(dataset)
        for _ in range(8):  # until windows are whole: more than a few batches are made ahead
            next(iterator)
        before = dataset._engine.pipeline.counts()["kernel_calls"]
        sleep(300_000)
        after = dataset._engine.pipeline.counts()["kernel_calls"]
        assert before < 90
        assert after >= before + 5
        assert dataset.stats().kernels.working_s > 0


def test_what_a_kernel_raises_comes_in_its_turn(path):
    for preprocess in ([scaled, refuses, value], [lambda block: block, scaled, refuses]):
        for options in ({}, {"shuffle": True, "shuffle_window": 100}, {"threads": 0}):
            with dataset_of(path, None, None, **options) as dataset:
                whole = ids_of(dataset)
            good = whole.index(133) // 40
            with dataset_of(path, preprocess, **options) as dataset:
                iterator = iter(dataset)
                assert ids_of(islice(iterator, good)) == whole[: good * 40]
                state = dataset.state_dict()
                with pytest.raises(ValueError, match="no 133 here") as caught:
                    next(iterator)
                with pytest.raises(
                    (ValueError, RuntimeError), match=r"no 133 here|ended this pass"
                ):
                    next(iterator)
                notes = getattr(caught.value, "__notes__", ["in kernel `refuses`"])
                assert "in kernel `refuses`" in notes
                assert dataset.state_dict() == state


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_errors_and_batches_of_worker_processes(path, context):
    # One that another test began has that test's environment, and so its directory of kernels.
    forkserver._forkserver._stop()
    loader = partial(
        DataLoader,
        batch_size=None,
        num_workers=1,
        multiprocessing_context=context,
        timeout=120,
    )
    # Compiled here, and not again there: it is told by a step of Python's.
    with dataset_of(path, augment=[noisy, told], columns=None) as dataset:
        batches = list(loader(dataset))
        for batch in batches:
            check(batch)
            # A fork has what this process has; others take it from disk.
            expected = [*counts()] if context == "fork" else [0, 6]
            assert batch["counts"].unique(dim=0).tolist() == [expected]
        assert sorted(ids_of(batches)) == list(range(ROWS))
    if context == "fork":
        with dataset_of(path, refuses) as dataset, pytest.raises(ValueError, match="no 133 here"):
            list(loader(dataset))


def told(batch, _seeds):
    return {"counts": np.tile(counts(), (len(batch["id"]), 1))}


@pytest.mark.parametrize("workers", [0, 2])
def test_runs_resume_with_the_same_random_numbers(path, workers):
    make = partial(dataset_of, path, shuffle=True, shuffle_window=100)
    assert_resumes_exactly(make, after=[0, 1, 7], num_workers=workers)


@pytest.mark.parametrize("uneven", ["wrap", "pad"])
def test_ranks_agree(path, uneven):
    make = partial(dataset_of, path, shuffle=True, uneven=uneven, provenance=True)
    assert_ranks_agree(make, world_sizes=(2, 3), uneven=uneven)


def test_stateful_loader_and_prefetcher(path):
    def loader_of():
        return StatefulDataLoader(dataset_of(path, shuffle=True), batch_size=None, num_workers=1)

    whole = list(loader_of())
    loader = loader_of()
    first = list(islice(iter(loader), 5))
    state = loader.state_dict()
    loader = loader_of()
    loader.load_state_dict(state)
    assert_same_batches([*first, *loader], whole)
    with dataset_of(path) as dataset:
        prefetcher = DevicePrefetcher(dataset, "cpu")
        first = list(islice(prefetcher, 3))
        state = json.loads(json.dumps(prefetcher.state_dict()))
        dataset.load_state_dict(state)
        for batch in [*first, *dataset]:
            check(batch)


@pytest.mark.parametrize("uneven", ["wrap", "keep"])
def test_filters_mixes_and_single_rows(path, tmp_path, uneven):
    options = {"filters": [("label", "==", 1)], "uneven": uneven, "batch_size": 64}
    with dataset_of(path, **options) as dataset:
        batches = [batch.clone() for batch in dataset]
    assert ids_of(batches) == np.flatnonzero(LABEL == 1).tolist()
    for batch in batches:
        check(batch)
    other = write_sample(tmp_path / "b.parquet", 90, 30)
    sources = {"a": dataset_of(path, seed=3), "b": dataset_of(other, None, noisy, seed=4)}
    with fastload.mix(sources, [1, 1], seed=1, stop="all") as mixed:
        assert list(mixed.schema["b"]) == ["id", "label", "price", "name", "seed"]
        for batch in mixed:
            if batch.source == "a":
                check(batch, 3)
    with dataset_of(path, columns=["id", "price"], preprocess=value) as dataset:
        rows = list(islice((row for batch in dataset for row in batch.iter_rows()), 50))
    assert [row["value"].item() for row in rows] == [k * 10 + PRICE[k] for k in range(50)]
    assert [row["seed"].numpy().item() for row in rows[:3]] == [
        stream_key(0, 0, 3, 0, 0, k) for k in range(3)
    ]


def test_rows_that_stand_in_go_through_too(tmp_path):
    path = write_groups(tmp_path / "a.parquet", [30, 50, 45])
    damage(path, 1, "text")
    options = {"on_error": "skip", "uneven": "pad", "provenance": True}
    with dataset_of(path, refuses_none, noise_of_row, **options) as dataset:
        batches = list(dataset)
        assert len(batches) == len(dataset)
        assert len(dataset.skipped) == 1
        assert list(batches[0])[-5:] == ["twice", "__file__", "__row__", "__valid__", "s"]
    for batch in batches:
        rows = batch["__row__"]
        assert torch.equal(batch["twice"], 2 * batch["id"])
        assert batch["s"].numpy().tolist() == [stream_key(0, 0, 3, 0, 0, k) for k in rows.tolist()]


@kernel("id", {"twice": "int64"})
def refuses_none(ids, out):
    out[:] = ids * 2


@kernel("__row__", {"s": "uint64"}, random=True)
def noise_of_row(_, seeds, out):
    out[:] = seeds


def test_dense_inputs_and_every_dtype(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = 20
    names = [
        "bool",
        "float32",
        "float64",
        *(f"{u}int{b}" for u in ("", "u") for b in (8, 16, 32, 64)),
    ]
    columns = {name: (np.arange(rows) % 7).astype(name) for name in names}
    lists = pa.array([[k, k + 1] for k in range(rows)], pa.list_(pa.int16(), 2))
    ragged = pa.array([[float(k)] * (k % 4) for k in range(rows)], pa.list_(pa.float64()))
    table = pa.table({**columns, "pairs": lists, "ragged": ragged})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=6)

    @kernel(names, {f"{name}_": name for name in names})
    def copies(a, b, c, d, e, f, g, h, i, j, k, a_, b_, c_, d_, e_, f_, g_, h_, i_, j_, k_):
        for n in range(len(a)):
            a_[n], b_[n], c_[n], d_[n], e_[n], f_[n] = a[n], b[n], c[n], d[n], e[n], f[n]
            g_[n], h_[n], i_[n], j_[n], k_[n] = g[n], h[n], i[n], j[n], k[n]

    @kernel(("pairs", "ragged", "both"), {"sum": "float64", "wide": (torch.float32, 2)})
    def sums(pairs, values, offsets, both, out, wide):
        for n in range(len(pairs)):
            out[n] = values[offsets[n] : offsets[n + 1]].sum() + pairs[n].sum()
            wide[n] = both[n]

    options = {"batch_size": 7, "columns": None}
    columns = {name: name for name in [*names, "pairs", "ragged"]}
    columns["both"] = fastload.Stack(["float32", "float64"], dtype=torch.float32)
    with dataset_of(tmp_path, [copies, sums], None, **{**options, "columns": columns}) as dataset:
        batches = list(dataset)
    for name in names:
        got = torch.cat([batch[f"{name}_"] for batch in batches])
        assert np.array_equal(got.numpy(), table[name].to_numpy())
        assert got.dtype == getattr(torch, name)
    sums_of_rows = [2 * k + 1 + k * (k % 4) for k in range(rows)]
    assert torch.cat([batch["sum"] for batch in batches]).tolist() == sums_of_rows
    wide = torch.cat([batch["wide"] for batch in batches])
    assert torch.equal(wide, torch.cat([batch["both"] for batch in batches]))


def test_what_a_kernel_can_not_be_is_told_when_the_dataset_is_made(path):
    def fails(price, out):
        out[0] = price.nothing

    def writes(price, out):
        price[0] = 1

    def fill(*arrays):
        return None

    types = (
        r"kernel `.*fails` to compile for price float32 \(B,\) -> o int64 \(B,\), got TypingError"
    )
    with pytest.raises(TypeError, match=rf"{types}(.|\n)*Unknown attribute 'nothing'") as caught:
        dataset_of(path, kernel("price", {"o": "int64"})(fails))
    line = fails.__code__.co_firstlineno + 1
    assert re.search(rf'File ".*test_kernels\.py", line {line}:\n', str(caught.value))
    assert "out[0] = price.nothing" in str(caught.value)
    assert "\x1b" not in str(caught.value)
    with pytest.raises(TypeError, match="Cannot modify readonly array"):
        dataset_of(path, kernel("price", {"o": "int64"})(writes))
    for inputs, columns, error, match in (
        ("cost", None, ValueError, "inputs of kernel `.*fill` among `id`, .*got `cost`"),
        ("id", ["price"], ValueError, "among `price`, got `id`"),
        (
            "p",
            {"p": Column("price", dtype=torch.float16)},
            TypeError,
            r"for input `p` of kernel .*got float16 \(dtype=torch.float32 of Column",
        ),
    ):
        with pytest.raises(error, match=match):
            dataset_of(path, kernel(inputs, {"o": "bool"})(fill), columns=columns)
    for arguments, error, match in (
        (("x", {"y": "str"}), ValueError, "for output `y` of kernel, got str"),
        (("x", {"y": "float16"}), ValueError, r"got float16 \(float32 holds all"),
        (("x", {"y": torch.bfloat16}), ValueError, r"got bfloat16 \(float32 holds all"),
        (("x", {"y": ("int8", 0)}), ValueError, "with n from 1 on"),
        (("x", {}), ValueError, "at least one output"),
        ((["x", "x"], {"y": "int8"}), ValueError, "each input of kernel once"),
        ((3, {"y": "int8"}), TypeError, "inputs of kernel as a name or names"),
        (("x", ["y"]), TypeError, "outputs of kernel as a mapping"),
    ):
        with pytest.raises(error, match=match):
            kernel(*arguments)
    with pytest.raises(TypeError, match="a random kernel in augment"):
        dataset_of(path, noisy)
    with pytest.raises(ValueError, match="The name `__row__` is reserved for the dataset"):
        dataset_of(path, kernel("id", {"__row__": "int64"})(fill))


def test_kernels_are_functions_and_have_an_identity():
    out = np.zeros(2)
    assert value(np.array([1, 2]), np.array([0.5, 0.25]), out) is None
    assert out.tolist() == [10.5, 20.25]
    assert pickle.loads(pickle.dumps(value)) is value

    def digest(fn, inputs="x", dtype="int64", **options):
        return code_digest(kernel(inputs, {"y": dtype}, **options)(fn))

    digests = [digest(len), digest(len, "z"), digest(len, dtype="int32"), digest(len, random=True)]
    digests += [digest(max), digest(len, version="1"), digest(len, version="2")]
    assert len(set(digests)) == len(digests)
    assert digest(len) == digests[0]


def test_the_identity_is_that_of_the_compiled_code():
    scope = {"factor": 2}
    exec("def fn(x, out):\n    out[:] = x * factor", scope)
    step = kernel("x", {"y": "int64"})(scope["fn"])
    before = code_digest(step)
    step.code((Argument("x", "int64"),))
    scope["factor"] = 3
    assert code_digest(step) == before  # the machine code still multiplies by 2
    other = code_digest(kernel("x", {"y": "int64"})(scope["fn"]))
    step.code((Argument("x", "int32"),))
    assert len({before, other, code_digest(step)}) == 3


def test_machine_code_is_kept_on_disk(tmp_path, monkeypatch):
    """Not if that is damaged, or some constant is another one."""
    scope = {"factor": 2}
    exec("def fn(x, out):\n    out[:] = x * factor", scope)
    inputs = (Argument("x", "int64"),)

    def done():
        before = counts()
        code = kernel("x", {"y": "int64"})(scope["fn"]).code(inputs)
        (out,) = code.run([np.arange(3)], 3)
        assert out.tolist() == [0, scope["factor"], 2 * scope["factor"]]
        return tuple(np.subtract(counts(), before))

    monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(tmp_path))
    assert done() == (1, 0)
    assert done() == (0, 1)
    (entry,) = (tmp_path / "kernels").iterdir()
    whole = bytearray(entry.read_bytes())
    whole[1000] ^= 1
    entry.write_bytes(whole)
    assert done() == (1, 0)
    assert done() == (0, 1)
    scope["factor"] = 3
    assert done() == (1, 0)
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", "/proc/nowhere")
    assert done() == (1, 0)
