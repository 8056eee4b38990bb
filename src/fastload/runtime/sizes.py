"""Sizes in bytes as users write them."""

from __future__ import annotations

import re

__all__ = ["parse_bytes"]

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(I?)B?\s*", re.IGNORECASE)


def parse_bytes(size: int | str, name: str = "memory_budget") -> int:
    """Convert a size such as 4_000_000_000, "4GB" (10**9) or "4GiB" (2**30) to bytes.

    Args:
        size: bytes, or a number with a unit.
        name: name of the parameter, for error messages.

    Raises:
        TypeError: `size` is neither an int nor a str.
        ValueError: `size` is a str that is not a size, or `size` is not positive.
    """
    if isinstance(size, bool) or not isinstance(size, int | str):
        raise TypeError(f'Expected {name} as bytes or a size like "4GB", got {size!r}')
    if isinstance(size, int):
        value = size
    else:
        match = _SIZE.fullmatch(size)
        if match is None:
            raise ValueError(f'Expected {name} as bytes or a size like "4GB", got {size!r}')
        number, unit, binary = match.groups()
        value = int(float(number) * (1024 if binary else 1000) ** _power(unit))
    if value <= 0:
        raise ValueError(f"Expected {name} of more than 0 bytes, got {size!r}")
    return value


def _power(unit: str) -> int:
    return "KMGT".index(unit.upper()) + 1 if unit else 0
