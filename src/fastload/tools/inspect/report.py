"""Report of `fastload-inspect`, as plain values."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fastload.tools.inspect.advice import advise, pass_cost, rewrite_of
from fastload.tools.inspect.program import program

if TYPE_CHECKING:
    from fastload.schema.fields import Field
    from fastload.tools.inspect.column_layout import ColumnLayout
    from fastload.tools.inspect.dataset_layout import DatasetLayout

__all__ = ["report_of"]


def report_of(
    layout: DatasetLayout, source: str, columns: list[str] | None = None
) -> dict[str, Any]:
    """Return the report as plain values; sizes in bytes, times in seconds.

    Args:
        layout: the layout of the dataset.
        source: the source as given, for the programs.
        columns: names of the columns that were asked for; None = all columns.
    """
    cost = pass_cost(layout)
    rewrite = rewrite_of(layout)
    call = None
    if rewrite is not None:
        call = rewrite.call(source, layout.paths, layout.hive_keys)
    return {
        "source": source,
        "files": layout.files,
        "file_bytes": layout.file_bytes,
        "files_seen": layout.files_seen,
        "writers": list(layout.writers),
        "odd_footers": layout.odd_footers,
        "rows": layout.rows,
        "row_groups": {
            "count": layout.row_groups,
            "rows": asdict(layout.group_rows),
            "bytes": asdict(layout.group_bytes),
        },
        "schema": {name: _described(field) for name, field in layout.fields.items()},
        "refused": layout.refused,
        "columns": [_column(column) for column in layout.columns],
        "windows": asdict(layout.windows) if layout.windows else None,
        "pass_cpu_s": {"chunks": cost.chunks, "values": cost.values, "codecs": cost.codecs},
        "advice": [asdict(advice) for advice in advise(layout)],
        "rewrite": call,
        "first_files": [asdict(file) for file in layout.first_files],
        "lengths": {name: asdict(spread) for name, spread in layout.lengths.items()},
        "program": program(layout, source, columns),
    }


def _described(field: Field) -> dict[str, Any]:
    return {
        "dtype": str(field.dtype).removeprefix("torch."),
        "shape": list(field.shape),
        "ragged": field.ragged,
        "unit": field.unit,
        "kind": field.kind,
        "depth": field.depth,
        "note": field.note,
    }


def _column(column: ColumnLayout) -> dict[str, Any]:
    """Convert a `ColumnLayout` to plain mappings."""
    return asdict(column) | {
        "codecs": dict(column.codecs),
        "encodings": dict(column.encodings),
    }
