"""Warnings for the user, shown at the line of the user's code that called the package, if any."""

from __future__ import annotations

import inspect
import os
import warnings
from pathlib import Path

__all__ = ["warn"]

_PACKAGE = os.path.join(Path(__file__).parents[1], "")
_THREADS = ("threading", "concurrent", "asyncio")


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost frame of the stack whose file lies outside this package.

    Python filters warnings by the file and line of this frame. In a thread that the package
    started, no such frame is the user's, and the warning names the outermost line of the package.
    """
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    # Without a line of the user, those of Python's modules that run threads would say nothing.
    if frame is None or frame.f_globals.get("__name__", "").partition(".")[0] in _THREADS:
        level -= 1
    warnings.warn(message, category, stacklevel=level)
