"""Rows of the core's table: the columns to load from each file, and the goals for speed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import core_workloads

from fastload import Pack, Stack
from fastload.tools.bench import sample

_NUMERIC = [f"numeric_{j:02}" for j in range(1, sample.NUMERIC + 1)]
_CATEGORICAL = [f"category_{j:02}" for j in range(1, sample.CATEGORICAL + 1)]
# One column of each kind: few values; all values different; ids.
_THREE = ["label", "numeric_03", "category_20"]
# Enough copies that a pass takes longer than a few milliseconds.
_COPIES_OF_THREE = 4
_L2 = Path("/sys/devices/system/cpu/cpu0/cache/index2/size")
_LARGE_L2_KIB = 1024


@dataclass(frozen=True)
class Row:
    """One row of the table.

    Attributes:
        name: name of the row.
        file: name of the file in `core_workloads.RECIPES`.
        in_order: goal in order, as a share of the roof.
        shuffled: goals shuffled, as shares of the roof, where a core has less than 1 MiB of L2, and
            elsewhere.
        columns: the columns argument of the dataset.
        copies: number of times that a pass reads the file, under different names.
        options: other arguments of the dataset.

    The goals were set for datasets that keep no pages in memory.
    """

    name: str
    file: str
    in_order: float
    shuffled: tuple[float, float]
    columns: Any = None
    copies: int = 1
    options: dict[str, Any] = field(default_factory=dict)

    def goal(self, *, shuffle: bool) -> float:
        """Return the goal: the share of the roof to reach."""
        return self.shuffled[_has_large_l2()] if shuffle else self.in_order

    @property
    def is_kept(self) -> bool:
        """True if datasets keep the decompressed pages of the file in memory."""
        return core_workloads.RECIPES[self.file].options.get("compression") != "none"

    def source(self, directory: Path) -> list[str]:
        """Return the paths to read; make missing files in `directory`."""
        path = core_workloads.path(directory, self.file)
        names = [path] + [path.with_suffix(f".{i}.parquet") for i in range(1, self.copies)]
        for name in names[1:]:
            if not name.is_symlink():
                name.symlink_to(path.name)
        return [str(name) for name in names]


@cache
def _has_large_l2() -> bool:
    """Return True if a core has 1 MiB of L2, or if Linux does not say how much."""
    size = _L2.read_text().strip() if _L2.exists() else ""
    return not size.endswith("K") or int(size[:-1]) >= _LARGE_L2_KIB


def _packed() -> dict[str, Any]:
    return {"pack": Pack("tokens", 2048), "batch_size": 64}


def _stacks() -> dict[str, Any]:
    numbers, ids = Stack(_NUMERIC), Stack(_CATEGORICAL, "int64")
    return {"label": "label", "numeric": numbers, "categories": ids}


ROWS = (
    Row("click-log-none", "click-log-none", 0.75, (0.55, 0.65)),
    Row("click-log-snappy", "click-log-snappy", 0.85, (0.75, 0.85)),
    Row("click-log-zstd", "click-log-zstd", 0.95, (0.80, 0.90)),
    Row("three-columns", "click-log-snappy", 0.60, (0.40, 0.45), _THREE, _COPIES_OF_THREE),
    Row("stacks", "click-log-snappy", 0.80, (0.55, 0.60), _stacks()),
    Row("lineitem", "lineitem", 0.65, (0.45, 0.45)),
    Row("tokens", "tokens", 0.75, (0.55, 0.55)),
    Row("packed", "tokens", 0.55, (0.55, 0.55), options=_packed()),
    Row("embedding", "embedding", 0.85, (0.65, 0.65)),
    Row("embedding-list", "embedding-list", 0.85, (0.65, 0.65)),
    Row("wide", "wide", 0.65, (0.45, 0.60)),
    Row("wide-300", "wide-300", 0.65, (0.45, 0.60)),
    Row("groups-of-5000", "click-log-groups-of-5000", 0.5, (0.4, 0.4)),
    Row("one-group", "click-log-one-group", 0.7, (0.5, 0.5)),
)
BY_NAME = {row.name: row for row in ROWS}
