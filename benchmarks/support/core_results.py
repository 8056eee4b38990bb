"""Results of `bench_core.py`, kept as JSON with one file per kind of host."""

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
    """One measured number, identified by section, row and mode.

    Attributes:
        section: section of the benchmark.
        row: row of the section.
        mode: mode of the row.
        value: the number, a ratio.
        goal: the least value wanted; None = no goal.
        most: True if the goal is the largest value wanted instead.
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
        """Return the key of the figure: section, row and mode."""
        return self.section, self.row, self.mode

    @property
    def short(self) -> bool:
        """Return True if the figure, as printed, misses its goal."""
        if self.goal is None:
            return False
        value = round(self.value, 2)
        return value > self.goal if self.most else value < self.goal


def store(figures: list[Figure], repeats: int) -> Path:
    """Store the figures for this kind of host; replace stored figures of the same names.

    Each figure is stored with its date and revision, because figures may be measured separately.
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
    """Return the stored figures for this kind of host, by name.

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
    """Return the name of the processor with its family and model, because names may be vague."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    said = dict(re.split(r"\s*:\s*", line, maxsplit=1) for line in lines if ":" in line)
    parts = [said.get(key) for key in ("model name", "cpu family", "model")]
    return " ".join(part for part in parts if part) or platform.machine()


def _revision() -> str:
    """Return the commit, with "+" if files differ from the commit; "" outside a repository."""
    command = ["git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"]
    place = DIRECTORY.parent
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)  # noqa: S603  git
    return done.stdout.strip()
