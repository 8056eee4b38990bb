"""Text of filters, which is the same in every process and differs for other filters.

Saved states and rows that are kept on disk name filters by this text. The members of a set have no
order that lasts: Python orders strings by PYTHONHASHSEED. pyarrow's bytes of an Expression are
pyarrow's to change. So the text is made of the conditions and their values, and the members of a
list are sorted.
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from fastload.rows.predicate import is_expression, serialized
from fastload.runtime.digest import digest

__all__ = ["filters_text"]

# The most characters of filters that a saved state shows.
_SHOWN = 40
# The members of a list in the text of an Expression.
_MEMBERS = re.compile(r"(?<=value_set=)([^\n]*?:)\[(?:\n.*?\n)?\]", re.DOTALL)


def filters_text(filters: Any) -> str:
    """Return text of about 75 characters at most: the beginning of the filters, and a digest.

    Args:
        filters: an Expression, or conditions as `resolve_filters` returns them.
    """
    if is_expression(filters):
        shown, exact = _of_expression(filters)
    else:
        texts = [[_of_condition(*condition) for condition in each] for each in filters]
        shown = " or ".join(" and ".join(text for text, _ in each) for each in texts)
        exact = repr(texts)
    if len(shown) > _SHOWN:
        shown = f"{shown[:_SHOWN]}..."
    return f"{shown} #{digest(exact)}"


def _of_condition(path: tuple[str, ...], operator: str, value: Any) -> tuple[str, str]:
    """Return the text of a condition to show, and the exact text."""
    if operator in ("in", "not in"):
        kind, members = _of_members(value if isinstance(value, pa.Array) else pa.array(value))
        shown = f"[{', '.join(members)}]"
    else:
        kind, members = _of_array(pa.array([value]))
        shown = members[0]
    return f"{'.'.join(path)} {operator} {shown}", repr((path, operator, kind, members))


def _of_expression(expression: Any) -> tuple[str, str]:
    """Return the text of an Expression to show, and the exact text."""
    text = " ".join(_MEMBERS.sub(r"\1[...]", str(expression)).split())
    # The text leaves out members of lists and digits of numbers. pyarrow pickles an Expression as a
    # batch of one row, whose columns are its values, in the order of the text.
    with pa.ipc.open_file(serialized(expression)) as file:
        values = [_of_argument(column) for column in file.get_batch(0).columns]
    return text, repr((text, values))


def _of_argument(column: Any) -> Any:
    """Return the exact text of a value, or of the options of a function."""
    if not pa.types.is_struct(column.type):
        return _of_array(column)
    found = []
    for field, child in zip(column.type, column.flatten(), strict=True):
        if field.name == "value_set":
            found.append((field.name, *_of_members(child.flatten())))
        else:
            found.append((field.name, *_of_array(child)))
    return found


def _of_members(array: Any) -> tuple[str, list[str]]:
    """Return the type of an Arrow array of a list's members, and their sorted texts, each once."""
    if pa.types.is_integer(array.type):
        array = array.sort()  # which leaves Python few runs to merge
    kind, members = _of_array(array)
    return kind, sorted(dict.fromkeys(members))


def _of_array(array: Any) -> tuple[str, list[str]]:
    """Return an Arrow array's type, and a text for each value."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    arrow = array.type
    if pa.types.is_temporal(arrow) and not pa.types.is_interval(arrow):
        # Python has no times of nanoseconds.
        array = array.view(pa.int32() if arrow.bit_width == 32 else pa.int64())
    return str(arrow), list(map(repr, array.to_pylist()))
