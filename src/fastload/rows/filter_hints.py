"""What to write instead of filters that don't fit the columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from fastload.errors import ColumnNotFoundError, SchemaError
from fastload.schema.leaves import describe_not_found
from fastload.source.tables.table import paths_named, type_at

__all__ = ["ZONE", "example", "hint", "missing_column"]

ZONE = "give the value a time zone if the column has one, such as datetime.timezone.utc, else none"

_SIDES = 2  # of a comparison
_BY_NUMBER = {
    "__row__": "this is no column. To choose rows by number, pass limit= and offset=, or call "
    "dataset.take(numbers), or give a DataLoader torch.utils.data.Subset(dataset.by_index(), "
    "numbers)",
    "__file__": "this is no column. To choose files, pass their paths as source",
}
_LISTS = ("list<", "large_list<", "fixed_size_list<", "map<")
_OF_ELEMENTS = (
    "filters compare no elements of lists and maps: let a function choose the rows, and pass their "
    "numbers to torch.utils.data.Subset(dataset.by_index(), numbers)"
)


def hint(line: str) -> str:
    """Return what to write instead, for an error about types that are not compared.

    Args:
        line: the error of pyarrow.

    Returns:
        The end of a message, from "; " on; "" if there is nothing to say.
    """
    if line.count("timestamp[") == _SIDES and line.count("tz=") == 1:
        return f"; {ZONE}"
    if "out of bounds timestamp" in line:
        return (
            "; nanoseconds reach from 1677 to 2262, so compare the column in microseconds: "
            'pyarrow.compute.field(name).cast("timestamp[us]", safe=False)'
        )
    if "no kernel matching input types" in line and any(kind in line for kind in _LISTS):
        return f"; {_OF_ELEMENTS}"
    if "input types (" in line or "of values set: " in line:
        return (
            "; compare strings with a str (a Hive key of dates is a string), numbers with a "
            "number, bools with True or False, and dates and times with those of datetime, or in a "
            "condition (column, operator, value) with text"
        )
    return ""


def missing_column(name: str, argument: str, columns: Any, path: str) -> Exception:
    """Return the error about a name that is no column, with what to write instead.

    Args:
        name: the name.
        argument: "filters" or "split".
        columns: the Arrow schema of the columns that filters may ask for.
        path: the path of the first file, for the message.
    """
    place = f"{path}, {argument}"
    if argument == "filters" and (advice := _BY_NUMBER.get(name)):
        return ColumnNotFoundError(
            f"Expected a column of the files, got `{name}`: {advice} - at {place}"
        )
    fields = tuple(name.split("."))
    parents = [fields[:count] for count in range(1, len(fields))]
    for parent in parents:
        if _is_list(type_at(columns, parent)):
            return SchemaError(
                f"Expected columns with one value in a row for {argument}, got `{name}`, of "
                f"which the rows of `{'.'.join(parent)}` have several; {_OF_ELEMENTS} - at "
                f"{path}"
            )
    known = [*columns.names, *_fields_below(columns)]
    message = describe_not_found(name, known, f"{path}, {argument}")
    if paths := paths_named(columns, name):
        message = (
            f"Expected a column of the files, got `{name}`: write "
            f"pyarrow.compute.field{paths[0]} for a field of a struct in an "
            f"Expression - at {path}, {argument}"
        )
    return ColumnNotFoundError(message)


def example(arrow: Any) -> str:
    """Return text for a date, time or timestamp."""
    if pa.types.is_time(arrow):
        return "12:00:00"
    if pa.types.is_date(arrow):
        return "2024-01-31"
    return "2024-01-31T12:00:00" if arrow.tz is None else "2024-01-31T12:00:00Z"


def _is_list(arrow: Any) -> bool:
    """Return whether a row of a type has several values; False for None."""
    checks = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return arrow is not None and (pa.types.is_map(arrow) or any(check(arrow) for check in checks))


def _fields_below(fields: Any, prefix: str = "") -> list[str]:
    """Return the dotted names of the fields of structs, at every depth."""
    return [
        name
        for field in fields
        if pa.types.is_struct(field.type)
        for below in field.type
        for name in (
            f"{prefix}{field.name}.{below.name}",
            *_fields_below([below], f"{prefix}{field.name}."),
        )
    ]
