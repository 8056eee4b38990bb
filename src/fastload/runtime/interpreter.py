"""A check of the interpreter, made before any other import of the package."""

from __future__ import annotations

import ctypes
import sysconfig

__all__ = ["check_interpreter"]


def check_interpreter() -> None:
    """Raise in an interpreter that can't run the core.

    Raises:
        ImportError: this is a subinterpreter, or a Python without a global interpreter lock.
    """
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise ImportError(
            "Expected a Python with the global interpreter lock, got a free-threaded build: the "
            "core relies on the lock where it hands out batches. Install fastload in a Python of "
            "the usual build, where the core's own threads run without the lock, too"
        )
    if not _is_main():
        raise ImportError(
            "Expected the main interpreter, got a subinterpreter: the core's threads and memory "
            "belong to the process. Use multiprocessing, or DataLoader(num_workers=...)"
        )


def _is_main() -> bool:
    api = ctypes.pythonapi
    own, main = api.PyInterpreterState_Get, api.PyInterpreterState_Main
    own.restype = main.restype = ctypes.c_void_p
    return bool(own() == main())
