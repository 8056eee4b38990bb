"""Columns that filters may ask for, with their Arrow types."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
from pyarrow.fs import LocalFileSystem

from fastload.errors import FastloadError, SchemaError
from fastload.rows.filter_hints import ZONE, example, hint, missing_column
from fastload.rows.filters_text import filters_text
from fastload.rows.predicate import (
    Predicate,
    as_uint64,
    expression_of,
    is_integer,
    resolve_filters,
    serialized,
    within_limits,
)
from fastload.rows.row_hash import can_hash
from fastload.runtime.native import core
from fastload.schema.file_schema import group_files
from fastload.source.hive import find_keys
from fastload.source.tables.table import arrow_schema, paths_named, type_at

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from fastload.rows.predicate import Split
    from fastload.schema.file_schema import FileSchema
    from fastload.source.files import SourceFile
    from fastload.source.source import Source
    from fastload.source.tables.table import Bounds, Table, TableFile

__all__ = ["FilterSchema", "not_excluded", "prune_files"]

# The digits that pyarrow's casts from integers to decimals ask for.
_DIGITS = {
    pa.int8(): 3,
    pa.int16(): 5,
    pa.int32(): 10,
    pa.int64(): 19,
    pa.uint8(): 3,
    pa.uint16(): 5,
    pa.uint32(): 10,
    pa.uint64(): 20,
}
_NAME = re.compile(r"FieldRef\.Name\(([^)]*)\)")


@dataclass(frozen=True, slots=True)
class FilterSchema:
    """The columns and the hive keys of all files, with one type for each name.

    Attributes:
        arrow: the Arrow schema after pyarrow's permissive unification, without metadata.
            Dictionaries and string views count as their values where other files store strings.
        path: the path of the first file, for messages.
        refused: the columns that were left out, because their types in the files have no common
            type, each with the types and files that conflict.
        coarse: the paths of leaves that some file stores in other ways than in nanoseconds as
            int64, so that timestamp[ns] may not hold them.
    """

    arrow: Any
    path: str
    refused: Mapping[str, str]
    coarse: frozenset[tuple[str, ...]] = frozenset()

    @classmethod
    def of(cls, source: Source) -> FilterSchema:
        """Return the schema of the files of a source, or of their table."""
        if source.table is not None:
            columns = source.table.columns
            return cls(columns.arrow, columns.location, {})
        grouped = group_files(source.files)[0]
        paths = [schema.path for schema in grouped]
        schemas = [_schema_of(schema) for schema in grouped]
        named: dict[str, list[Any]] = {}
        for schema in schemas:
            for field in schema:
                named.setdefault(field.name, []).append(field)
        fields = {name: _unify(found) for name, found in named.items()}
        for schema in schemas:
            counts = Counter(schema.names)
            fields.update((name, None) for name, count in counts.items() if count > 1)
        for name, key in find_keys(source.files).items():
            known = fields.get(name)
            arrow = key.infer_type() if known is None else known.type
            key.parse(arrow, source.files)
            fields[name] = pa.field(name, arrow)
        found = [_field_with_in(field) for field in fields.values() if field is not None]
        refused = {
            name: _describe_conflict(schemas, paths, name)
            for name, field in fields.items()
            if field is None
        }
        coarse = frozenset(
            tuple(leaf.names)
            for schema in grouped
            for leaf, field in zip(schema.leaves, schema.types, strict=True)
            if leaf.physical_type == "INT96" or getattr(field.type, "unit", None) != "ns"
        )
        return cls(pa.schema(found), source.files[0].path, refused, coarse)

    def guarantee(self, file: SourceFile) -> Any:
        """Return an Expression that is true for all rows of a file, by the file's hive keys."""
        found = pc.scalar(value=True)
        for name, text in file.keys:
            key = pc.field(name)
            if text is None:
                found &= key.is_null()
            else:
                arrow = self.arrow.field(name).type
                found &= key == pa.array([text], pa.string()).cast(arrow)[0]
        return found

    def predicate(self, filters: Any, split: Split | None) -> Predicate:
        """Return parsed filters and a split as a predicate, after checking their columns.

        Args:
            filters: the filters, or None.
            split: the split, or None.

        Raises:
            ColumnNotFoundError: a column does not exist.
            SchemaError: the type of a column does not fit the filters or the split.
            ValueError: a str in the filters is no date or time of the column's type.
        """
        resolved = resolve_filters(filters, self._path, self._condition)
        expression = expression_of(resolved, filters)
        if expression is not None:
            self._check(expression)
        for name in (split and split.columns) or ():
            arrow = type_at(self.arrow, self._path(name))
            if arrow is None:
                raise self._missing(name, "split")
            if not can_hash(arrow):
                raise SchemaError(
                    "Expected columns of numbers, strings, dates or times in split, got "
                    f"{arrow} - at {self.path}, column `{name}`"
                )
        return Predicate(expression, split, None if resolved is None else filters_text(resolved))

    def column(self, name: str) -> Any:
        """Return the Expression of a column.

        Args:
            name: the name of the column, or a dotted name for a field of a struct.
        """
        return pc.field(*self._path(name))

    def names_in(self, predicate: Predicate) -> tuple[str, ...]:
        """Return the columns that a predicate names; () if unknown, or struct fields."""
        text = "" if predicate.filters is None else str(predicate.filters)
        if "FieldRef" in text or "FieldPath" in text:
            return ()
        split = (predicate.split and predicate.split.columns) or ()
        if any(self._path(name) != (name,) for name in split):
            return ()
        # A name in the text may be part of something else, such as a value, which does no harm.
        # The filter below fails if a column is missing among the names.
        named = [
            name
            for name in self.arrow.names
            if name in split
            or (name in text and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text))
        ]
        if predicate.filters is not None:
            try:
                known = pa.schema([self.arrow.field(name) for name in named])
                known.empty_table().filter(predicate.filters)
            except (pa.ArrowException, TypeError):
                return ()
        return tuple(named)

    def trusts_statistics(self, predicate: Predicate) -> bool:
        """Return True if row groups may be pruned by the statistics of the filters' columns.

        Statistics of floats leave NaN out, and may contain -0.0 for 0.0 and vice versa.
        """
        names = self.names_in(Predicate(predicate.filters)) or self.arrow.names
        return not any(_has(self.arrow.field(name).type, pa.types.is_floating) for name in names)

    def _path(self, name: str) -> tuple[str, ...]:
        """Return the path of a column of this name, else of the struct's field of this dotted name.

        Returns (name,) for an unknown name.

        Raises:
            SchemaError: two fields of structs have this dotted name.
        """
        found = paths_named(self.arrow, name)
        if (name,) in found or not found:
            return (name,)
        if len(found) > 1:
            wanted = " or ".join(f"pyarrow.compute.field{path}" for path in found)
            raise SchemaError(
                f"Expected one field of this dotted name, got {len(found)}: write {wanted} in an "
                f"Expression - at {self.path}, column `{name}`"
            )
        return found[0]

    def _condition(self, name: str, operator: str, value: Any) -> tuple[str, Any]:
        """Return the operator and the value of a condition as the column's kind of value.

        A condition on an integer or a moment that the column's type can't hold becomes one on the
        least or the greatest value of the type, which the same rows pass.
        """
        arrow = type_at(self.arrow, self._path(name))
        if operator in ("in", "not in"):
            self._check_members(name, value)
        if self._path(name) not in self.coarse:
            operator, value = _in_range(operator, value, arrow)
        if arrow not in _DIGITS:
            return operator, self._value(name, value)
        least, most = _limits(arrow)
        if isinstance(value, (list, tuple, set, frozenset)):
            if _is_beyond(value, arrow):
                kept = [each for each in value if not is_integer(each) or least <= each <= most]
                return operator, self._value(name, kept) if kept else pa.array([], arrow)
        elif _is_beyond([value], arrow):
            operator = _at_limit(operator, below=value < least)
            value = least if value < least else most
        return operator, self._value(name, value)

    def _check_members(self, name: str, values: Any) -> None:
        """Raise if a value of a list is of a type that "==" refuses.

        pyarrow casts such values, or fails where it compares them with statistics.
        """
        if isinstance(values, (list, tuple, set, frozenset)):
            for value in dict(zip(map(type, values), values, strict=True)).values():
                if value is None:
                    continue
                equal = [(name, "==", value)]
                resolved = resolve_filters(equal, self._path, self._condition)
                self._check(expression_of(resolved, equal))

    def _value(self, name: str, value: Any) -> Any:
        """Return the value of a condition as the column's kind of value.

        A str that stands for a date or time becomes one. An integer to compare with a decimal
        becomes a decimal, and one to compare with uint64 becomes uint64.
        """
        arrow = type_at(self.arrow, self._path(name))
        listed = isinstance(value, (list, tuple, set, frozenset))
        values = [*value] if listed else [value]
        if arrow is not None and listed and not any(each is not None for each in values):
            return pa.nulls(
                min(1, len(values)), arrow
            )  # pyarrow compares strings with no list of type null
        if arrow is not None and pa.types.is_decimal(arrow):
            # Arrow gives an integer as many digits as its type has, which may be too many.
            exact = [Decimal(int(each)) if is_integer(each) else each for each in values]
            return exact if listed else exact[0]
        if arrow is not None and pa.types.is_fixed_size_binary(arrow) and listed:
            return _as_bytes(values, arrow.byte_width)
        if arrow is not None and pa.types.is_uint64(arrow):
            return as_uint64(value)  # Arrow compares uint64 with other integers as int64
        if arrow is None or not pa.types.is_temporal(arrow) or pa.types.is_duration(arrow):
            return value
        if not any(isinstance(each, str) for each in values):
            return value
        beyond = _is_of_ns(arrow) and not _fit(values, arrow)
        if beyond and any(isinstance(each, str) and _limit_before(each, arrow) for each in values):
            arrow = pa.timestamp("us", arrow.tz)  # refused later, with advice
        try:
            parsed = _parsed(values, arrow)
        except pa.ArrowException:
            raise ValueError(
                f'Expected text for {arrow} in filters such as "{example(arrow)}", got '
                f"{value!r} - at {self.path}, column `{name}`"
            ) from None
        return parsed if listed else parsed[0]

    def _check(self, filters: Any) -> None:
        self._check_time_zones(filters)
        bound = False
        with contextlib.suppress(pa.ArrowException, TypeError, ValueError, FastloadError):
            core.bind_filter(serialized(filters), self.arrow)
            bound = True
        try:
            if bound:
                self._compare_members(filters)
            else:
                # The core can't bind the filters, or they can't be serialized. Arrow's evaluation
                # of an empty table raises an error that says why, if the filters don't fit.
                self.arrow.empty_table().filter(filters)
        except (pa.ArrowException, TypeError) as error:
            line = str(error).partition("\n")[0].strip()
            if line.startswith("Precision is not great enough"):
                line += "; write an integer to compare with a decimal as decimal.Decimal(...)"
            line += hint(line)
            if line.startswith("No match for"):
                names = _NAME.findall(line.partition(" in ")[0])
                raise self._missing(".".join(names), "filters") from None
            raise SchemaError(
                f"Expected filters that fit the columns' types, got {filters}: {line} - at "
                f"{self.path}"
            ) from None

    def _check_time_zones(self, filters: Any) -> None:
        """Raise if timestamps with and without a time zone are compared.

        pyarrow finds this when it compares values, and the core would compare them as UTC.
        """
        if not any(_has(field.type, pa.types.is_timestamp) for field in self.arrow):
            return
        names = self.names_in(Predicate(filters)) or self.arrow.names
        try:
            nulls = {name: pa.nulls(1, self.arrow.field(name).type) for name in names}
            pa.table(nulls).filter(filters)
        except (pa.ArrowException, TypeError) as error:
            line = str(error).partition("\n")[0]
            if line.startswith("Cannot compare timestamp"):
                raise SchemaError(
                    f"Expected filters that fit the columns' types, got {filters}: {line}; "
                    f"{ZONE} - at {self.path}"
                ) from None

    def _compare_members(self, filters: Any) -> None:
        """Raise pyarrow's error if dates or times are to be in a list of values of another type.

        pyarrow casts such values, but fails where it compares them with statistics, as here.
        """
        times = [
            field
            for field in self.arrow
            if pa.types.is_temporal(field.type) and not pa.types.is_interval(field.type)
        ]
        if not times or "is_in(" not in str(filters):
            return
        bounds = pc.scalar(value=True)
        for field in times:
            stored = pa.int32() if field.type.bit_width == 32 else pa.int64()
            first, last = pa.array([0, 1], stored).cast(field.type)
            bounds &= (pc.field(field.name) >= first) & (pc.field(field.name) <= last)
        not_excluded([bounds], self.arrow, filters)

    def _missing(self, name: str, argument: str) -> Exception:
        if name in self.refused:
            return SchemaError(
                f"Expected one column `{name}` of types that promote to a common one for "
                f"{argument}, got {self.refused[name]}"
            )
        return missing_column(name, argument, self.arrow, self.path)


