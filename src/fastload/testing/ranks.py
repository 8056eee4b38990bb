"""A check that ranks share an epoch: equal numbers of batches, and every row of the epoch."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, closing
from itertools import islice
from typing import TYPE_CHECKING, Any

from fastload.testing.rows import row_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

__all__ = ["assert_ranks_agree", "assert_same_steps"]


def assert_ranks_agree(
    make_dataset: Callable[..., Any],
    world_sizes: Sequence[int] = (1, 2, 3, 8),
    *,
    uneven: str = "wrap",
    drop_last: bool = False,
    epoch: int = 0,
) -> None:
    """Check that the ranks of a world together deliver one epoch.

    On each world size, every rank must deliver as many batches as its len() says. Unless
    uneven="keep", all ranks must deliver equally many batches and have equal states. Together the
    ranks must deliver the rows of the epoch, as `uneven` and `drop_last` determine. Afterwards, one
    epoch is begun on the first world size and continued on each of the other world sizes in turn,
    with the state of a rank that has delivered the most batches.

    Example:
        make = functools.partial(FastParquetDataset, "train", columns=["f1"], shuffle=True)
        assert_ranks_agree(make, world_sizes=(1, 2))

    A mix of datasets passes the check with stop="all"; the rows that `uneven` and `drop_last` allow
    to repeat or to leave out are then allowed for each source. With a `TokenBudget`, ranks repeat
    or leave out whole batches.

    Args:
        make_dataset: A function that makes a new dataset, with `rank=` and `world_size=` passed on.
            All other arguments of the dataset must be the same in each call.
        world_sizes: The numbers of ranks to check.
        uneven: The dataset's `uneven` argument.
        drop_last: The dataset's `drop_last` argument.
        epoch: Number of the epoch.

    Raises:
        AssertionError: Rows are missing or come too often, or ranks differ; the message names the
            world size.
    """
    with closing(make_dataset(rank=0, world_size=1)) as dataset:
        dataset.set_epoch(epoch)
        start = dataset.state_dict()
        orders = [source["order"] for source in start.get("sources", [start])]
        whole, batches = Counter[Any](), []
        for batch in dataset:
            batches.append(row_keys(batch))
            whole.update(batches[-1])
    # On a world of one, only drop_last leaves out rows; other worlds may deliver these rows.
    largest = max(map(len, batches), default=1)
    lost = largest if drop_last else 0
    # What a rank repeats or leaves out is a row, or with a TokenBudget (as text) a batch.
    unit = largest if any(isinstance(order["batch_size"], str) for order in orders) else 1
    sources = len(orders)
    for world in world_sizes:
        alone, _, _ = _deliver(make_dataset, world, start, epoch, 0, None, uneven)
        _check(alone, whole, _Allowed(uneven, world * sources, lost, unit), f"on {world} ranks")
    state: Mapping[str, Any] = start
    rows: list[Hashable] = []
    ranks = done = 0
    for number, world in enumerate(world_sizes):
        steps = None if number == len(world_sizes) - 1 else 1 + len(batches) // (3 * world)
        more, state, done = _deliver(make_dataset, world, state, epoch, done, steps, uneven)
        rows += more
        ranks += world
    allowed = _Allowed(uneven, ranks * sources, lost, unit)
    _check(rows, whole, allowed, f"on {list(world_sizes)} in turn")


class _Allowed:
    """The numbers of rows that may be repeated and left out in total.

    Args:
        uneven: the dataset's `uneven` argument.
        ends: number of ranks' slices; each slice may repeat or leave out rows at its end.
        lost: number of rows that drop_last may leave out at the end of a slice.
        unit: the most rows that `uneven` may repeat or leave out at the end of a slice.

    Attributes:
        repeats: number of rows that may be repeated.
        lost: number of rows that may be left out.
        new: True if rows may come that a world of one leaves out.
    """

    def __init__(self, uneven: str, ends: int, lost: int, unit: int) -> None:
        self.repeats = ends * unit if uneven == "wrap" else 0
        self.lost = ends * (lost + (unit if uneven == "drop" else 0))
        self.new = lost > 0


def _deliver(
    make_dataset: Callable[..., Any],
    world: int,
    state: Mapping[str, Any],
    epoch: int,
    done: int,
    steps: int | None,
    uneven: str,
) -> tuple[list[Hashable], Mapping[str, Any], int]:
    """Deliver the rows of all ranks in `steps` steps; None = all steps.

    Returns:
        The keys of the rows, the state after the steps, and the number of batches after the steps.
    """
    rows: list[Hashable] = []
    counts, states = [], []
    with ExitStack() as stack:
        for rank in range(world):
            dataset = stack.enter_context(closing(make_dataset(rank=rank, world_size=world)))
            dataset.load_state_dict(state)
            dataset.set_epoch(epoch)  # which may have been delivered to its end
            expected = len(dataset) - done
            keys = [row_keys(batch) for batch in islice(dataset, steps)]
            if steps is None and len(keys) != expected:
                raise AssertionError(
                    f"Expected {expected} batches as len() said, got {len(keys)} - on rank "
                    f"{rank} of {world}"
                )
            rows += [key for batch in keys for key in batch]
            counts.append(len(keys))
            states.append(dataset.state_dict())
    if uneven != "keep":
        if len(set(counts)) > 1:
            raise AssertionError(f"Expected equally many batches on each rank, got {counts}")
        if any(other != states[0] for other in states):
            raise AssertionError(f"Expected the same state of each of {world} ranks, got {states}")
    most = counts.index(max(counts))
    return rows, states[most], done + counts[most]


def _check(rows: list[Hashable], whole: Counter[Any], allowed: _Allowed, where: str) -> None:
    got = Counter(rows)
    lost, more = (whole - got).total(), got - whole
    if lost > allowed.lost:
        raise AssertionError(
            f"Expected at most {allowed.lost} rows of the epoch left out, got {lost} - {where}"
        )
    strangers = [row for row in more if row not in whole]
    if strangers and not allowed.new:
        raise AssertionError(
            f"Expected rows of the epoch, got {len(strangers)} others, such as {strangers[0]!r} - "
            f"{where}"
        )
    repeats = more.total() - len(strangers)
    if repeats > allowed.repeats:
        raise AssertionError(
            f"Expected at most {allowed.repeats} rows repeated, got {repeats} - {where}"
        )


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
