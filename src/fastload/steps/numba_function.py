"""Functions that numba compiled: the version and the values that went into their machine code."""

from __future__ import annotations

import builtins
import importlib.metadata
from typing import Any

__all__ = ["compiled_with", "is_compiled", "numba_version"]

_PLAIN = (bool, int, float, str, bytes)


def is_compiled(value: Any) -> bool:
    """Return True for a function of numba, with the Python function as `py_func`."""
    return type(value).__module__.partition(".")[0] == "numba" and hasattr(value, "py_func")


def numba_version() -> str:
    """Return the version of numba, on which the results of compiled functions depend."""
    try:
        return importlib.metadata.version("numba")
    except importlib.metadata.PackageNotFoundError:
        return ""


def compiled_with(value: Any) -> list[tuple[str, str, Any]]:
    """Return what a function of numba was compiled with, and its names mean no longer.

    numba reads globals and closures when it compiles a function for some types of arguments, and
    this machine code stays as it is. A list has the types, the name and the value.
    """
    code = value.py_func.__code__
    cells = dict(zip(code.co_freevars, value.py_func.__closure__ or (), strict=True))
    frozen = []
    for signature, made in [*getattr(value, "overloads", {}).items()]:
        # What numba has read from its own cache has no blocks.
        blocks = getattr(getattr(made, "type_annotation", None), "blocks", {})
        one: Any
        for one in (
            getattr(line, "value", None) for block in blocks.values() for line in block.body
        ):
            kind = type(one).__name__
            if kind == "FreeVar" and one.name in cells:
                now = cells[one.name].cell_contents
            elif kind == "Global" and one.name in code.co_names:
                now = value.py_func.__globals__.get(one.name, vars(builtins).get(one.name))
            else:
                continue
            plain = type(now) is type(one.value) and type(now) in _PLAIN
            if now is not one.value and not (plain and repr(now) == repr(one.value)):
                frozen.append((str(signature), one.name, one.value))
    return frozen
