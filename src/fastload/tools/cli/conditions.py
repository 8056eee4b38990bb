"""The conditions of `--filters`, given as JSON."""

from __future__ import annotations

import argparse
import json
from typing import Any

__all__ = ["conditions_of"]


def conditions_of(text: str) -> Any:
    """Convert JSON to the conditions that the dataset takes: lists of JSON become tuples.

    Raises:
        ArgumentTypeError: the text is not a list in JSON.
    """
    try:
        found = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"Expected JSON, got {error}") from None
    if not isinstance(found, list):
        raise argparse.ArgumentTypeError(f"Expected a list of conditions, got {text}")
    return [_condition(each) for each in found]


def _condition(found: Any) -> Any:
    if isinstance(found, list) and found and isinstance(found[0], list):
        return [_condition(each) for each in found]
    return tuple(found) if isinstance(found, list) else found
