"""Pages that the page index shows to hold no row that filters keep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
from pyarrow.fs import LocalFileSystem

from fastload.runtime.native import core

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fastload.runtime._core import PageBounds
    from fastload.source.files import SourceFile

__all__ = ["rows_of_pages"]

_Pages = tuple[list[int], list[Any]]  # of a column chunk: first rows, and what is known of each

# Bounds of other types leave out values (NaN among floats) or have no order that all agree on.
_NUMBERS = {
    pa.int8(): "<i4",
    pa.int16(): "<i4",
    pa.int32(): "<i4",
    pa.int64(): "<i8",
    pa.uint8(): "<u4",
    pa.uint16(): "<u4",
    pa.uint32(): "<u4",
    pa.uint64(): "<u8",
    pa.date32(): "<i4",
}


def rows_of_pages(
    file: SourceFile, names: Sequence[str], filters: Any, schema: Any, groups: Sequence[int]
) -> dict[int, NDArray[np.bool_]]:
    """By row group, of those of which pages can be left out: the rows of the other pages.

    Args:
        file: whose page index is read.
        names: of flat columns that the filters name.
        filters: an Expression.
        schema: that the filters are bound to, an Arrow schema.
        groups: row groups.

    Raises `SourceChangedError`, `StorageError` or `CorruptFileError`, naming the file.
    """
    if file.stored is not None:  # a request for each index: the finder asks for it when needed
        return {}
    leaves = pa.schema(file.footer)
    pages: dict[int, list[_Pages]] = {group: [] for group in groups}
    for name in names:
        arrow = schema.field(name).type
        leaf = leaves.get_field_index(name)
        # Bounds of what is promoted, or missing, are of another type.
        if leaf < 0 or leaves.field(leaf).type != arrow:
            continue
        chunks = core.read_page_bounds(
            file=(file.path, file.mtime_ns, file.footer), leaf=leaf, row_groups=groups
        )
        for group, bounds in zip(groups, chunks, strict=True):
            known = _guarantees(bounds, pc.field(name), arrow)
            if known:
                pages[group].append((bounds.first_rows, known))
    rows = file.footer.row_group_rows
    stretches = {group: _stretches(found, rows[group]) for group, found in pages.items()}
    left = _surviving({g: known for g, (_, known) in stretches.items()}, filters, schema)
    return {
        group: np.repeat(survives, stretches[group][0])
        for group, survives in left.items()
        if not survives.all()
    }


def _stretches(columns: Sequence[_Pages], rows: int) -> tuple[list[int], list[Any]]:
    """The stretches of rows that lie in one page of each column: their lengths, and what is known.

    Nothing if all rows are one.
    """
    edges = sorted({0, rows, *(first for firsts, _ in columns for first in firsts)})
    if len(edges) < 3:
        return [], []
    known = [pc.scalar(value=True)] * (len(edges) - 1)
    for firsts, guarantees in columns:
        page = np.searchsorted(firsts, edges[:-1], side="right") - 1
        known = [k & guarantees[p] for k, p in zip(known, page.tolist(), strict=True)]
    return np.diff(edges).tolist(), known


def _surviving(
    known: dict[int, list[Any]], filters: Any, schema: Any
) -> dict[int, NDArray[np.bool_]]:
    """By row group, which stretches may hold a row that stays.

    pyarrow prunes fragments by what is known of their rows: here each stretch is one.
    """
    form = pads.IpcFileFormat()  # of fragments that are never read
    system = LocalFileSystem()
    fragments = [
        form.make_fragment(f"{group} {number}", system, partition_expression=guarantee)
        for group, guarantees in known.items()
        for number, guarantee in enumerate(guarantees)
    ]
    survives = {group: np.zeros(len(found), np.bool_) for group, found in known.items()}
    if fragments:
        dataset = pads.FileSystemDataset(fragments, schema, form, system)
        for fragment in dataset.get_fragments(filters):
            group, number = map(int, fragment.path.split())
            survives[group][number] = True
    return survives


def _guarantees(bounds: PageBounds, field: Any, arrow: Any) -> list[Any]:
    """What is known of the values of each page, as Expressions; [] if nothing is."""
    least, most = _decoded(bounds, bounds.minima, arrow), _decoded(bounds, bounds.maxima, arrow)
    if least is None or most is None:
        return []
    nulls = bounds.null_counts or [1] * len(bounds.first_rows)
    found = []
    for page, all_null in enumerate(bounds.null_pages):
        if all_null:
            found.append(field.is_null())
            continue
        known = (field >= least[page]) & (field <= most[page])
        found.append(known | field.is_null() if nulls[page] else known)
    return found


def _decoded(bounds: PageBounds, values: Sequence[bytes], arrow: Any) -> Any:
    """Bounds as an Arrow array, with anything for pages of nulls; None if they are not known."""
    if arrow in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        try:
            return pa.array(list(values), pa.binary()).cast(arrow)
        except pa.ArrowInvalid:  # cut within a character
            return None
    stored = np.dtype("<i8" if pa.types.is_timestamp(arrow) else _NUMBERS.get(arrow, "V0"))
    empty = bytes(stored.itemsize)
    filled = [empty if null else v for null, v in zip(bounds.null_pages, values, strict=True)]
    if not stored.itemsize or any(len(value) != stored.itemsize for value in filled):
        return None
    numbers = np.frombuffer(b"".join(filled), stored)
    if pa.types.is_timestamp(arrow) or pa.types.is_date32(arrow):
        return pa.array(numbers).cast(arrow)
    return pa.array(numbers).cast(arrow, safe=False)
