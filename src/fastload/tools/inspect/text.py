"""Text of the report of `fastload-inspect`: tables, a picture of row groups, the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from fastload.runtime.units import counted, duration_of, size_of
from fastload.tools.terminal import Table, bar, code, hint

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import RenderableType

__all__ = ["parts_of"]

_PICTURED_FILES = 12
_BAR_CELLS = 20
# A pass that takes less is quick in any layout, but for one that costs this share of the time.
_SMALL_S = 0.1
_MUCH = 0.5
# Columns of a struct are shown as one row if there are so many alike, and each is small.
_ALIKE = 3
_SMALL_SHARE = 0.05
_STORED_WIDTH = 24
_LIST = "list<"


def parts_of(report: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Yield the parts of the report that `report_of` made."""
    groups = report["row_groups"]
    yield Text.assemble(
        (report["source"], "bold"),
        f": {counted(report['files'], 'file')}, {size_of(report['file_bytes'])}, "
        f"{counted(report['rows'], 'row')} in {counted(groups['count'], 'row group')}",
    )
    yield Text(f"written by {'; '.join(report['writers'])}", "dim")
    if report["odd_footers"]:
        odd = counted(report["odd_footers"], "file")
        yield Text(f"footers that are odd, and take longer to open: of {odd}", "yellow")
    yield ""
    yield from _outputs(report)
    yield ""
    yield _storage(report)
    if report["files_seen"] < report["files"]:
        yield f"of {counted(report['files_seen'], 'file')}, spread evenly over all files"
    yield ""
    yield from _row_groups(report)
    yield ""
    yield from _windows(report["windows"])
    yield from _costs(report)
    if report["program"]:
        yield ""
        yield Text("to read it", "bold")
        yield code(report["program"])


def _outputs(report: Mapping[str, Any]) -> Iterator[RenderableType]:
    columns = {column["name"]: column for column in report["columns"]}
    cells: dict[str, tuple[str | Text, ...]] = {}
    for name, field in report["schema"].items():
        lengths = report["lengths"].get(name.partition(".")[0]) if field["depth"] else None
        nulls = _nulls(columns.get(name), field)
        cells[name] = _tensor(field), nulls, _spread(lengths) if lengths else ""
    shown = 3 if any(row[2] for row in cells.values()) else 2
    rows = [(_group(names), *cells[names[0]][:shown]) for names in _alike(cells)]
    heads = ["output", "tensor", "nulls", "lengths"]
    yield Table(heads[: shown + 1], rows, numbers=(2,), notes=(1, 3)[: shown - 1])
    for name, why in report["refused"].items():
        yield Text(f"{name}: can't be read as it is: {why}", "yellow")


def _alike(cells: Mapping[str, tuple[str | Text, ...]]) -> list[list[str]]:
    """Group the columns of a struct whose cells are equal, in the place of the first of them."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, row in cells.items():
        struct, _, below = name.partition(".")
        key = (struct, *map(str, row)) if below else (name,)
        groups.setdefault(key, []).append(name)
    return [
        part
        for names in groups.values()
        for part in ([names] if len(names) >= _ALIKE else [[name] for name in names])
    ]


def _group(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    return f"{names[0].partition('.')[0]}.* ({len(names):,})"


def _nulls(column: Mapping[str, Any] | None, field: Mapping[str, Any]) -> Text:
    # Footers count empty lists as nulls, so their counts say nothing about lists.
    if column is None or field["depth"] or field["shape"]:
        return Text("")
    if column["uncounted"]:
        return Text("not counted", "yellow")
    return Text(f"{column['nulls']:,}" if column["nulls"] else "", "yellow")


def _tensor(field: Mapping[str, Any]) -> str:
    unit = f" in {field['unit']}" if field["unit"] else ""
    if field["ragged"]:
        inner = field["kind"] or field["dtype"]
        if field["shape"] and not field["kind"]:
            inner = f"{inner} ({', '.join(map(str, field['shape']))})"
        return f"{_LIST * field['depth']}{inner}{'>' * field['depth']}{unit}"
    shape = ["B", *map(str, field["shape"])]
    return f"{field['dtype']} ({', '.join(shape)}{',' if len(shape) == 1 else ''}){unit}"


def _storage(report: Mapping[str, Any]) -> RenderableType:
    heads = ["column", "stored as", "bytes", "ratio", "codec", "pages"]
    columns = {column["name"]: column for column in report["columns"]}
    cells = {name: _cells(column) for name, column in columns.items()}
    small = _SMALL_SHARE * sum(column["stored_bytes"] for column in columns.values())
    # A large column has a row of its own, whatever it is like.
    kinds = {
        name: (*row, name if columns[name]["stored_bytes"] > small else "")
        for name, row in cells.items()
    }
    rows = []
    for names in _alike(kinds):
        stored, codecs, pages = cells[names[0]]
        stored_bytes = sum(columns[name]["stored_bytes"] for name in names)
        page_bytes = sum(columns[name]["page_bytes"] for name in names)
        size, ratio = size_of(stored_bytes), page_bytes / stored_bytes if stored_bytes else 1.0
        known = codecs != ""
        rows.append(
            (
                _group(names),
                stored,
                size if known else "",
                f"{ratio:.1f}" if known else "",
                codecs,
                pages,
            )
        )
    return Table(heads, rows, numbers=(2, 3), notes=(1, 4, 5))


def _cells(column: Mapping[str, Any]) -> tuple[str, str, Text]:
    """Return how a column is stored, its codecs, and its pages."""
    if not column["chunks"]:
        return column["physical_type"], "", Text("encrypted or damaged", "yellow")
    stored = column["physical_type"]
    if column["logical_type"] != "None":
        stored += f" {column['logical_type']}"
    return (
        stored if len(stored) <= _STORED_WIDTH else column["physical_type"],
        ", ".join(sorted(column["codecs"])),
        _pages(column),
    )


def _pages(column: Mapping[str, Any]) -> Text:
    """Name the encodings of a column, what its chunks have beside pages, and what they lack."""
    parts = [", ".join(dict.fromkeys(map(_encoding, sorted(column["encodings"]))))]
    chunks = column["chunks"]
    if column["bounds"] < chunks:
        parts.append(_some(chunks - column["bounds"], chunks, "no bounds"))
    parts += [
        _some(column[key], chunks, word)
        for key, word in (
            ("page_indexes", "page index"),
            ("bloom_filters", "bloom filter"),
            ("fallbacks", "dictionary given up"),
            ("encrypted", "encrypted or damaged"),
        )
        if column[key]
    ]
    warned = column["fallbacks"] or column["encrypted"]
    return Text("; ".join(parts), "yellow" if warned else "")


def _some(count: int, all_of: int, word: str) -> str:
    return word if count == all_of else f"{word} in {count:,} of {all_of:,}"


def _encoding(name: str) -> str:
    return "dict" if name.endswith("_DICTIONARY") else name.lower().replace("_", " ")


def _row_groups(report: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Draw a line for each of the first files: a bar of its rows, cut into its row groups."""
    files = report["first_files"][:_PICTURED_FILES]
    most = max((sum(file["rows"]) for file in files), default=0) or 1
    rows = []
    for file in files:
        share = sum(file["rows"]) / most
        least, largest = min(file["rows"], default=0), max(file["rows"], default=0)
        sizes = f"{largest:,}" if least == largest else f"{least:,} to {largest:,}"
        groups = f"{counted(len(file['rows']), 'row group')} of {sizes} rows"
        size = size_of(file["bytes"])
        rows.append((file["name"], _cut(file["rows"], share), size, groups))
    yield Table(["file", "", "size", ""], rows, numbers=(2,), notes=(3,))
    more = report["files"] - len(files)
    if more:
        groups = report["row_groups"]
        yield (
            f"and {counted(more, 'more file')}; rows of a row group: {_spread(groups['rows'])}, "
            f"bytes: {_spread(groups['bytes'])}"
        )


