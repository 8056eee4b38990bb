"""The machine and the versions of a measurement."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Any

from fastload.runtime.cores import available_cores


def host() -> dict[str, Any]:
    """Return the number of cores, the processor, the system and the versions."""
    cpu = platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            names = [line.split(":", 1)[1].strip() for line in lines if "model name" in line]
        cpu = names[0] if names else cpu
    except OSError:
        pass
    return {
        "cores": available_cores(),
        "cpu": cpu,
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": metadata.version("torch"),
    }


def version_of(package: str) -> str | None:
    """Return the version of an installed distribution; None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
