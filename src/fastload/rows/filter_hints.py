"""What to write instead of filters that don't fit the columns."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from fastload.errors import ColumnNotFoundError, SchemaError
from fastload.schema.leaves import describe_not_found
from fastload.source.tables.table import paths_named, type_at

__all__ = ["ZONE", "example", "hint", "missing_column"]

ZONE = "give the value a time zone if the column has one, such as datetime.timezone.utc, else none"

# The two types that pyarrow can't compare, without their parameters.
_UNEQUAL = re.compile(
    r"(?:input types \(|of values set: )(\w+)(?:\[[^]]*\]|\([^)]*\))?(?:, | vs )"
    r"(\w+)(?:\[[^]]*\]|\([^)]*\))?\)?$"
)
_SIDES = 2  # of a comparison
_MIXED = (
    "; compare strings with a str, numbers with a number, bools with True or False, and dates and "
    "times with those of datetime"
)
_BY_NUMBER = {
    "__row__": "this is no column. To choose rows by number, pass limit= and offset=, or call "
    "dataset.take(numbers), or give a DataLoader torch.utils.data.Subset(dataset.by_index(), "
    "numbers)",
    "__file__": "this is no column. To choose files, pass their paths as source",
}
_TEXT = ("string", "large_string", "string_view")
_TIMES = ("time32", "time64")
# What an Expression's text has besides names of columns: fields of structs, and strings.
_NO_COLUMN = re.compile(r'FieldRef\.Nested\((?:FieldRef\.\w+\([^)]*\) ?)*\)|"[^"]*"')
_LISTS = ("list<", "large_list<", "fixed_size_list<", "map<")
_OF_ELEMENTS = (
    "filters compare no elements of lists and maps: let a function choose the rows, and pass their "
    "numbers to torch.utils.data.Subset(dataset.by_index(), numbers)"
)


def hint(filters: Any, line: str, columns: Any) -> str:
    """Return what to write instead, for an error about types that are not compared.

    Args:
        filters: the Expression.
        line: the error of pyarrow.
        columns: the Arrow schema of the columns that filters may ask for.

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
    found = _UNEQUAL.search(line)
    if found is None:
        return ""
    text, (left, right) = _NO_COLUMN.sub("", str(filters)), found.groups()
    for kind, other in ((left, right), (right, left)):
        named = [
            field
            for field in columns
            if _kind(field.type) == kind
            and re.search(rf"(?<!\w){re.escape(field.name)}(?!\w)", text)
        ]
        if named:
            column = f"a column of {named[0].type}"
            if len(named) == 1:
                column = f"`{named[0].name}`, {column},"
            return f"; compare {column} with {_comparable(kind, named[0].type, other)}"
    return _MIXED


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


def _kind(arrow: Any) -> str:
    """Return the name that pyarrow's errors have for a type, without its parameters."""
    stored = arrow.value_type if pa.types.is_dictionary(arrow) else arrow
    return re.split(r"[\[(<]", str(stored), maxsplit=1)[0]


def _comparable(kind: str, arrow: Any, other: str) -> str:
    """Return what columns of a type are compared with, where they are not compared with another."""
    if kind in _TEXT:
        if not other.startswith(("date", "time")):
            return "a str"
        day = "2024-01-31" if other.startswith("date") else "2024-01-31 12:00:00"
        return f'a str as the column has it, such as "{day}" (a Hive key of dates is text)'
    if kind == "bool":
        return "True or False"
    if kind.startswith(("int", "uint", "halffloat", "float", "double", "decimal")):
        return "a number"
    if kind.startswith(("date", "time")):
        name = "date" if kind.startswith("date") else "time" if kind in _TIMES else "datetime"
        return (
            f"a datetime.{name}, or in a condition (column, operator, value) with text such as "
            f'"{example(arrow)}"'
        )
    return "a datetime.timedelta" if kind == "duration" else "a value of this type"


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
