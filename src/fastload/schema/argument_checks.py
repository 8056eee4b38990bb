"""Checks of the arguments that column specs share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["check_choice", "check_int", "check_name"]


def check_name(owner: str, name: object) -> None:
    """Raise TypeError unless a column name of the class `owner` is a str."""
    if not isinstance(name, str):
        raise TypeError(f"Expected a column name of {owner} to be a str, got {name!r}")


def check_choice(what: str, value: object, choices: Sequence[object]) -> None:
    """Raise ValueError, which names `what`, unless a value is one of its choices."""
    if value not in choices:
        *first, last = map(repr, choices)
        raise ValueError(f"Expected {what} to be {', '.join(first)} or {last}, got {value!r}")


def check_int(what: str, value: object, least: int, most: int) -> None:
    """Raise TypeError or ValueError, which names `what`, unless a value is an int in its range."""
    if type(value) is not int:
        raise TypeError(f"Expected {what} to be an int, got {value!r}")
    if not least <= value <= most:
        raise ValueError(f"Expected {what} in [{least}, {most}], got {value}")
