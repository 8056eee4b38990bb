"""The only module that loads the compiled core, namely the core for the installed pyarrow.

A core is linked to the libarrow and libparquet inside the pyarrow wheel, whose ABI changes
with every release series. So an installation holds several cores side by side, one for each
of several series: `_core_pyarrow26` and so on. This module loads the core for the installed
pyarrow as `fastload.runtime._core`. If no core fits, it raises an error that names the pyarrow
to install, before anything is linked.

Attributes:
    core: the module `fastload.runtime._core`.
    PYARROW_VERSIONS: versions of pyarrow for which this installation has a core.
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys
import sysconfig
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


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


check_interpreter()

import pyarrow  # noqa: E402 - only safe after the check

NAME = "fastload.runtime._core"
REBUILD = (
    "`pip install --no-build-isolation --no-deps --force-reinstall .` or `make build` in a checkout"
)

try:
    from fastload.runtime._build_info import PYARROW_VERSIONS
except ImportError:
    raise ImportError(
        "Expected fastload's compiled core, found none: it was never built. Run `make build` in "
        "the checkout, or install the package with pip"
    ) from None


def series_of(version: str) -> tuple[str, ...]:
    """Return the release series of a version, which fixes the ABI: its major and minor number."""
    return tuple(version.split(".")[:2])


def fitting(built: Sequence[str], installed: str) -> str:
    """Return the version whose core the installed pyarrow can use.

    Args:
        built: versions of pyarrow that cores were built against, such as "26.0.1".
        installed: version of the installed pyarrow.

    Raises:
        ImportError: every core was built against another major or minor version, so its ABI
            may differ.
    """
    for version in built:
        if series_of(version) == series_of(installed):
            return version
    series = [".".join(series_of(version)) for version in built]
    raise ImportError(
        f"Expected pyarrow {' or '.join(series)}, which fastload's core is built for, got pyarrow "
        f"{installed}: install `pyarrow=={built[-1]}`, or rebuild fastload for the pyarrow you "
        f"have with {REBUILD}"
    )


def load(version: str) -> None:
    """Load the core built against a version of pyarrow as the module `fastload.runtime._core`."""
    major, minor = series_of(version)
    soversion = f"{major}{int(minor):02d}"
    file = f"{soversion}.dylib" if sys.platform == "darwin" else f"so.{soversion}"
    # `import pyarrow` loads only libarrow. With pyarrow's libparquet loaded here, the core finds
    # libparquet by name wherever pyarrow is installed, not only right beside fastload.
    libparquet = Path(pyarrow.__file__).with_name(f"libparquet.{file}")
    if libparquet.exists():
        ctypes.CDLL(str(libparquet))
    # Modules and stubs use one name for the core, whichever file the core came from.
    path = Path(__file__).with_name(f"_core_pyarrow{major}{EXTENSION_SUFFIXES[0]}")
    spec = importlib.util.spec_from_file_location(NAME, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[NAME] = module
    package, _, attribute = NAME.rpartition(".")
    setattr(sys.modules[package], attribute, module)


load(fitting(PYARROW_VERSIONS, pyarrow.__version__))

from fastload.runtime import _core as core  # noqa: E402 - exists only after load()

__all__ = ["PYARROW_VERSIONS", "core"]
