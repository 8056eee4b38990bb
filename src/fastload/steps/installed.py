"""What Python and installed packages hold under a name, and their versions."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import os
import sys
import sysconfig
import types
from typing import Any

import numpy as np

__all__ = ["installed_name", "installed_version", "is_held"]

# Py_TPFLAGS_HEAPTYPE: set for classes of class statements, and not for most classes in C.
_HEAP_TYPE = 1 << 9


def installed_name(value: Any) -> str:
    """Return the module, the version and the name by which an installed package holds a value.

    The name is "" for a value that no installed package holds.
    """
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if isinstance(value, types.ModuleType):
        module, name = value.__name__, ""
    elif isinstance(value, types.BuiltinFunctionType):
        owner = value.__self__  # the module, or the object of a method
        module = owner.__name__ if isinstance(owner, types.ModuleType) else None
    elif isinstance(value, np.ufunc):  # which does not know its module
        name = value.__name__
        module = next((held for held in sorted(sys.modules) if _holds(held, value)), None)
    elif isinstance(value, type) and not value.__flags__ & _HEAP_TYPE:
        pass  # a class in C, whose module may not hold it
    elif not (isinstance(module, str) and isinstance(name, str) and is_held(value)):
        return ""
    elif isinstance(value, types.FunctionType) and not installed_version(_scope_of(value)):
        return ""  # the package holds a user's function
    version = installed_version(module)
    return f"{module} {version} {name}" if version else ""


def installed_version(module: str | None) -> str:
    """Return the version of Python or of the installed package that a module belongs to.

    The version is "" for a module of the user's.
    """
    if not module:
        return ""
    top = module.partition(".")[0]
    found = sys.modules.get(top)
    file = getattr(found, "__file__", None)
    if found is None and (spec := importlib.util.find_spec(top)) is not None:
        file = spec.origin if spec.has_location else None
    return _version(top, file, getattr(found, "__version__", ""))


@functools.cache
def _version(top: str, file: str | None, own: str) -> str:
    paths = sysconfig.get_paths()
    folders = {paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    held = tuple(os.path.realpath(folder) + os.sep for folder in folders)
    installed = file is not None and os.path.realpath(file).startswith(held)
    if top in sys.stdlib_module_names and (installed or file is None):
        return sys.version.partition(" ")[0]
    if not installed:
        return ""
    try:
        return importlib.metadata.version(top)
    except importlib.metadata.PackageNotFoundError:
        return str(own)


def is_held(value: Any) -> bool:
    """Return True if the module of a function or class holds the object under its name.

    An object without a name is held by no module.
    """
    found = sys.modules.get(value.__module__)
    for part in getattr(value, "__qualname__", "").split("."):
        found = getattr(found, part, None)
    return getattr(found, "__func__", found) is value


def _holds(module: str, function: np.ufunc) -> bool:
    held = getattr(sys.modules.get(module), "__dict__", {}).get(function.__name__)
    return held is function and bool(installed_version(module))


def _scope_of(function: types.FunctionType) -> str | None:
    """Return the module whose globals a function uses: `__module__` may be copied from another."""
    return function.__globals__.get("__name__")
