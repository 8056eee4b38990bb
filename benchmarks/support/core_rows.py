"""The rows of the core's table: what is loaded from which file, and how fast it should be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import core_workloads

from fastload import Stack
from fastload.tools.bench import sample

if TYPE_CHECKING:
    from pathlib import Path

_NUMERIC = [f"numeric_{j:02}" for j in range(1, sample.NUMERIC + 1)]
_CATEGORICAL = [f"category_{j:02}" for j in range(1, sample.CATEGORICAL + 1)]
# One of each kind: few values; all different; ids.
_THREE = ["label", "numeric_03", "category_20"]
# So that a pass takes longer than a few milliseconds.
_COPIES_OF_THREE = 4


@dataclass(frozen=True)
class Row:
    """One line of the table.

    name: of the line.
    file: of `core_workloads.RECIPES`.
    in_order, shuffled: the goals, as shares of the roof.
    columns: as FastParquetDataset takes them.
    copies: the file is read so many times in a pass, under different names.
    """

    name: str
    file: str
    in_order: float
    shuffled: float
    columns: Any = None
    copies: int = 1

    def goal(self, *, shuffle: bool) -> float:
        """The share of the roof to reach."""
        return self.shuffled if shuffle else self.in_order

    def source(self, directory: Path) -> list[str]:
        """The paths to read, made in `directory` if they are not there."""
        path = core_workloads.path(directory, self.file)
        names = [path] + [path.with_suffix(f".{i}.parquet") for i in range(1, self.copies)]
        for name in names[1:]:
            if not name.is_symlink():
                name.symlink_to(path.name)
        return [str(name) for name in names]


def _stacks() -> dict[str, Any]:
    return {"label": "label", "numeric": Stack(_NUMERIC), "categories": Stack(_CATEGORICAL)}


ROWS = (
    Row("click-log-none", "click-log-none", 0.75, 0.45),
    Row("click-log-snappy", "click-log-snappy", 0.85, 0.60),
    Row("click-log-zstd", "click-log-zstd", 0.95, 0.70),
    Row("three-columns", "click-log-snappy", 0.80, 0.55, _THREE, _COPIES_OF_THREE),
    Row("stacks", "click-log-snappy", 0.80, 0.65, _stacks()),
    Row("lineitem", "lineitem", 0.65, 0.45),
    Row("tokens", "tokens", 0.75, 0.55),
    Row("embedding", "embedding", 0.85, 0.65),
    Row("embedding-list", "embedding-list", 0.85, 0.65),
    Row("wide", "wide", 0.65, 0.45),
    Row("groups-of-5000", "click-log-groups-of-5000", 0.5, 0.4),
    Row("one-group", "click-log-one-group", 0.7, 0.5),
)
BY_NAME = {row.name: row for row in ROWS}