def not_excluded(guarantees: Iterable[Any], arrow: Any, filters: Any) -> list[int]:
    """Return the numbers of the guarantees that let some row pass the filters, in order.

    Args:
        guarantees: Expressions, each true for all rows of a part of the data.
        arrow: schema of the columns in both.
        filters: Expression of the filters.
    """
    # pyarrow prunes fragments by their partition expressions, without reading the fragments.
    form, system = pads.IpcFileFormat(), LocalFileSystem()
    fragments = [
        form.make_fragment(str(number), system, partition_expression=guarantee)
        for number, guarantee in enumerate(guarantees)
    ]
    left = pads.FileSystemDataset(fragments, arrow, form, system).get_fragments(filters)
    return sorted(int(fragment.path) for fragment in left)


def _parsed(values: Sequence[Any], arrow: Any) -> Any:
    """Return text as an Arrow array of dates, times or timestamps.

    Raises:
        pa.ArrowException: the text is no such value, or a value is no text.
    """
    text = pa.array(values, pa.string())
    if not pa.types.is_time(arrow):
        return text.cast(arrow)
    # Arrow parses timestamps, and no times of day.
    moments = pc.binary_join_element_wise("1970-01-01", text, "T")
    return moments.cast(pa.timestamp(arrow.unit)).cast(arrow)


