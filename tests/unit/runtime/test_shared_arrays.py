"""Arrays in memory that several processes share."""

from __future__ import annotations

import multiprocessing
import os
import resource

import numpy as np
import pytest

from fastload.runtime.shared_record import SharedArrays, SharedRecord


def test_arrays_are_found_by_name_until_they_are_dropped() -> None:
    arrays = SharedArrays()
    assert arrays.get("a") is None
    first, second = np.arange(1000.0), np.arange(500, dtype=np.float32)
    arrays.put("a", first, ())
    arrays.put("b", second, ["a"])
    for name, array in (("a", first), ("b", second)):
        found = arrays.get(name)
        assert found is not None
        assert found.dtype == array.dtype
        assert (found == array).all()
    arrays.put("c", second, ["b"])
    assert arrays.names == {"b", "c"}
    assert arrays.get("a") is None
    kept = arrays.get("b")
    assert kept is not None
    assert (kept == second).all()


def test_the_memory_of_dropped_arrays_is_used_again() -> None:
    arrays = SharedArrays()
    for number in range(50):
        arrays.put(f"{number}", np.full(1000, number, np.float64), [f"{number - 1}"])
        before = arrays.get(f"{max(0, number - 1)}")
        assert before is not None
        assert (before == max(0, number - 1)).all()
    assert os.fstat(arrays.fds[1]).st_size <= 3 * 8000
    arrays.put("small", np.zeros(10), ())
    assert os.fstat(arrays.fds[1]).st_size <= 80


def test_an_array_without_room_leaves_the_others() -> None:
    arrays = SharedArrays()
    arrays.put("a", np.arange(1000.0), ())
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, before[1]))
    try:
        with pytest.raises(OSError, match="large"):
            arrays.put("b", np.ones(2000), ["a"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert arrays.names == {"a"}
    found = arrays.get("a")
    assert found is not None
    assert (found == np.arange(1000.0)).all()
    arrays.put("b", np.ones(2000), ["a"])
    assert arrays.names == {"a", "b"}


def test_a_writer_that_dies_between_names_and_memory_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arrays = SharedArrays()
    arrays.put("a", np.arange(1000.0), ())
    with monkeypatch.context() as patch:
        patch.setattr(SharedRecord, "_write", _die)
        with pytest.raises(KeyboardInterrupt):
            arrays.put("b", np.ones(10), ())
    found = arrays.get("a")
    assert found is not None
    assert (found == np.arange(1000.0)).all()


def _die(*_: object) -> None:
    raise KeyboardInterrupt


def test_an_array_that_is_cut_off_is_an_error() -> None:
    arrays = SharedArrays()
    arrays.put("a", np.arange(1000.0), ())
    os.truncate(arrays.fds[1], 100)
    with pytest.raises(OSError, match="Expected 8000 bytes of shared weights `a`, got 100"):
        arrays.get("a")


def _write(arrays: SharedArrays, rounds: int) -> None:
    for number in range(rounds):
        arrays.put("odd" if number % 2 else "even", np.full(40_000, number, np.float64), ())


def test_no_process_sees_a_part_of_an_array() -> None:
    arrays = SharedArrays()
    writer = multiprocessing.get_context("fork").Process(target=_write, args=(arrays, 3000))
    writer.start()
    seen: set[float] = set()
    while writer.is_alive():
        for name in ("odd", "even"):
            found = arrays.get(name)
            if found is not None:
                assert (found == found[0]).all()
                seen.add(found[0])
    writer.join()
    assert writer.exitcode == 0
    assert len(seen) > 1
