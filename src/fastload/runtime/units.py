"""Numbers with units, as people write and read them."""

from __future__ import annotations

import re

__all__ = ["ago", "counted", "duration_of", "million", "parse_bytes", "size_of"]

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(I?)B?\s*", re.IGNORECASE)

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400


def parse_bytes(size: int | str, name: str = "memory_budget") -> int:
    """Convert a size such as 4_000_000_000, "4GB" (10**9) or "4GiB" (2**30) to bytes.

    Args:
        size: bytes, or a number with a unit.
        name: name of the parameter, for error messages.

    Raises:
        TypeError: `size` is neither an int nor a str.
        ValueError: `size` is a str that is not a size, or `size` is not in [1, 2**63).
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
    if value >= 1 << 63:
        raise ValueError(f"Expected {name} of less than 2**63 bytes, got {size!r}")
    return value


def size_of(count: float) -> str:
    """Format a number of bytes in a unit that is easy to read."""
    if count == 1:
        return "1 byte"
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 999.5:
            return f"{_digits(count)} {unit}"
        count /= 1000
    return f"{_digits(count)} TB"


def duration_of(seconds: float) -> str:
    """Format a number of seconds in a unit that is easy to read."""
    if seconds <= 0:
        return "0 s"
    for factor, unit in ((1e6, "us"), (1e3, "ms")):
        if seconds * factor < 999.5:
            return f"{_digits(seconds * factor)} {unit}"
    if seconds < _MINUTE_S:
        return f"{_digits(seconds)} s"
    whole = round(seconds)
    if whole < _HOUR_S:
        return f"{whole // _MINUTE_S} min {whole % _MINUTE_S} s"
    return f"{whole // _HOUR_S} h {whole % _HOUR_S // _MINUTE_S} min"


def million(number: float) -> str:
    """Format a number of rows a second, such as "13.4 M", "0.9 M" or "48.2 k"."""
    for least, factor, unit in ((9.5e4, 1e6, "M"), (995, 1e3, "k")):
        if number >= least:
            return f"{number / factor:,.1f} {unit}"
    return f"{number:.0f}"


def counted(number: int, noun: str) -> str:
    """Format a number of things, such as "1 file" or "2,000 files"."""
    if number == 1:
        return f"1 {noun}"
    plural = f"{noun[:-1]}ies" if noun.endswith("ry") else f"{noun}s"
    return f"{number:,} {plural}"


def ago(seconds: float) -> str:
    """Format a time that passed, such as "5 minutes ago"."""
    if seconds < _MINUTE_S:
        return "just now"
    for unit_s, unit, most_s in (
        (_MINUTE_S, "minute", 2 * _HOUR_S),
        (_HOUR_S, "hour", 2 * _DAY_S),
        (_DAY_S, "day", float("inf")),
    ):
        if seconds < most_s:
            return f"{counted(int(seconds // unit_s), unit)} ago"
    raise AssertionError("the last unit has no limit")


def _digits(number: float) -> str:
    """Format a number below 1000 with up to three digits."""
    return f"{number:.3g}" if number < 999.5 else f"{number:.0f}"


def _power(unit: str) -> int:
    return "KMGT".index(unit.upper()) + 1 if unit else 0
