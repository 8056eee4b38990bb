"""fastload.skip: a saved state that leaves the next steps of the run out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastload.dataset.state import decode_position, encode_legs
from fastload.plan.options import expect_at_least

__all__ = ["skip"]


def skip(state: Mapping[str, Any], steps: int) -> dict[str, Any]:
    """Return a state that leaves the next `steps` steps of the run out.

    A step is one batch of each rank. A run that loads the state continues after these steps: its
    batches are those that the run which saved `state` would have had next, without the first
    `steps` of each rank. The steps keep their numbers in `rows_of`, and len() counts the steps as
    delivered. A run on another number of ranks or workers leaves the same rows out.

    Example:
        ds = FastParquetDataset("train", columns=["f1"], shuffle=True, batch_size=8)
        batch = next(iter(ds))
        state = ds.state_dict(after=batch)
        ds.load_state_dict(fastload.skip(state, 2))  # the next iter() begins with step 3

    Args:
        state: The result of `state_dict` of a dataset or of a mix, after a batch of the epoch.
        steps: Number of steps to leave out.
            They must lie in the epoch of the state: `load_state_dict` raises ValueError if the
            epoch has fewer steps left.

    Returns:
        A new state, to pass to `load_state_dict`; `state` does not change.

    Raises:
        TypeError: `steps` is no int.
        ValueError: `steps` is negative, or `state` is not a saved state, is the state of a
            StatefulDataLoader's worker, or was saved before the first batch of an epoch.
    """
    if type(steps) is not int:
        raise TypeError(f"Expected steps as an int, got {steps!r}")
    expect_at_least(0, steps=steps)
    given: object = state
    if isinstance(given, Mapping) and ("worker" in given or "_snapshot" in given):
        raise ValueError(
            "Expected a state of a whole rank, got one of a StatefulDataLoader, whose workers each "
            "have a state of their own: save dataset.state_dict(after=batch) instead"
        )
    position, _ = decode_position(state, None)
    if not steps:
        return dict(state)
    if not position.progress:
        raise ValueError(
            "Expected a state that was saved after a batch of the epoch, got one from before the "
            "first batch, which does not say how many ranks and workers share the next steps: "
            "take one batch, call state_dict(after=batch), and skip from there"
        )
    *before, leg = position.progress
    leg = replace(leg, delivered=leg.delivered + steps)
    return {**state, "progress": encode_legs([*before, leg])}
