"""A check that a run which is stopped and resumed equals a run that never stops."""

from __future__ import annotations

import json
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Any

from torch.utils.data import DataLoader

from fastload.testing.rows import assert_same_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from fastload.batch.batch import Batch

__all__ = ["assert_resumes_exactly"]

_MOST_STATE_BYTES = 2000


def assert_resumes_exactly(
    make_dataset: Callable[[], Any],
    *,
    after: Iterable[int] | None = None,
    epoch: int = 0,
    num_workers: int = 0,
) -> None:
    """Check that a resumed run delivers the same batches as an uninterrupted run, bit for bit.

    First, the epoch is delivered once without interruption. Then, for each number of batches in
    `after`, a new dataset resumes from the state after this number of batches, and delivers the
    rest of the epoch and the beginning of the next epoch. Finally, one run is stopped at all of
    these numbers in turn and resumed each time, as a run with many interruptions is.

    Example:
        make = functools.partial(FastParquetDataset, "train", columns=["f1"], shuffle=True)
        assert_resumes_exactly(make, after=[1, 3])

    Args:
        make_dataset: A function that makes a new dataset of batches, or a mix, with the same
            arguments in each call.
            Threads, prefetch and memory_budget may differ from call to call.
        after: Numbers of batches, from 0 to all batches of the epoch, at which to stop.
            None stops at every number, so the epoch is delivered as often as it has batches.
        epoch: Number of the epoch.
        num_workers: Number of worker processes of a DataLoader around the dataset.
            0 means no DataLoader.

    Raises:
        AssertionError: A run differs; the message says where the run was resumed, and the batch,
            row and column that differ. Or a state is not JSON, is larger than 2 KB (of a mix: for
            each source), or differs from the state that `after=batch` returns.
        ValueError: A number in `after` is out of range.
    """
    with closing(make_dataset()) as dataset:
        states, batches = _run(dataset, epoch, num_workers)
        following = list(islice(_loader(dataset, num_workers), 1))
    stops = range(len(batches) + 1) if after is None else sorted(set(after))
    for stop in stops:
        if not 0 <= stop <= len(batches):
            raise ValueError(f"Expected `after` between 0 and {len(batches)} batches, got {stop}")
        with closing(make_dataset()) as dataset:
            dataset.load_state_dict(states[stop])
            loader = _loader(dataset, num_workers)
            if stop < len(batches):
                _assert_same(loader, batches[stop:], f"resumed after {stop} batches")
            got = islice(loader, 1)
            _assert_same(got, following, f"resumed after {stop} batches, in the next epoch")
    _assert_one_run(make_dataset, states[0], stops, batches, num_workers)


def _run(dataset: Any, epoch: int, num_workers: int) -> tuple[list[Mapping[str, Any]], list[Batch]]:
    """Return the states of an epoch (before the first batch, then after each), and its batches."""
    dataset.set_epoch(epoch)
    states = [_through_json(dataset.state_dict())]
    batches: list[Batch] = []
    for batch in _loader(dataset, num_workers):
        state = dataset.state_dict(after=batch)
        if num_workers == 0 and dataset.state_dict() != state:
            raise AssertionError(
                f"Expected {state}, got {dataset.state_dict()} - from state_dict() after batch "
                f"{len(batches)}"
            )
        states.append(_through_json(state))
        batches.append(batch.clone())
    return states, batches


def _assert_one_run(
    make_dataset: Callable[[], Any],
    state: Mapping[str, Any],
    stops: Iterable[int],
    batches: list[Batch],
    num_workers: int,
) -> None:
    at = 0
    for stop in [*(stop for stop in stops if 0 < stop < len(batches)), len(batches)]:
        with closing(make_dataset()) as dataset:
            dataset.load_state_dict(state)
            taken = []
            for batch in islice(_loader(dataset, num_workers), stop - at):
                state = _through_json(dataset.state_dict(after=batch))
                taken.append(batch.clone())
        _assert_same(taken, batches[at:stop], f"resumed again after {at} batches")
        at = stop


def _assert_same(got: Iterable[Batch], want: Iterable[Batch], run: str) -> None:
    try:
        assert_same_batches(got, want)
    except AssertionError as error:
        raise AssertionError(f"{error} of the run {run}") from error


def _loader(dataset: Any, num_workers: int) -> Iterable[Batch]:
    if num_workers == 0:
        batches: Iterable[Batch] = dataset
        return batches
    return DataLoader(dataset, batch_size=None, num_workers=num_workers)


def _through_json(state: Mapping[str, Any]) -> Mapping[str, Any]:
    text = json.dumps(state)
    if len(text) >= _MOST_STATE_BYTES * len(state.get("sources", [state])):
        raise AssertionError(f"Expected a state under 2 KB, got {len(text)} bytes: {text}")
    decoded: dict[str, Any] = json.loads(text)
    if decoded != state:
        raise AssertionError(f"Expected a state that JSON keeps as it is, got {state}")
    return decoded
