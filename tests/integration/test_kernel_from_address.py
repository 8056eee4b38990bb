"""kernel.from_address: steps of machine code that another compiler made."""

import copy
import ctypes
import gc
import pickle
import shutil
import subprocess
import sysconfig
import weakref

import numba
import numpy as np
import pytest
import torch
from numba import types
from torch.utils.data import DataLoader

from fastload import Cache, Column, FastParquetDataset, kernel
from fastload.plan.permutation import stream_key
from fastload.testing import assert_same_batches
from support.sample_files import ids_of, sample_table, write_sample

ROWS = 300
PRICE = sample_table(ROWS)["price"].to_numpy()
NAMES = sample_table(ROWS)["name"].to_pylist()

# price * factor, the bytes of a name, and rows that fail.
SOURCE = """
#include <stdint.h>

int64_t doubled(void** arrays, int64_t rows) {
  const float* price = arrays[0];
  float (*out)[2] = arrays[1];
  for (int64_t i = 0; i < rows; i++) {
    out[i][0] = 2 * price[i];
    out[i][1] = -price[i];
  }
  return 0;
}

int64_t letters(void** arrays, int64_t rows) {
  const int64_t* offsets = arrays[1];
  int32_t* out = arrays[2];
  for (int64_t i = 0; i < rows; i++) out[i] = offsets[i + 1] - offsets[i];
  return 0;
}

int64_t drawn(void** arrays, int64_t rows) {
  const uint64_t* seeds = arrays[1];
  uint64_t* out = arrays[2];
  for (int64_t i = 0; i < rows; i++) out[i] = seeds[i];
  return 0;
}

int64_t fails(void** arrays, int64_t rows) {
  const int64_t* id = arrays[0];
  for (int64_t i = 0; i < rows; i++) if (id[i] == 100) return 7;
  return 0;
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The functions of SOURCE, compiled by the system's compiler."""
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    compiler = shutil.which(compiler) or shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    directory = tmp_path_factory.mktemp("library")
    (directory / "steps.c").write_text(SOURCE)
    built = directory / "steps.so"
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", built, directory / "steps.c"]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(built))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("kernels") / "a.parquet", ROWS, 70)


def address_of(library, name):
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value


def step_of(library, name, inputs, outputs, **options):
    return kernel.from_address(
        address_of(library, name),
        inputs=inputs,
        outputs=outputs,
        **{"version": "1", "owner": library, **options},
    )


def dataset_of(path, preprocess, augment=None, **options):
    options = {"batch_size": 40, "threads": 2, "memory_budget": "64MB", **options}
    columns = {"id": "id", "price": Column("price", "float32"), "name": "name"}
    return FastParquetDataset(
        path, columns=columns, preprocess=preprocess, augment=augment, **options
    )


@pytest.mark.parametrize(
    ("workers", "options", "before"),
    [
        (0, {}, []),
        (0, {"threads": 0, "shuffle": True, "seed": 3}, []),
        (2, {"shuffle": True}, []),
        (0, {}, [lambda block: {"id": block["id"]}]),
    ],
)
def test_batches(path, library, workers, options, before):
    """By the core, in forked workers, and by the thread that asks after a Python function."""
    steps = [
        *before,
        step_of(library, "doubled", "price", {"both": ("float32", 2)}),
        step_of(library, "letters", ["name"], {"letters": "int32"}),
    ]
    drawn = step_of(library, "drawn", "id", {"seed": "uint64"}, random=True)
    with dataset_of(path, steps, drawn, **options) as dataset:
        loader = DataLoader(
            dataset,
            batch_size=None,
            num_workers=workers,
            multiprocessing_context="fork" if workers else None,
        )
        batches = list(loader)
        assert sorted(ids_of(batches)) == list(range(ROWS))
        for batch in batches:
            ids = batch["id"].numpy()
            price = PRICE[ids].astype(np.float32)
            assert np.array_equal(batch["both"], np.stack([2 * price, -price], axis=1))
            assert batch["letters"].tolist() == [len(NAMES[n].encode()) for n in ids]
            seed = options.get("seed", 0)
            seeds = [stream_key(seed, 0, 3, 0, 0, row) for row in ids.tolist()]
            assert batch["seed"].tolist() == seeds
        assert dataset.schema["both"].shape == (2,)
        if not (workers or before):
            assert dataset._engine.pipeline.counts()["kernel_calls"] >= 3


