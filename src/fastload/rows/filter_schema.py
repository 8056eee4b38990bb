"""The columns that filters may ask for, as Arrow types."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fastload.errors import ColumnNotFoundError, FastloadError, SchemaError
from fastload.rows.predicate import Predicate, expression_of, serialized
from fastload.rows.row_hash import can_hash
from fastload.runtime.native import core
from fastload.schema.file_schema import group_files
from fastload.schema.leaves import describe_not_found
from fastload.source.hive import find_keys
from fastload.source.stores.file_object import RemoteFile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.rows.predicate import Split
    from fastload.schema.file_schema import FileSchema
    from fastload.source.files import SourceFile
    from fastload.source.source import Source

__all__ = ["FilterSchema"]

_NAME = re.compile(r"FieldRef\.Name\(([^)]*)\)")


@dataclass(frozen=True, slots=True)
class FilterSchema:
    """The columns of all files and their hive keys, each of one type.

    arrow: what pyarrow's permissive unification makes of them, without metadata.
    path: of the first file, for errors.
    refused: the names of columns left out, for their types have none in common.
    """

    arrow: Any
    path: str
    refused: frozenset[str]

    @classmethod
    def of(cls, source: Source) -> FilterSchema:
        """The schema of those files."""
        schemas = [_schema_of(source, schema) for schema in group_files(source.files)[0]]
        fields = {name: _unify(schemas, name) for schema in schemas for name in schema.names}
        for name, key in find_keys(source.files).items():
            known = fields.get(name)
            arrow = key.infer_type() if known is None else known.type
            key.parse(arrow, source.files)
            fields[name] = pa.field(name, arrow)
        found = [field for field in fields.values() if field is not None]
        refused = frozenset(name for name, field in fields.items() if field is None)
        return cls(pa.schema(found), source.files[0].path, refused)

    def guarantee(self, file: SourceFile) -> Any:
        """What the names of a file's directories say of all of its rows, as an Expression."""
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
        """What parsed filters and a split ask of these columns.

        Raises `ColumnNotFoundError` or `SchemaError` for what they can't be asked.
        """
        expression = expression_of(filters, self._path)
        if expression is not None:
            self._check(expression)
        for name in (split and split.columns) or ():
            arrow = self._type_of(self._path(name))
            if arrow is None:
                raise self._missing(name, "split")
            if not can_hash(arrow):
                raise SchemaError(
                    "Expected columns of numbers, strings, dates or times in split, got "
                    f"{arrow} - at {self.path}, column `{name}`"
                )
        return Predicate(expression, split)

    def column(self, name: str) -> Any:
        """The Expression of a column of that dotted name."""
        return pc.field(*self._path(name))

    def names_in(self, predicate: Predicate) -> tuple[str, ...]:
        """The columns that a predicate names; () if they are not known, or fields of structs."""
        text = "" if predicate.filters is None else str(predicate.filters)
        if "FieldRef" in text or "FieldPath" in text:
            return ()
        split = (predicate.split and predicate.split.columns) or ()
        if any(self._path(name) != (name,) for name in split):
            return ()
        # A name may be part of what else the text says; that it tells all is seen.
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
        """Return whether statistics of row groups tell of all values of the columns in the filters.

        Statistics of floats leave NaN out, and may name the other zero.
        """
        names = self.names_in(Predicate(predicate.filters)) or self.arrow.names
        return not any(_has_floats(self.arrow.field(name).type) for name in names)

    def _path(self, name: str) -> tuple[str, ...]:
        """What a dotted name means: a column called so, else a field of a struct."""
        fields = tuple(name.split("."))
        if self._type_of((name,)) is None and self._type_of(fields) is not None:
            return fields
        return (name,)

    def _check(self, filters: Any) -> None:
        with contextlib.suppress(pa.ArrowException, TypeError, ValueError, FastloadError):
            core.bind_filter(serialized(filters), self.arrow)
            return
        # What it is that does not fit, or that can't be serialized, Arrow's evaluation tells.
        try:
            self.arrow.empty_table().filter(filters)
        except (pa.ArrowException, TypeError) as error:
            line = str(error).partition("\n")[0]
            if line.startswith("No match for"):
                names = _NAME.findall(line.partition(" in ")[0])
                raise self._missing(".".join(names), "filters") from None
            raise SchemaError(
                f"Expected filters that fit the columns' types, got {filters}: {line} - at "
                f"{self.path}"
            ) from None

    def _missing(self, name: str, argument: str) -> Exception:
        if name in self.refused:
            return SchemaError(
                f"Expected one column `{name}` of types that promote to a common one for "
                f"{argument}, got several - at {self.path}"
            )
        place = f"{self.path}, {argument}"
        return ColumnNotFoundError(describe_not_found(name, self.arrow.names, place))

    def _type_of(self, path: Sequence[str]) -> Any:
        try:
            arrow = self.arrow.field(path[0]).type
            for name in path[1:]:
                arrow = arrow.field(name).type
        except (KeyError, AttributeError, TypeError):
            return None
        return arrow


def _has_floats(arrow: Any) -> bool:
    if pa.types.is_nested(arrow):
        return any(_has_floats(arrow.field(i).type) for i in range(arrow.num_fields))
    if pa.types.is_dictionary(arrow):
        return _has_floats(arrow.value_type)
    return bool(pa.types.is_floating(arrow))


def _schema_of(source: Source, file: FileSchema) -> Any:
    """The schema of a file's columns."""
    if all(len(leaf.path) == 1 for leaf in file.leaves):
        return file.types  # each leaf is a column
    found = next(each for each in source.files if each.path == file.path)
    if found.stored is None:
        return pq.read_schema(file.path)
    return pq.read_schema(pa.PythonFile(RemoteFile(source.storage, found), mode="r"))


def _unify(schemas: Sequence[Any], name: str) -> Any:
    """The field of that name in all schemas; None where there is no such one."""
    found = [pa.schema([schema.field(name)]) for schema in schemas if _count(schema, name) == 1]
    if any(_count(schema, name) > 1 for schema in schemas):
        return None
    try:
        return pa.unify_schemas(found, promote_options="permissive").field(0).remove_metadata()
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None


def _count(schema: Any, name: str) -> int:
    return len(schema.get_all_field_indices(name))
