"""per_row(seeds=True) in augment=: random work for each row, on threads.

The oracle is a plain loop over the rows, with the seeds that a function `fn(batch, seeds)` at the
same index of the list gets.
"""

import signal
import sys
import threading
import time
from functools import cache, partial
from itertools import islice

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from fastload import mix, per_row
from fastload.testing import assert_ranks_agree, assert_resumes_exactly
from support.sample_files import ids_of, write_sample
from support.stepped_dataset import (
    DESCRIBE,
    ROWS,
    dataset_of,
    threads_of_steps,
    until,
    wait_for_decoding,
)

SHUFFLED = {"shuffle": True, "seed": 7}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("seeds") / "a.parquet", ROWS, 70)


def noisy(name, price, seed):
    random = np.random.default_rng(seed)
    return f"{name} {random.integers(1000)}", price + random.random(seed % 3), seed >> 1


def noise(threads):
    outputs = {"text": None, "list": "ragged", "half": None}
    return per_row(noisy, ["name", "price"], outputs, threads=threads, seeds=True)


def first(batch, seeds):
    return {"first": seeds}


def last(batch, seeds):
    return {"double": 2 * batch["half"], "last": seeds}


def recorded(batch, seeds):
    return {"seed": seeds}


def steps(threads):
    return [first, noise(threads), last]


@cache
def expected(path, epoch=0, seed=0):
    """Return the results of `noisy` by id."""
    with dataset_of(path, None, [first, recorded], seed=seed) as dataset:
        dataset.set_epoch(epoch)
        return {
            number: noisy(name, price, int(seed))
            for batch in dataset
            for number, name, price, seed in zip(
                batch["id"].tolist(),
                batch["name"].tolist(),
                batch["price"].tolist(),
                batch["seed"].numpy(),
                strict=True,
            )
        }


def check(batch, wanted):
    for row, number in enumerate(batch["id"].tolist()):
        text, values, half = wanted[number]
        assert batch["text"][row] == text
        assert np.array_equal(batch["list"][row].numpy(), values)
        assert batch["half"][row] == half
        assert batch["double"][row] == 2 * batch["half"][row]


@pytest.mark.parametrize("threads", [0, 1, 4])
@pytest.mark.parametrize("options", [{}, SHUFFLED])
def test_rows_are_those_of_a_loop(path, threads, options):
    wanted = [expected(path, epoch, options.get("seed", 0)) for epoch in range(2)]
    assert all(wanted[0][number][2] != wanted[1][number][2] for number in range(ROWS))
    with dataset_of(path, None, steps(threads), **options) as dataset:
        for of_epoch in wanted:
            batches = list(dataset)
            assert sorted(ids_of(batches)) == list(range(ROWS))
            for batch in batches:
                assert list(batch) == list(dataset.schema)
                check(batch, of_epoch)


def test_each_step_has_seeds_of_its_own(path):
    one, two = (per_row(later, "id", name, seeds=True) for name in ("one", "two"))
    with dataset_of(path, None, [one, two, recorded]) as dataset:
        batch = next(iter(dataset))
        seen = [*batch["one"].tolist(), *batch["two"].tolist(), *batch["seed"].numpy() >> 1]
        assert len(set(map(int, seen))) == 3 * batch.rows


def later(number, seed):
    return seed >> 1


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_worker_processes(path, method):
    with dataset_of(path, DESCRIBE, steps(2), **SHUFFLED) as dataset:
        loader = DataLoader(
            dataset, batch_size=None, num_workers=2, multiprocessing_context=method, timeout=120
        )
        batches = list(loader)
    assert sorted(ids_of(batches)) == list(range(ROWS))
    for batch in batches:
        check(batch, expected(path, seed=7))


