"""Factors between the integers that files store for a column and those handed out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastload.errors import SchemaError

if TYPE_CHECKING:
    from fastload.schema.leaf_types import LeafType
    from fastload.schema.leaves import SelectedLeaf

__all__ = ["multipliers"]

_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY_S = 86_400
_MOST = 2**63 - 1  # the core's integers


def multipliers(leaf: SelectedLeaf, *, unscaled: bool) -> tuple[int, ...]:
    """From the integers that each file stores to those handed out; () = 1 for all.

    unscaled: decimals are handed out as their unscaled integers.

    Raises `SchemaError` when one exceeds int64.
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
