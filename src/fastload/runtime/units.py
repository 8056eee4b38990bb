"""Numbers as people read them: a few digits and a unit."""

from __future__ import annotations

__all__ = ["ago", "counted", "duration_of", "million", "size_of"]

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400


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