def test_ranks_and_resumes(path):
    made = partial(dataset_of, path, None, steps(2), **SHUFFLED)
    assert_resumes_exactly(made, after=[0, 1, 5, 12], epoch=1)
    assert_resumes_exactly(made, after=[3, 9], num_workers=2)
    assert_ranks_agree(made, world_sizes=(1, 2, 3))
    state = None
    for world in (3, 2):
        after = []
        for rank in range(world):
            with made(rank=rank, world_size=world) as dataset:
                if state is not None:
                    dataset.load_state_dict(state)
                for batch in islice(dataset, 2):
                    check(batch, expected(path, seed=7))
                after.append(dataset.state_dict())
        state = after[0]


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_names_the_file_and_the_row(path, tmp_path, threads, workers):
    paths = [write_sample(tmp_path / "first.parquet", 10), path]

    def fail(name, seed):
        if name == "row 133":
            raise OSError("no luck")
        return name

    step = per_row(fail, "name", "text", threads=threads, seeds=True)
    with dataset_of(paths, None, step) as dataset:
        batches = iter(DataLoader(dataset, batch_size=None, num_workers=workers))
        assert sum(batch.rows for batch in islice(batches, 3)) == 120
        with pytest.raises(RuntimeError, match="to take the row, got OSError: no luck") as caught:
            next(batches)
    assert f"- at {path}, row 133" in str(caught.value)


@pytest.mark.parametrize("prefetch", [0, 1, 4])
def test_rows_of_the_next_batches_are_in_work_but_no_more(path, prefetch, monkeypatch):
    wait_for_decoding(monkeypatch)
    called = []

    def look(number, seed):
        called.append(number)
        return number

    step = per_row(look, "id", "n", threads=2, seeds=True)
    with dataset_of(path, None, step, prefetch=prefetch) as dataset:
        iterator = iter(dataset)
        next(iterator)
        most = 40 * (1 + min(prefetch, 2))
        until(lambda: len(called) >= most)
        time.sleep(0.05)
        assert sorted(called) == list(range(most))
        assert threads_of_steps()
    until(lambda: not threads_of_steps())


def test_ctrl_c_in_a_row_is_raised_once_and_ends_the_pass(path):
    calls = []

    def interrupt(number, seed):
        calls.append(number)
        if len(calls) == 100:
            raise KeyboardInterrupt
        return number

    step = per_row(interrupt, "id", "n", threads=0, seeds=True)
    with dataset_of(path, None, step) as dataset:
        running = iter(dataset)
        got = [next(running), next(running)]
        with pytest.raises(KeyboardInterrupt):
            next(running)
        with pytest.raises(RuntimeError, match="KeyboardInterrupt in a step ended this pass"):
            next(running)
        dataset.load_state_dict(dataset.state_dict())
        assert ids_of([*got, *dataset]) == list(range(ROWS))


def test_ctrl_c_while_threads_work_loses_no_batch(path):
    main, calls = threading.main_thread().ident, []

    def interrupt(number, seed):
        calls.append(number)
        if len(calls) == 100:
            until(lambda: sys._current_frames()[main].f_code.co_name == "wait")
            signal.pthread_kill(main, signal.SIGINT)
        return seed >> 1

    step = per_row(interrupt, "id", "half", threads=1, seeds=True)
    with dataset_of(path, None, [first, step], prefetch=0) as dataset:
        running = iter(dataset)
        got = [next(running), next(running)]
        with pytest.raises(KeyboardInterrupt):
            next(running)
        got += running
        assert ids_of(got) == list(range(ROWS))
        halves = [half for batch in got for half in batch["half"].tolist()]
        assert halves == [half for _, _, half in expected(path).values()]
        assert sorted(calls) == list(range(ROWS))


def upper(block):
    return {"price": block["price"] + 1}


