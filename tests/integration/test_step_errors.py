"""preprocess= and augment= that fail: an error in its turn, with its place."""

import sys
from itertools import islice
from pickle import PicklingError

import pytest
from torch.utils.data import DataLoader

import fastload
from fastload import Batch, CorruptFileError, FastParquetDataset, Ragged, per_row
from fastload.dataset.mixes.mix import MixedDataset
from fastload.plan.permutation import permutation, stream_key
from fastload.schema.fields import Schema
from support.damage import damage, write_groups
from support.sample_files import ids_of, write_sample
from support.stepped_dataset import ROWS, dataset_of

pytestmark = pytest.mark.filterwarnings("ignore:Row group .* is left out")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("steps") / "a.parquet", ROWS, 70)


def fail_at(numbers):
    def fn(number):
        if number in numbers:
            raise OSError(f"no {number}")
        return number

    return fn


def test_an_error_of_a_step_comes_in_its_turn_and_names_the_batch(path):
    def fail(block):
        if 205 in block["id"]:
            raise KeyError("no such thing")
        return block

    for threads in (0, 2):
        with dataset_of(path, [per_row(len, "name", "n", threads=threads), fail]) as dataset:
            iterator = iter(dataset)
            assert ids_of(islice(iterator, 5)) == list(range(200))
            state = dataset.state_dict()
            with pytest.raises(KeyError, match="no such thing") as caught:
                next(iterator)
            notes = getattr(caught.value, "__notes__", None)
            assert notes in (None, [f"in preprocess step `{fail.__qualname__}`",
                                    "after 5 batches of epoch 0"])  # fmt: skip
            for _ in range(2):
                with pytest.raises(RuntimeError, match=r"^KeyError ended this pass: call iter"):
                    next(iterator)
            assert dataset.state_dict() == state
            dataset.load_state_dict(state)
            for _ in range(2):  # a pass whose first batch fails takes no epoch
                with pytest.raises(KeyError, match="no such thing"):
                    next(iter(dataset))
            with pytest.warns(UserWarning, match="drops its progress"):
                dataset.set_epoch(1)
            assert ids_of(islice(dataset, 5)) == list(range(200))


def test_stop_iteration_of_a_step_does_not_end_the_epoch(path):
    def stop(block):
        raise StopIteration

    with dataset_of(path, stop) as dataset, pytest.raises(RuntimeError, match="StopIteration"):
        list(dataset)


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_of_a_row_names_it(path, workers):
    step = per_row(fail_at([133]), "id", "n", threads=2)
    with dataset_of(path, step) as dataset:
        batches = iter(DataLoader(dataset, batch_size=None, num_workers=workers))
        assert ids_of(islice(batches, 3)) == list(range(120))
        with pytest.raises(RuntimeError, match="to take the row, got OSError: no 133") as caught:
            next(batches)
    assert f"- at {path}, row 133" in str(caught.value)
    assert "per_row step `fail_at.<locals>.fn`" in str(caught.value)
    if not workers:
        assert isinstance(caught.value.__cause__, OSError)


def test_what_the_files_lack_is_told_after_the_batches_before_it(tmp_path):
    path = write_groups(tmp_path / "a.parquet", [80, 80, 80])
    upper = per_row(str.upper, "text", "TEXT", threads=2)
    # Windows are row groups here; the second one comes last.
    seed = next(k for k in range(50) if permutation(3, stream_key(k, 0, 0))[-1] == 1)
    options = {"shuffle": True, "shuffle_window": 80, "seed": seed}
    with dataset_of(path, **options) as dataset:
        *whole, _, last = dataset
        assert 80 <= last["id"][0] < 160
    damage(path, 1, "text")
    with dataset_of(path, upper, **options) as dataset:
        iterator = iter(dataset)
        assert ids_of(islice(iterator, 4)) == ids_of(whole)
        for _ in range(2):
            with pytest.raises(CorruptFileError, match="row group 1"):
                next(iterator)


@pytest.mark.filterwarnings("ignore:Got pickle error")
def test_torch_says_that_a_lambda_can_not_be_spawned(path):
    with dataset_of(path, lambda block: block) as dataset:
        loader = DataLoader(
            dataset, batch_size=None, num_workers=1, multiprocessing_context="spawn"
        )
        words = "Can't get local object" if sys.version_info >= (3, 13) else "pickle"
        with pytest.raises((AttributeError, TypeError, PicklingError), match=words):
            next(iter(loader))


def test_an_attribute_that_a_step_misses_shows_in_the_schema(path):
    def misspelled(block):
        return {"id": block["id"].reshap(-1, 1)}

    for step in ({"preprocess": misspelled}, {"augment": lambda batch, _: misspelled(batch)}):
        with FastParquetDataset(path, columns=["id"], **step) as dataset:
            with pytest.raises(AttributeError, match="has no attribute 'reshap'"):
                dataset.schema  # noqa: B018
            with pytest.raises(AttributeError, match="has no attribute 'reshap'"):
                fastload.mix({"a": dataset}).schema  # noqa: B018
            with pytest.raises(AttributeError, match="FastParquetDataset has no attribute 'shema'"):
                dataset.shema  # noqa: B018


def test_a_property_shows_its_own_attribute_error():
    for kind in (Batch, Ragged, Schema, FastParquetDataset, MixedDataset):

        class Extended(kind):
            @property
            def broken(self):
                return None.nothing

        made = Extended.__new__(Extended)
        with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'nothing'"):
            made.broken  # noqa: B018