def _as_bytes(values: list[Any], width: int) -> list[Any]:
    """Return str as bytes if Arrow can't cast them all to values of `width` bytes."""
    if {len(each.encode()) for each in values if isinstance(each, str)} <= {width}:
        return values
    return [each.encode() if isinstance(each, str) else each for each in values]


def _at_limit(operator: str, *, below: bool) -> str:
    """Return the operator for the least value of a type, or the greatest, in place of one beyond.

    Args:
        operator: the operator of a comparison with a value beyond the type's values.
        below: the value lies below them.
    """
    if below:
        return "<" if operator in ("<", "<=", "=", "==") else ">="
    return ">" if operator in (">", ">=", "=", "==") else "<="


def _in_range(operator: str, value: Any, arrow: Any) -> tuple[str, Any]:
    """Return a condition without moments that a column of timestamp[ns] can't hold."""
    if isinstance(value, (list, tuple, set, frozenset)):
        if not _is_of_ns(arrow) or _fit(value, arrow):
            return operator, value
        kept = [each for each in value if _limit_before(each, arrow) is None]
        if len(kept) == len(value):
            return operator, value
        return operator, kept or pa.array([], arrow)
    limit = _limit_before(value, arrow)
    if limit is None:
        return operator, value
    return _at_limit(operator, below=limit.value < 0), limit