@pytest.mark.parametrize("threads", [0, 2])
def test_prepared_rows_have_the_seeds_of_their_sources(path, tmp_path, threads):
    def fail(number, seed):
        if number == 133:
            raise OSError("no luck")
        return number

    with (
        dataset_of(path, upper, steps(threads), **SHUFFLED) as plain,
        dataset_of(path, upper, steps(threads), cache=tmp_path, **SHUFFLED) as prepared,
    ):
        for _ in range(2):
            for batch, other in zip(plain, prepared, strict=True):
                assert list(batch) == list(other)
                for name, value in batch.items():
                    assert value.tolist() == other[name].tolist()
        assert prepared.stats().steps_s > 0
        plain.set_epoch(0)
        prepared.set_epoch(0)
        of_worker = DataLoader(prepared, batch_size=None, num_workers=1, timeout=120)
        for batch, other in zip(plain, of_worker, strict=True):
            assert batch["text"].tolist() == other["text"].tolist()
            assert torch.equal(batch["half"], other["half"])
        plain.close()
        assert bool(threads_of_steps()) == bool(threads)
        prepared.close()
        assert not threads_of_steps()
    step = per_row(fail, "id", "n", threads=threads, seeds=True)
    with (
        dataset_of(path, upper, step, cache=tmp_path) as prepared,
        pytest.raises(RuntimeError, match="OSError: no luck") as caught,
    ):
        list(prepared)
    assert f"- at {path}, row 133" in str(caught.value)


def test_a_mix_has_the_seeds_of_its_sources(path):
    def made(augment):
        sources = {
            n: dataset_of(path, None, augment, seed=s, shuffle=True)
            for n, s in (("a", 3), ("b", 4))
        }
        return mix(sources, seed=5)

    with made(steps(2)) as mixed, made([first, recorded]) as plain:
        for batch, other in zip(islice(mixed, 30), islice(plain, 30), strict=True):
            assert batch.source == other.source
            assert torch.equal(batch["id"], other["id"])
            seeds = [int(seed) >> 1 for seed in other["seed"].numpy()]
            assert batch["half"].tolist() == seeds


def test_single_batches_are_as_with_functions(path):
    with dataset_of(path, None, steps(2), **SHUFFLED) as dataset:
        check(dataset.head(20), expected(path, seed=7))
        assert not threads_of_steps()
        assert "text" not in dataset.take([4, 2])
        assert "text" not in dataset.by_index()[4]
        assert dataset.schema["list"].ragged


@pytest.mark.parametrize(
    ("error", "match", "preprocess", "augment"),
    [
        (TypeError, r"without seeds in preprocess, got per_row\(noisy, .*, seeds=True\): .* cache=",
         noise(2), None),
        (TypeError, r"got per_row\(len, .* whose function gets no seeds: .* seeds=True",
         None, per_row(len, "name", "n")),
        (TypeError, r"per_row as fn\(name, seed\), got `len`",
         None, per_row(len, "name", "n", seeds=True)),
        (ValueError, r"of per_row step `later` among `id`, `label`, `n`, `name`, `price`, got `x`",
         None, [per_row(later, "id", "n", seeds=True), per_row(later, "x", "m", seeds=True)]),
    ],
)  # fmt: skip
def test_wrong_steps_are_refused(path, error, match, preprocess, augment):
    with pytest.raises(error, match=match):
        dataset_of(path, preprocess, augment)


def test_outputs_of_the_dataset_are_inputs_too(path):
    options = {"provenance": True, "uneven": "pad", "rank": 1, "world_size": 3}
    names = ["__file__", "__row__", "__valid__"]
    step = per_row(lambda *values: values[:3], names, ["file", "row", "valid"], seeds=True)
    with dataset_of(path, None, step, **options) as dataset:
        for batch in dataset:
            assert batch["row"].tolist() == batch["id"].tolist()
            assert torch.equal(batch["valid"], batch["__valid__"])
            assert not batch["file"].any()


def test_seeds_are_true_or_false():
    with pytest.raises(TypeError, match="Expected seeds of per_row as bool, got 1"):
        per_row(later, "id", "n", seeds=1)
