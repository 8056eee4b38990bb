"""A check that a step has the same rows on every number of ranks."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Any

from fastload.testing.rows import row_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

__all__ = ["assert_same_steps"]


def assert_same_steps(
    make_dataset: Callable[..., Any],
    world_sizes: Sequence[int],
    steps: int | None = None,
    *,
    epoch: int = 0,
) -> None:
    """Check that each step of an epoch has the same rows on every number of ranks.

    A step is one batch of each rank. Within a step, rows may come in any order and on any rank.
    Rows that uneven="pad" marks as repeated are left out. Rows of a mix are the same only if they
    come from the same source. The function keeps all rows of the compared steps in memory, of two
    numbers of ranks at a time.

    Example:
        make = functools.partial(FastParquetDataset, "train", columns=["f1"], shuffle=True)
        assert_same_steps(make, world_sizes=(1, 1), steps=3)

    Args:
        make_dataset: A function that makes a new dataset, with `rank=` and `world_size=` passed on.
            All other arguments of the dataset must be the same in each call.
        world_sizes: The numbers of ranks to compare, at least two.
        steps: Number of steps from the beginning of the epoch, or None for all steps.
        epoch: Number of the epoch.

    Raises:
        AssertionError: A step has other rows on another number of ranks, or the epoch has another
            number of steps; the message names the step and the numbers of ranks.
        ValueError: `world_sizes` has fewer than two numbers.
    """
    if len(world_sizes) < 2:
        raise ValueError(f"Expected at least two numbers of ranks, got {list(world_sizes)}")
    first, *others = world_sizes
    expected = _steps_of(make_dataset, first, steps, epoch)
    for world in others:
        got = _steps_of(make_dataset, world, steps, epoch)
        for number, (rows, wanted) in enumerate(zip(got, expected, strict=False)):
            if rows != wanted:
                lost, more = wanted - rows, rows - wanted
                raise AssertionError(
                    f"Expected the rows of step {number} on {first} ranks, got {more.total()} "
                    f"others and {lost.total()} of these rows missing, such as "
                    f"{next(iter(more or lost))!r} - on {world} ranks"
                )
        if len(got) != len(expected):
            raise AssertionError(
                f"Expected {len(expected)} steps as on {first} ranks, got {len(got)} - on {world} "
                "ranks"
            )


def _steps_of(
    make_dataset: Callable[..., Any], world: int, steps: int | None, epoch: int
) -> list[Counter[Hashable]]:
    """Return the rows of each step, of all ranks together."""
    found: list[Counter[Hashable]] = []
    for rank in range(world):
        with closing(make_dataset(rank=rank, world_size=world)) as dataset:
            dataset.set_epoch(epoch)
            for number, batch in enumerate(islice(dataset, steps)):
                if number == len(found):
                    found.append(Counter())
                source = getattr(batch, "source", None)  # the name of the source in a mix
                found[number].update((source, key) if source else key for key in row_keys(batch))
    return found