def _is_of_ns(arrow: Any) -> bool:
    return str(arrow).startswith("timestamp[ns")


def _fit(moments: Collection[Any], arrow: Any) -> bool:
    """Return True if a column of timestamp[ns] holds all moments, False if each must be tried."""
    try:
        pa.array(list(moments)).cast(pa.timestamp("ns", arrow.tz))
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    return True


def _limit_before(value: Any, arrow: Any) -> Any:
    """Return the first or last value of timestamp[ns] if a moment lies beyond it, else None."""
    if not _is_of_ns(arrow):
        return None
    try:
        moment = pa.array(np.array([value]) if isinstance(value, np.datetime64) else [value])
        if pa.types.is_string(moment.type):
            moment = moment.cast(pa.timestamp("us", arrow.tz))
        second = moment.cast(pa.timestamp("s"), safe=False)[0].value
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    arrow = pa.timestamp("ns", getattr(moment.type, "tz", None))
    try:
        moment.cast(arrow)
    except pa.ArrowInvalid:
        return pa.scalar(_limits(arrow)[second > 0], pa.int64()).cast(arrow)
    return None


def _limits(arrow: Any) -> tuple[int, int]:
    """Return the least and the greatest integer of a type."""
    bits = arrow.bit_width
    if pa.types.is_unsigned_integer(arrow):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def _is_beyond(values: Collection[Any], arrow: Any) -> bool:
    """Return True if pyarrow can't compare an integer among values with integers of a type.

    pyarrow compares uint64 as uint64, and the other types as int64.
    """
    wide = pa.uint64() if pa.types.is_uint64(arrow) else pa.int64()
    return not within_limits(values, *_limits(wide))


