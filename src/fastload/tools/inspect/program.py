"""The program to paste: a `FastParquetDataset` that reads the inspected files as they are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from fastload.tools.inspect.code_lines import comment_lines, entry_lines, list_lines, text_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastload.schema.fields import Field
    from fastload.tools.inspect.dataset_layout import DatasetLayout

__all__ = ["program"]

# Names of integers that a loss wants as int64.
_LABELS = ("label", "labels", "target", "targets", "class", "y")
# torch has few operations on these.
_WIDE = {"uint16": "int64", "uint32": "int64"}
_INTEGERS = ("int8", "int16", "int32", "uint8", *_WIDE)
_FILLS = {"str": '""', "bytes": 'b""', "bool": "False"}
# Batches of about this size cost little Python, and many of them fit into memory.
_BATCH_BYTES = 4 << 20
_BATCH_ROWS = 16384


def program(layout: DatasetLayout, source: str, columns: list[str] | None = None) -> str | None:
    """Return the program; None if no column can be read.

    Args:
        layout: the layout of the files.
        source: the source as given to the command.
        columns: names of the columns that were asked for; None = all columns.
    """
    if not layout.fields:
        return None
    lines, specs = list(text_lines("    ", source, ",")), {"FastParquetDataset"}
    empty = [] if columns is not None else _without_values(layout)
    special = {json.dumps(name): spec for name, *spec in _special(layout, empty)}
    specs |= {spec.partition("(")[0] for spec, _ in special.values()}
    if columns is not None:
        plain = [quoted for quoted in map(json.dumps, layout.fields) if quoted not in special]
        special = {**{quoted: [quoted, ""] for quoted in plain}, **special}
    elif special:
        special = {'"*"': ["...", "all other columns as they are"], **special}
    if special:
        lines += ["    columns={"]
        for quoted, (spec, comment) in special.items():
            lines += entry_lines(" " * 8, quoted, spec, comment)
        lines += ["    },"]
    if columns is None and (layout.refused or empty):
        left_out = dict.fromkeys([*layout.refused, *empty])
        comment = "  # without values" if empty else ""
        lines += list_lines("    exclude=", list(left_out), f",{comment}")
    if _has_other_nulls(layout):
        lines.append('    nulls="zero",  # null lists become empty, and null elements 0')
    lines += [f"    batch_size={_batch_rows(layout)},", "    shuffle=True,"]
    names = ", ".join(sorted(specs))
    return "\n".join(
        (
            f"from fastload import {names}",
            "",
            "dataset = FastParquetDataset(",
            *lines,
            ")",
            *_hints(layout),
            "for batch in dataset:  # a dict: name -> tensor",
            "    print(batch)",
            "    break",
        )
    )


def _without_values(layout: DatasetLayout) -> list[str]:
    """Return the columns whose values are all null, unless these are all columns."""
    empty = [c.name for c in layout.columns if 0 < c.nulls == c.values and c.name in layout.fields]
    return empty if len(empty) < len(layout.fields) else []


def _special(layout: DatasetLayout, empty: list[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the name, the spec and a comment for each column that needs a spec."""
    by_name = {column.name: column for column in layout.columns}
    for name, field in layout.fields.items():
        if name in empty:
            continue
        column = by_name.get(name)
        quoted = json.dumps(name)
        size = _fixed_size(layout, name, field)
        if size:
            yield name, f"Fixed({quoted}, {size})", f"all lists have {size:,} elements"
            continue
        if field.depth or field.shape:
            continue
        options, comments = [], []
        dtype = _dtype_of(name, field)
        if dtype:
            options.append(f'dtype="{dtype}"')
            comments.append(f"stored as {_name_of(field)}")
        if column is not None and (column.nulls or column.uncounted):
            kind = field.kind or _name_of(field)
            options.append(f"fill={_FILLS.get(kind, '0')}")
            count = f"{column.nulls:,} nulls" if column.nulls else "the footer counts no nulls"
            comments.append(count)
        if options:
            yield name, f"Column({quoted}, {', '.join(options)})", "; ".join(comments)


def _fixed_size(layout: DatasetLayout, name: str, field: Field) -> int:
    """Return the number of elements that all lists of a column seem to have; 0 if they vary."""
    lengths = layout.lengths.get(name.partition(".")[0])
    if lengths is None or field.depth != 1 or field.kind or "." in name:
        return 0
    column = next((column for column in layout.columns if column.name == name), None)
    same = lengths.least == lengths.most and lengths.most > 0
    # Other row groups are not read: they have as many values for each row.
    rows = layout.rows * layout.files_seen / layout.files
    if not same or column is None or column.nulls or column.values != lengths.most * rows:
        return 0
    return lengths.most


def _hints(layout: DatasetLayout) -> Iterator[str]:
    """Yield comments on lists of varying lengths, once for all columns of the same lengths."""
    alike: dict[tuple[int, int], list[str]] = {}
    for name, field in layout.fields.items():
        lengths = layout.lengths.get(name)
        if lengths and field.depth == 1 and not field.kind and lengths.least != lengths.most:
            alike.setdefault((lengths.least, lengths.most), []).append(name)
    for (least, most), names in alike.items():
        quoted = json.dumps(names[0])
        fields = {name: layout.fields[name] for name in names}
        more = f" and {len(names) - 1:,} more" if names[1:] else ""
        text = [f"{names[0]}{more}: lists of {least:,} to {most:,} elements."]
        tokens = (n for n, f in fields.items() if not f.dtype.is_floating_point and not f.shape)
        if (token := next(tokens, None)) is not None:
            text += [f"Tokens: pass pack=Pack({json.dumps(token)}, length) to pack them into rows."]
        text += [f"Pad({quoted}, {most}) for a tensor (B, {most})."]
        for sentence in text:
            yield from comment_lines(sentence)


def _has_other_nulls(layout: DatasetLayout) -> bool:
    by_name = {column.name: column for column in layout.columns}
    for name, field in layout.fields.items():
        column = by_name.get(name)
        if (field.depth or field.shape) and column and (column.nulls or column.uncounted):
            return True
    return False


def _dtype_of(name: str, field: Field) -> str:
    stored = _name_of(field)
    if field.unit or field.kind or stored not in _INTEGERS:
        return ""
    is_label = name.rpartition(".")[2].lower() in _LABELS
    return "int64" if is_label else _WIDE.get(stored, "")


def _name_of(field: Field) -> str:
    return str(field.dtype).removeprefix("torch.")


def _batch_rows(layout: DatasetLayout) -> int:
    row_bytes = layout.windows.row_bytes if layout.windows else 1
    rows = min(_BATCH_BYTES // max(1, row_bytes), layout.rows, _BATCH_ROWS)
    return 1 << (max(1, rows).bit_length() - 1)