@pytest.mark.parametrize("before", [[], [lambda block: block]])
def test_failure_is_raised_with_its_number(path, library, before):
    steps = [*before, step_of(library, "fails", "id", {"out": "int8"})]
    with (
        dataset_of(path, steps) as dataset,
        pytest.raises(RuntimeError, match="kernel `out` failed: its function returned 7"),
    ):
        list(dataset)


def test_cfunc_of_numba(path):
    @numba.cfunc(types.int64(types.CPointer(types.voidptr), types.int64))
    def tripled(arrays, rows):
        price = numba.carray(arrays[0], rows, np.float32)
        out = numba.carray(arrays[1], rows, np.float64)
        for i in range(rows):
            out[i] = 3.0 * price[i]
        return 0

    step = kernel.from_address(
        tripled.address, inputs="price", outputs={"out": "float64"}, version="1", owner=tripled
    )
    with dataset_of(path, step) as dataset:
        for batch in dataset:
            assert torch.equal(batch["out"], 3 * batch["price"].double())


def test_call_in_python(library):
    step = step_of(library, "doubled", "price", {"both": ("float32", 2)})
    out = np.zeros((3, 2), np.float32)
    step(np.array([1, 2, 3], np.float32), out)
    assert out.tolist() == [[2, -1], [4, -2], [6, -3]]
    assert repr(step) == "kernel(both, inputs=['price'], outputs=['both'])"


def test_owner_lives_as_long_as_the_dataset(path, library):
    class Owner:
        """Keeps something in memory."""

    owner = Owner()
    alive = weakref.ref(owner)
    step = step_of(library, "letters", "name", {"letters": "int32"}, owner=owner)
    dataset = dataset_of(path, step)
    del step, owner
    gc.collect()
    assert alive() is not None
    first = list(dataset)
    assert_same_batches(list(copy.copy(dataset)), first)
    dataset.close()
    del dataset, first
    gc.collect()
    assert alive() is None


def test_cache_is_keyed_by_the_version(path, library, tmp_path):
    def cached(version):
        step = step_of(library, "letters", "name", {"letters": "int32"}, version=version)
        with dataset_of(path, step, cache=Cache(tmp_path / "cache")) as dataset:
            list(dataset)
            return dataset.stats()

    def made():
        return len([*(tmp_path / "cache").rglob("*")])

    cached("1")
    entries = made()
    cached("1")
    assert made() == entries
    cached("2")
    assert made() > entries


def test_refuses_what_it_cannot_use(path, library):
    address = address_of(library, "letters")
    good = {"inputs": "name", "outputs": {"letters": "int32"}, "version": "1"}
    for wrong, error, match in [
        ({"address": "0x12"}, TypeError, "address of kernel.from_address as int, got '0x12'"),
        ({"address": 0}, ValueError, "above 0, got 0"),
        ({"version": 1}, TypeError, "version of kernel.from_address as str, got 1"),
        ({"inputs": 3}, TypeError, "inputs of kernel as a name or names"),
        ({"outputs": {}}, ValueError, "at least one output"),
    ]:
        with pytest.raises(error, match=match):
            kernel.from_address(**{"address": address, **good, **wrong})
    step = kernel.from_address(address, **good)
    with pytest.raises(TypeError, match=r"only in this process and in its forks.*context=\"fork\""):
        pickle.dumps(step)
    with pytest.raises(ValueError, match=r"Expected inputs of kernel `letters` among .*got `nam`"):
        dataset_of(path, kernel.from_address(address, **{**good, "inputs": "nam"}))