def _has(arrow: Any, is_kind: Callable[[Any], bool]) -> bool:
    """Return True if a type, or a type inside of it, is of a kind."""
    if pa.types.is_nested(arrow):
        return any(_has(arrow.field(i).type, is_kind) for i in range(arrow.num_fields))
    if pa.types.is_dictionary(arrow):
        return _has(arrow.value_type, is_kind)
    return bool(is_kind(arrow))


def _schema_of(file: FileSchema) -> Any:
    """Return the Arrow schema of a file's columns."""
    # Without nesting, each leaf is a column.
    flat = all(len(leaf.path) == 1 for leaf in file.leaves)
    return file.types if flat else arrow_schema(file.footer)


def _unify(fields: Sequence[Any]) -> Any:
    """Return the common field of fields of one name; None if they have none."""
    types = [field.type for field in fields]
    wide = map(_wide_field, fields) if _mixes_decimals(types) else fields
    found = [pa.schema([field]) for field in wide]
    zones = list(dict.fromkeys(zone for arrow in types for zone in _zones(arrow)))
    if len(zones) > 1:
        found = [_converted(each, lambda arrow: _in_zone(arrow, zones[0])) for each in found]
    with contextlib.suppress(pa.ArrowInvalid, pa.ArrowTypeError):
        return _unified(found)
    # pyarrow does not unify strings with dictionaries of strings or with string views.
    with contextlib.suppress(pa.ArrowInvalid, pa.ArrowTypeError):
        return _unified([_converted(each, _plain_type) for each in found])
    return None


def _unified(schemas: Sequence[Any]) -> Any:
    return pa.unify_schemas(schemas, promote_options="permissive").field(0).remove_metadata()


def _mixes_decimals(types: Sequence[Any]) -> bool:
    """Return True if some types are decimals and others are integers or half floats."""
    found = [pa.types.is_decimal(arrow) for arrow in types]
    return any(found) and any(arrow in _DIGITS or pa.types.is_float16(arrow) for arrow in types)


def _wide_field(field: Any) -> Any:
    """Return a field that pyarrow unifies with decimals to a type to which pyarrow casts both.

    pyarrow gives an integer fewer digits than its cast asks for, and casts no decimal to float16.
    """
    arrow = field.type
    if arrow in _DIGITS:
        return field.with_type(pa.decimal128(_DIGITS[arrow], 0))
    if pa.types.is_float16(arrow):
        return field.with_type(pa.float64())
    return _field_with_in(field)


def _field_with_in(field: Any) -> Any:
    """Return a field for which Arrow has "in": there is no kernel for decimal32 and decimal64."""
    arrow = field.type
    if pa.types.is_decimal(arrow) and arrow.bit_width < 128:
        return field.with_type(pa.decimal128(arrow.precision, arrow.scale))
    return field


