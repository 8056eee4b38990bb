"""Choice of the Python that runs a contender: this Python, or one of a separate environment.

Some loaders need releases of pyarrow or numpy that fastload does not support. `make peers`
installs each of these loaders into build/peers/PACKAGE, below the repository's root;
FASTLOAD_BENCH_ENVIRONMENTS names another directory.
"""

from __future__ import annotations

import os
import sys
from importlib import metadata
from pathlib import Path

# In a separate environment, an empty package replaces fastload, whose __init__ loads the core.
_APART = (
    "import sys, types; package = types.ModuleType('fastload'); "
    "package.__path__ = [sys.argv[1]]; sys.modules['fastload'] = package; "
    "from fastload.tools.bench.child import main; main()"
)


def version(package: str) -> str | None:
    """Return a package's version, here or in a separate environment; None if not installed."""
    return version_here(package) or _version_apart(package)


def version_here(package: str) -> str | None:
    """Return a package's version in this Python; None if not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def command(package: str) -> list[str]:
    """Return the command that runs `fastload.tools.bench.child` where the package is installed."""
    if version_here(package) is None and _version_apart(package) is not None:
        python = _directory(package) / "bin" / "python"
        return [str(python), "-c", _APART, str(Path(__file__).parents[2])]
    return [sys.executable, "-m", "fastload.tools.bench.child"]


def _version_apart(package: str) -> str | None:
    libraries = [str(path) for path in _directory(package).glob("lib/python*/site-packages")]
    found = metadata.distributions(name=package, path=libraries)
    return next((distribution.version for distribution in found), None)


def _directory(package: str) -> Path:
    return Path(os.environ.get("FASTLOAD_BENCH_ENVIRONMENTS", "build/peers"), package).absolute()