def _cut(rows: Sequence[int], share: float) -> Text:
    """Return a bar whose neighbouring parts differ in colour; one part if there are too many."""
    cells = max(1, round(_BAR_CELLS * share))
    if len(rows) > cells // 2 or not sum(rows):
        return Text(bar(share, _BAR_CELLS), "cyan")
    drawn, done, begun = Text(), 0, 0
    for index, count in enumerate(rows):
        done += count
        end = round(cells * done / sum(rows))
        # A thin gap shows where a row group ends, without colours as well.
        width = max(1, end - begun)
        gap = "▌" if index < len(rows) - 1 and bar(1, 1) != "#" else bar(1, 1)
        drawn.append(bar(1, width - 1) if width > 1 else "", "cyan")
        drawn.append(gap, "cyan")
        begun = end
    return drawn


def _spread(spread: Mapping[str, int]) -> str:
    least, median, most = spread["least"], spread["median"], spread["most"]
    if least == most:
        return f"{least:,}..{most:,}"
    return f"{least:,}..{most:,}, median {median:,}"


def _windows(windows: Mapping[str, Any] | None) -> Iterator[RenderableType]:
    if windows is None:
        yield "nothing to decode"
        return
    rows = [
        ("a row decodes to", size_of(windows["row_bytes"]), ""),
        (
            "shuffle=True",
            size_of(windows["shuffled_bytes"]),
            f"of memory; windows of {windows['shuffled_rows']:,} rows",
        ),
        (
            "in order",
            size_of(windows["in_order_bytes"]),
            f"of memory; windows of {windows['in_order_rows']:,} rows",
        ),
    ]
    yield Table(["memory", "", ""], rows, numbers=(1,), notes=(2,))


def _costs(report: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Say what a pass costs, and what to change; nothing if a pass is short anyway."""
    cost = report["pass_cpu_s"]
    total = cost["chunks"] + cost["values"] + sum(cost["codecs"].values())
    if not total:
        return
    codecs = "".join(
        f", {duration_of(seconds)} {codec}" for codec, seconds in cost["codecs"].items() if seconds
    )
    yield ""
    yield (
        f"A pass takes about {duration_of(total)} of CPU time: {duration_of(cost['chunks'])} "
        f"opening column chunks, {duration_of(cost['values'])} decoding{codecs}."
    )
    remote = "://" in report["source"]
    advice = report["advice"]
    if total < _SMALL_S and not remote:
        advice = [each for each in advice if (each["saved_s"] or 0.0) >= _MUCH * total]
        if not advice:
            yield "The layout does not matter: the files are small enough."
            return
        yield "The files are small, but their layout takes most of this time:"
    if not advice:
        yield "Nothing to change in this layout."
    for each in advice:
        yield hint(f"{each['what']}: {each['cost']}; {each['remedy']}")
    if report["rewrite"]:
        yield ""
        yield Text("to write it anew", "bold")
        yield code(report["rewrite"])
