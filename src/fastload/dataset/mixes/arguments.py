"""The arguments of a mix: the checks of datasets, canonical slices and weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import TYPE_CHECKING

from fastload.dataset.mixes.mix_source import MixSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.dataset.dataset import FastParquetDataset

__all__ = ["checked_slices", "checked_sources", "checked_weights"]


def checked_sources(datasets: Mapping[str, FastParquetDataset]) -> list[MixSource]:
    """Return the sources of a mix.

    Raises:
        ValueError, TypeError: the datasets cannot be mixed.
    """
    if not isinstance(datasets, Mapping):
        raise TypeError(
            "Expected datasets as a mapping from name to FastParquetDataset, got "
            f"{type(datasets).__name__}"
        )
    if not datasets:
        raise ValueError("Expected at least one dataset to mix, got none")
    sources: list[MixSource] = []
    for name, dataset in datasets.items():
        twice = [other.name for other in sources if other.dataset is dataset]
        if twice:
            raise ValueError(
                f"The dataset of source `{twice[0]}` is used twice - at source `{name}`"
            )
        sources.append(MixSource(name, dataset))
    return sources


def checked_slices(sources: Sequence[MixSource]) -> int | None:
    """Return the number of canonical slices of each source; None = no source has slices.

    Raises:
        ValueError: the sources disagree.
    """
    first = sources[0]
    for other in sources[1:]:
        slices, others = first.canonical_ranks, other.canonical_ranks
        if slices == others:
            continue
        if slices is None or others is None:
            have, lack = (first, other) if others is None else (other, first)
            raise ValueError(
                f"Expected canonical_ranks={have.canonical_ranks} as source `{have.name}` has, got "
                f"none: write canonical_ranks={have.canonical_ranks} in each dataset, with "
                "global_batch_size instead of batch_size unless batch_size is a TokenBudget; or "
                f"write batch_size in each, and canonical_ranks in none - at source `{lack.name}`"
            )
        raise ValueError(
            f"Expected canonical_ranks={slices} as source `{first.name}` has, got "
            f"canonical_ranks={others}: write the same canonical_ranks in each dataset - at source "
            f"`{other.name}`"
        )
    return first.canonical_ranks


def checked_weights(
    weights: Mapping[str, float] | Sequence[float] | None, names: Sequence[str]
) -> tuple[float, ...] | None:
    """Return the weight of each source that `names` names, or None if none are given.

    Raises:
        ValueError, TypeError: the weights are not positive numbers, one for each source.
    """
    if weights is None:
        return None
    if isinstance(weights, Mapping):
        if set(weights) != set(names):
            raise ValueError(f"Expected weights of {list(names)}, got those of {list(weights)}")
        weights = [weights[name] for name in names]
    if len(weights) != len(names):
        raise ValueError(f"Expected a weight of each of {list(names)}, got {len(weights)} weights")
    for name, weight in zip(names, weights, strict=True):
        given: object = weight
        if isinstance(given, bool) or not isinstance(given, Real):
            raise TypeError(f"Expected weights as numbers, got {weight!r} - at source `{name}`")
        if not (weight > 0 and math.isfinite(weight)):
            raise ValueError(
                f"Expected positive and finite weights, got {weight!r} - at source `{name}`"
            )
    return tuple(float(weight) for weight in weights)
