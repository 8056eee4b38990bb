"""The installation and the machine, as words by section."""

from __future__ import annotations

import os
import platform
import resource
import tempfile
from importlib.util import find_spec
from pathlib import Path

import torch

from fastload.runtime.cores import available_cores
from fastload.runtime.disk.private_directory import cache_home
from fastload.runtime.native import PYARROW_VERSIONS
from fastload.runtime.platform import usable_cores
from fastload.runtime.units import counted, size_of
from fastload.runtime.version import __version__
from fastload.tools.bench.machine import host, version_of

__all__ = ["installation"]

_PACKAGES = ("torch", "pyarrow", "numpy", "numba", "fsspec", "obstore", "gcsfs", "s3fs", "adlfs")
_OPTIONAL = ("polars", "ray", "lightning", "accelerate", "transformers", "torchdata")
# Scheme -> packages of which obstore reads, and the other lists before workers are forked.
_STORES = {"gs": "gcsfs", "s3": "s3fs", "az": "adlfs", "https": "aiohttp"}
_MEMORY_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def installation() -> dict[str, dict[str, str]]:
    """Return, by section, what a report of a problem should say."""
    return {
        "versions": _versions(),
        "machine": _machine(),
        "stores": {scheme: _store(package) for scheme, package in _STORES.items()},
        "caches": _caches(),
    }


def _versions() -> dict[str, str]:
    found = {
        "fastload": f"{__version__}, core for pyarrow {', '.join(PYARROW_VERSIONS)}",
        "python": platform.python_version(),
    }
    found |= {name: version_of(name) or "not installed" for name in _PACKAGES}
    return found | {name: version for name in _OPTIONAL if (version := version_of(name))}


def _machine() -> dict[str, str]:
    usable, available = usable_cores(), available_cores()
    cores = f"{available} of {os.cpu_count()}"
    if available < usable:
        cores += f" (the quota of the container; affinity allows {usable})"
    return {
        "system": platform.platform(),
        "processor": host()["cpu"],
        "cores": cores,
        "memory": _memory(),
        "locked memory": _locked_memory(),
        "CUDA": _cuda(),
        "torch threads": f"{torch.get_num_threads()}",
    }


def _memory() -> str:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    text = size_of(total)
    for path in _MEMORY_LIMITS:
        try:
            limit = Path(path).read_text(encoding="ascii").strip()
        except OSError:
            continue
        # Without a limit, version 1 of cgroups has a number near 2**63, version 2 has "max".
        if limit.isdecimal() and int(limit) < total:
            return f"{size_of(int(limit))} (the limit of the container; the machine has {text})"
    return text


def _locked_memory() -> str:
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    if limit == resource.RLIM_INFINITY:
        return "no limit"
    return f"{size_of(limit)} (ulimit -l)"


def _cuda() -> str:
    built = torch.version.cuda
    if built is None:
        return "torch is built without CUDA"
    if not torch.cuda.is_available():
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        return f"{built}, no device" + (f" (CUDA_VISIBLE_DEVICES={visible})" if visible else "")
    names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return f"{built}, {counted(len(names), 'device')}: {', '.join(dict.fromkeys(names))}"


def _store(package: str) -> str:
    native, general = find_spec("obstore") is not None, find_spec(package) is not None
    if native and general:
        return f"obstore, {package}"
    if native:
        return f"obstore; worker processes that are forked need {package}: pip install {package}"
    return package if general else f"none: pip install obstore {package}"


def _caches() -> dict[str, str]:
    home = cache_home()
    if home is None:
        return {"footers and counts": "in memory only: no cache directory"}
    source = " ($FASTLOAD_CACHE_DIR)" if os.environ.get("FASTLOAD_CACHE_DIR") else ""
    sizes = [path.lstat().st_size for path in home.rglob("*") if path.is_file()]
    held = f"{counted(len(sizes), 'file')}, {size_of(sum(sizes))}" if sizes else "nothing yet"
    if cause := _why_not_written(home):
        held += f"; new ones stay in memory: {cause} ($FASTLOAD_CACHE_DIR names another directory)"
    return {"footers and counts": f"{home}{source}", "held": held}


def _why_not_written(directory: Path) -> str:
    """Return why no file can be made in a directory, which may not exist yet; "" if one can."""
    existing = next(each for each in (directory, *directory.parents) if os.path.exists(each))
    try:
        with tempfile.TemporaryFile(dir=existing):
            return ""
    except OSError as error:
        return f"{error.strerror} - at {existing}"
