"""What `bench_core.py` measures, and where it is kept: JSON, one file per kind of host."""

from __future__ import annotations

import datetime
import json
import os
import platform
import re
import subprocess
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

import fastload
from fastload.runtime.cores import available_cores

DIRECTORY = Path(__file__).parents[1] / "results"
_DIGITS = 4


@dataclass(frozen=True)
class Figure:
    """One measured number.

    section, row, mode: what it is of; together they tell it from the others.
    value: a ratio.
    goal: what it should be at least; None if that is not said.
    most: the goal is what it should be at most.
    details: other medians of the same runs, with units in their names.
    """

    section: str
    row: str
    mode: str
    value: float
    goal: float | None = None
    most: bool = False
    details: dict[str, float] = field(default_factory=dict)

    @property
    def name(self) -> tuple[str, str, str]:
        """What tells it from the others."""
        return self.section, self.row, self.mode

    @property
    def short(self) -> bool:
        """Whether it misses its goal, as printed."""
        if self.goal is None:
            return False
        value = round(self.value, 2)
        return value > self.goal if self.most else value < self.goal


def store(figures: list[Figure], repeats: int) -> Path:
    """Keeps the figures for this kind of host, in place of those of the same names.

    Each is kept with its date and revision, as not all need be measured at once.
    """
    date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="minutes")
    made = {"date": date, "revision": _revision(), "repeats": repeats}
    entries = {_name_of(entry): entry for entry in _entries()}
    entries |= {figure.name: {**_rounded(asdict(figure)), **made} for figure in figures}
    lines = ",\n".join(f"    {json.dumps(entry)}" for entry in entries.values())
    file = _path()
    file.parent.mkdir(exist_ok=True)
    file.write_text(f'{{\n  "host": {json.dumps(_host())},\n  "figures": [\n{lines}\n  ]\n}}\n')
    return file


def stored() -> dict[tuple[str, str, str], Figure]:
    """What was kept last for this kind of host, by name.

    Raises:
        SystemExit: nothing was kept.
    """
    entries = _entries()
    if not entries:
        raise SystemExit(f"Expected results to compare with, got none - at {_path()}")
    names = list(Figure.__dataclass_fields__)
    return {_name_of(entry): Figure(**{name: entry[name] for name in names}) for entry in entries}


def _entries() -> list[dict[str, Any]]:
    file = _path()
    return json.loads(file.read_text())["figures"] if file.exists() else []


def _name_of(entry: dict[str, Any]) -> tuple[str, str, str]:
    return entry["section"], entry["row"], entry["mode"]


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return round(value, _DIGITS) if isinstance(value, float) else value


def _path() -> Path:
    kind = re.sub(r"[^a-z0-9]+", "-", f"{_cpu()} {available_cores()} cores".lower())
    return DIRECTORY / f"{kind}.json"


def _host() -> dict[str, Any]:
    return {
        "cpu": _cpu(),
        "cores": available_cores(),
        "memory_gib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30,
        "system": platform.platform(),
        "python": platform.python_version(),
        "fastload": fastload.__version__,
        "pyarrow": pa.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
    }


def _cpu() -> str:
    """What the system calls the processor; its family and model too, as names may be vague."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    said = dict(re.split(r"\s*:\s*", line, maxsplit=1) for line in lines if ":" in line)
    parts = [said.get(key) for key in ("model name", "cpu family", "model")]
    return " ".join(part for part in parts if part) or platform.machine()


def _revision() -> str:
    """The commit, with "+" where files differ from it; "" outside a repository."""
    command = ["git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"]
    place = DIRECTORY.parent
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)  # noqa: S603  git
    return done.stdout.strip()
