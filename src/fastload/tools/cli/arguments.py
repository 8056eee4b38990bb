"""Types of arguments that several commands take."""

from __future__ import annotations

import argparse
import json
from typing import Any

__all__ = ["conditions_of", "names_of", "positive"]


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
        ArgumentTypeError: the text is not a list in JSON.
    """
    try:
        found = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f'Expected JSON such as [["day", "<", 30]], got {text}: {error}'
        ) from None
    if not isinstance(found, list):
        raise argparse.ArgumentTypeError(f"Expected a list of conditions, got {text}")
    return [_condition(each) for each in found]


def _condition(found: Any) -> Any:
    if isinstance(found, list) and found and isinstance(found[0], list):
        return [_condition(each) for each in found]
    return tuple(found) if isinstance(found, list) else found
