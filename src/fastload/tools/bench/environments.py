"""Which Python runs a contender: this one, or one of an environment of the contender's own.

Some loaders need releases of pyarrow or numpy that fastload can't be with. `make peers` installs
each of those into build/peers/PACKAGE, where it is found from the repository's root;
FASTLOAD_BENCH_ENVIRONMENTS names another directory.
"""

from __future__ import annotations

import os
import sys
from importlib import metadata
from pathlib import Path

# There the package itself, whose __init__ loads the core, gives way to an empty one.
_APART = (
    "import sys, types; package = types.ModuleType('fastload'); "
    "package.__path__ = [sys.argv[1]]; sys.modules['fastload'] = package; "
    "from fastload.tools.bench.child import main; main()"
)


def version(package: str) -> str | None:
    """Return a package's version, here or in its own environment; None if it is in neither."""
    return _version_here(package) or _version_apart(package)


def command(package: str) -> list[str]:
    """What runs `fastload.tools.bench.child` where the package is."""
    if _version_here(package) is None and _version_apart(package) is not None:
        python = _directory(package) / "bin" / "python"
        return [str(python), "-c", _APART, str(Path(__file__).parents[2])]
    return [sys.executable, "-m", "fastload.tools.bench.child"]


def _version_here(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _version_apart(package: str) -> str | None:
    libraries = [str(path) for path in _directory(package).glob("lib/python*/site-packages")]
    found = metadata.distributions(name=package, path=libraries)
    return next((distribution.version for distribution in found), None)


def _directory(package: str) -> Path:
    return Path(os.environ.get("FASTLOAD_BENCH_ENVIRONMENTS", "build/peers"), package).absolute()
