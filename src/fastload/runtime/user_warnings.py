"""Warnings for the user, shown at the line of the user's code that called the package."""

from __future__ import annotations

import inspect
import os
import warnings
from pathlib import Path

__all__ = ["warn"]

_PACKAGE = os.path.join(Path(__file__).parents[1], "")


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost frame of the stack whose file lies outside this package.

    Python filters warnings by the file and line of this frame. In a thread that the package
    started, the frame belongs to Python's `threading` or `concurrent.futures`.
    """
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