def _plain_type(arrow: Any) -> Any:
    """Return the type of the values for dictionaries, and strings and binary for views."""
    if pa.types.is_dictionary(arrow):
        return _plain_type(arrow.value_type)
    if pa.types.is_string_view(arrow):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(arrow) else arrow


def _zones(arrow: Any) -> Iterator[str]:
    """Yield the time zones in a type."""
    if pa.types.is_nested(arrow):
        for number in range(arrow.num_fields):
            yield from _zones(arrow.field(number).type)
    elif pa.types.is_timestamp(arrow) and arrow.tz is not None:
        yield arrow.tz


def _in_zone(arrow: Any, zone: str) -> Any:
    """Return timestamps with a time zone in another one; the stored integers are UTC in both."""
    known = pa.types.is_timestamp(arrow) and arrow.tz is not None
    return pa.timestamp(arrow.unit, zone) if known else arrow


def _converted(schema: Any, convert: Callable[[Any], Any]) -> Any:
    """Return a schema with other types of values, at every depth."""

    def field_of(field: Any) -> Any:
        return field.with_type(type_of(field.type))

    def type_of(arrow: Any) -> Any:
        types = pa.types
        if types.is_struct(arrow):
            return pa.struct([field_of(field) for field in arrow])
        if types.is_map(arrow):
            return pa.map_(field_of(arrow.key_field), field_of(arrow.item_field))
        if types.is_list(arrow):
            return pa.list_(field_of(arrow.value_field))
        if types.is_large_list(arrow):
            return pa.large_list(field_of(arrow.value_field))
        if types.is_fixed_size_list(arrow):
            return pa.list_(field_of(arrow.value_field), arrow.list_size)
        return convert(arrow)

    return pa.schema([field_of(field) for field in schema])


def _describe_conflict(schemas: Sequence[Any], paths: Sequence[str], name: str) -> str:
    """Return the types that a name without a common type has, and the files that have them."""
    having = [
        (schema, path) for schema, path in zip(schemas, paths, strict=True) if _count(schema, name)
    ]
    for schema, path in having:
        if _count(schema, name) > 1:
            return f"{_count(schema, name)} columns of this name in {path}"
    # Every two types may have a common type while all types together have none.
    first, path = having[0]
    other, other_path = next(
        (each for each in having[1:] if _unify([first.field(name), each[0].field(name)]) is None),
        having[-1],
    )
    return f"{first.field(name).type} in {path} and {other.field(name).type} in {other_path}"


def _count(schema: Any, name: str) -> int:
    return len(schema.get_all_field_indices(name))


def prune_files(table: Table, filters: Any) -> Sequence[TableFile]:
    """Return the files of a table that may have rows for which filters are true; at least one.

    Args:
        table: the table.
        filters: the filters, as `parse_filters` returned them.

    Raises:
        ColumnNotFoundError, SchemaError, ValueError: as `FilterSchema.predicate`.
    """
    columns = table.columns
    schema = FilterSchema(columns.arrow, columns.location, {})
    expression = schema.predicate(filters, None).filters
    kept = not_excluded(map(_guarantee, table.files), columns.arrow, expression)
    # A dataset without rows still has its columns, for which it needs a file.
    return [table.files[index] for index in kept or [0]]


def _guarantee(file: TableFile) -> Any:
    """Return an Expression that is true for all rows of a file."""
    found = pc.scalar(value=True)
    for path, scalar in file.constants:
        if not scalar.is_valid:
            found &= pc.field(*path).is_null()
        elif not pa.types.is_floating(scalar.type):  # NaN equals nothing
            found &= pc.field(*path) == scalar
    for bounds in file.bounds:
        found &= _within(bounds)
    return found


def _within(bounds: Bounds) -> Any:
    column = pc.field(*bounds.path)
    if bounds.nulls:
        return column.is_null()
    if bounds.least is None or bounds.most is None:
        return pc.scalar(value=True) if bounds.nulls is None else column.is_valid()
    found = (column >= bounds.least) & (column <= bounds.most)
    return found if bounds.nulls is False else found | column.is_null()
