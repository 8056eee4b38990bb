"""The one place that loads the compiled core, after a look at what it was built against.

The core is linked to the libarrow and libparquet inside the pyarrow wheel, whose ABI
changes with every release series; a core of another series would crash or not load, so
it is refused by name first.

    core    the module `fastload._core`
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import pyarrow

REBUILD = (
    "`pip install --no-build-isolation --no-deps --force-reinstall --no-binary fastload fastload`, "
    "or `make build` in a checkout"
)

try:
    from fastload import _build_info
except ImportError:
    raise ImportError(
        "Expected fastload's compiled core, found none: it was never built. Run `make build` in "
        "the checkout, or install the package with pip"
    ) from None


def check_pairing(built: str, installed: str) -> None:
    """Checks that the core fits the pyarrow that is installed.

    Args:
        built: version of the pyarrow that the core was built against, such as "26.0.1".
        installed: version of the pyarrow that is installed.

    Raises:
        ImportError: they differ in the major or minor version, so their ABI may too.
    """
    series = built.split(".")[:2]
    if installed.split(".")[:2] != series:
        raise ImportError(
            f"Expected pyarrow {'.'.join(series)}, which fastload's compiled core was built "
            f"against, got pyarrow {installed}: install `pyarrow=={built}`, or rebuild fastload "
            f"for the pyarrow you have with {REBUILD}"
        )


check_pairing(_build_info.PYARROW_VERSION, pyarrow.__version__)

# `import pyarrow` loads libarrow alone. Loading its libparquet here lets the core find it
# by soname wherever pyarrow is installed, not only right beside fastload.
_libparquet = Path(pyarrow.__file__).with_name(f"libparquet.so.{_build_info.ARROW_SOVERSION}")
if _libparquet.exists():
    ctypes.CDLL(str(_libparquet))

from fastload import _core as core  # noqa: E402 - only safe after the check

__all__ = ["core"]
