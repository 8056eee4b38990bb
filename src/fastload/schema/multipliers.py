"""Factors from the integers that files store to the integers that batches hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastload.errors import SchemaError

if TYPE_CHECKING:
    from fastload.schema.leaf_types import LeafType
    from fastload.schema.leaves import SelectedLeaf

__all__ = ["multipliers"]

_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY_S = 86_400
_MOST = 2**63 - 1  # the core multiplies by int64


def multipliers(leaf: SelectedLeaf, *, unscaled: bool) -> tuple[int, ...]:
    """Return the factor from the stored to the delivered integers of each file; () = all are 1.

    Args:
        leaf: the leaf column of all files.
        unscaled: deliver decimals as their unscaled integers.

    Raises:
        SchemaError: a factor exceeds int64.
    """
    factors = {id(t): _multiplier(t, leaf.type, unscaled=unscaled) for t in leaf.types}
    if set(factors.values()) == {1}:
        return ()
    if max(factors.values()) > _MOST:
        arrow = ", ".join(map(str, leaf.types))
        raise SchemaError(
            "Expected decimals whose unscaled integers fit int64 at one scale, got the types "
            f"{arrow} - at column `{leaf.name}`"
        )
    stored = leaf.stored or (leaf.type,) * len(leaf.indices)
    return tuple([factors[id(type_)] for type_ in stored])


def _multiplier(stored: LeafType, common: LeafType, *, unscaled: bool) -> int:
    if stored.kind == "null":
        return 1
    if unscaled:
        scale = stored.arrow.scale if stored.kind == "decimal" else 0
        return int(10 ** (common.arrow.scale - scale))
    if stored.unit is None or common.unit is None or stored.unit == common.unit:
        return stored.multiplier
    if stored.unit == "day":
        return _DAY_S * _TICKS[common.unit]
    return _TICKS[common.unit] // _TICKS[stored.unit]
