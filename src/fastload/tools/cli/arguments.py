"""Types of arguments that several commands take."""

from __future__ import annotations

import argparse
import json
from typing import Any

__all__ = ["conditions_of", "names_of", "positive"]

_FORM = 'JSON such as [["day", "<", 30]]'
_PARTS = 3  # of a condition: column, operator and value


def names_of(text: str) -> list[str]:
    """Convert names with commas between them to a list."""
    return [name for name in text.split(",") if name]


def positive(text: str) -> int:
    """Convert digits to a number from 1 up.

    Raises:
        ArgumentTypeError: the text is no such number.
    """
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"Expected a number from 1 up, got {text}")
    return int(text)


def conditions_of(text: str) -> Any:
    """Convert the JSON of `--filters` to conditions of the dataset: lists of JSON become tuples.

    Raises:
        ArgumentTypeError: the text is not a list of conditions in JSON.
    """
    try:
        found = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"Expected {_FORM}, got {text}: {error}") from None
    if not isinstance(found, list):
        raise argparse.ArgumentTypeError(f"Expected a list of conditions, got {text}")
    try:
        return [_condition(each) for each in found]
    except ValueError:
        # A single condition is the usual mistake: tuples of Python may stand alone.
        alone = f": write [{text}]" if _is_condition(found) else ""
        raise argparse.ArgumentTypeError(
            f"Expected {_FORM}, each condition a list of a column, an operator and a value, got "
            f"{text}{alone}"
        ) from None


def _condition(found: Any) -> Any:
    """Convert one condition, or a list of conditions that "and" joins.

    Raises:
        ValueError: the value is neither.
    """
    if isinstance(found, list) and found and isinstance(found[0], list):
        return [_condition(each) for each in found]
    if not _is_condition(found):
        raise ValueError(found)
    return tuple(found)


def _is_condition(found: Any) -> bool:
    return isinstance(found, list) and len(found) == _PARTS and isinstance(found[0], str)
