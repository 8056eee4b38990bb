"""Report of `fastload-inspect`, as plain values for JSON and as lines of text."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fastload.tools.inspect.advice import advise, pass_cost, rewrite_of, size_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fastload.schema.fields import Field
    from fastload.tools.inspect.column_layout import ColumnLayout
    from fastload.tools.inspect.dataset_layout import DatasetLayout

__all__ = ["lines_of", "report_of"]


def report_of(layout: DatasetLayout, source: str) -> dict[str, Any]:
    """Return the report as plain values; sizes in bytes, times in seconds.

    Args:
        layout: the layout of the dataset.
        source: the source as given, for the call that writes the files again.
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
    }


def lines_of(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the report."""
    groups = report["row_groups"]
    yield (
        f"{report['source']}: {_counted(report['files'], 'file')}, "
        f"{size_of(report['file_bytes'])}, {_counted(report['rows'], 'row')} in "
        f"{_counted(groups['count'], 'row group')}"
    )
    yield f"  written by {'; '.join(report['writers'])}"
    yield f"  rows of a row group   {_spread(groups['rows'])}"
    yield f"  bytes of a row group  {_spread(groups['bytes'])}"
    if report["files_seen"] < report["files"]:
        yield f"  columns below are of {report['files_seen']:,} files, spread evenly over all files"
    yield ""
    yield from _schema_lines(report)
    yield ""
    yield from _table(_COLUMN_HEADS, [_column_cells(column) for column in report["columns"]])
    yield ""
    yield from _window_lines(report["windows"])
    yield _pass_line(report["pass_cpu_s"])
    yield ""
    yield from _advice_lines(report["advice"])
    if report["rewrite"]:
        yield ""
        yield from report["rewrite"].splitlines()


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


def _schema_lines(report: Mapping[str, Any]) -> Iterator[str]:
    nulls = {column["name"]: column["nulls"] for column in report["columns"]}
    rows = []
    for name, field in report["schema"].items():
        notes = [field["note"]] if field["note"] else []
        # Footers count empty lists as nulls, so their counts say nothing about lists.
        in_lists = field["depth"] or field["shape"]
        if nulls.get(name) and not in_lists and not field["dtype"].startswith("float"):
            notes.insert(0, f"{nulls[name]:,} nulls: Column({name!r}, fill=...) or valid=True")
        rows.append([name, _tensor(field), "; ".join(notes)])
    yield from _table(["output", "tensor", ""], rows)
    for name, why in report["refused"].items():
        yield f"{name}: can't be read as it is: {why}"


def _tensor(field: Mapping[str, Any]) -> str:
    unit = f" in {field['unit']}" if field["unit"] else ""
    if field["ragged"]:
        inner = field["kind"] or _shaped(field["dtype"], field["shape"])
        levels = "lists of " * field["depth"]
        return f"Ragged: {levels}{inner}{unit}"
    return _shaped(field["dtype"], ["B", *field["shape"]]) + unit


def _shaped(dtype: str, shape: Sequence[Any]) -> str:
    comma = "," if len(shape) == 1 else ""
    return f"{dtype} ({', '.join(map(str, shape))}{comma})" if shape else dtype


_COLUMN_HEADS = ["column", "stored as", "bytes", "ratio", "codec", "encodings", "has"]


def _column_cells(column: Mapping[str, Any]) -> list[str]:
    if not column["chunks"]:
        return [column["name"], column["physical_type"], "", "", "", "", "encrypted or damaged"]
    ratio = column["page_bytes"] / column["stored_bytes"] if column["stored_bytes"] else 1.0
    logical = column["logical_type"]
    stored = (
        column["physical_type"] if logical == "None" else f"{column['physical_type']} {logical}"
    )
    return [
        column["name"],
        stored if len(stored) <= _STORED_WIDTH else column["physical_type"],
        size_of(column["stored_bytes"]),
        f"{ratio:.1f}",
        ", ".join(sorted(column["codecs"])),
        ", ".join(sorted(column["encodings"])),
        _has(column),
    ]


_STORED_WIDTH = 40


def _has(column: Mapping[str, Any]) -> str:
    """Name the statistics and the given-up dictionaries of a column, with counts of chunks."""
    parts = []
    for key, word in (
        ("bounds", "bounds"),
        ("page_indexes", "page index"),
        ("bloom_filters", "bloom filter"),
        ("fallbacks", "dictionary given up"),
        ("encrypted", "encrypted or damaged"),
    ):
        count, all_of = column[key], column["chunks"]
        if count:
            parts.append(word if count == all_of else f"{word} in {count:,} of {all_of:,}")
    return ", ".join(parts)


def _window_lines(windows: Mapping[str, Any] | None) -> Iterator[str]:
    if windows is None:
        yield "nothing to decode"
        return
    yield f"a row decodes to {size_of(windows['row_bytes'])}"
    yield (
        f"shuffle=True: windows of {windows['shuffled_rows']:,} rows, "
        f"{size_of(windows['shuffled_bytes'])} of memory for the windows open at once"
    )
    yield (
        f"in order: windows of {windows['in_order_rows']:,} rows, "
        f"{size_of(windows['in_order_bytes'])}"
    )


def _pass_line(cost: Mapping[str, Any]) -> str:
    codecs = "".join(
        f", {seconds:.2g} {codec}" for codec, seconds in cost["codecs"].items() if seconds
    )
    total = cost["chunks"] + cost["values"] + sum(cost["codecs"].values())
    return (
        f"a pass takes about {total:.2g} CPU s by measured costs: {cost['chunks']:.2g} opening "
        f"column chunks, {cost['values']:.2g} decoding{codecs}"
    )


def _advice_lines(advice: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not advice:
        yield "nothing to change in this layout"
    for each in advice:
        yield f"- {each['what']}: {each['cost']}; {each['remedy']}"


def _spread(spread: Mapping[str, int]) -> str:
    least, median, most = spread["least"], spread["median"], spread["most"]
    if least == most:
        return f"{most:,} each"
    return f"{least:,} to {most:,}, median {median:,}"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    cells = [list(heads), *map(list, rows)]
    widths = [max(len(row[j]) for row in cells) for j in range(len(heads))]
    for row in cells:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
