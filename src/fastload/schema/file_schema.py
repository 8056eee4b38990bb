"""The distinct schemas of the files, and the leaf columns of all schemas in one order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import torch

from fastload.errors import SchemaError, UnsupportedTypeError
from fastload.schema import leaf_types
from fastload.schema.hub_features import features_of
from fastload.schema.leaf_types import LeafType
from fastload.schema.stored_fields import stored_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fastload.runtime.native import core
    from fastload.schema.hub_features import Feature
    from fastload.source.files import SourceFile
    from fastload.source.tables.table import TableColumns

__all__ = ["FileSchema", "Path", "group_files", "groups_above", "merge_paths"]

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FileSchema:
    """A schema that one or more files share.

    Attributes:
        path: path of the first file that has the schema.
        footer: footer of that file.
        leaves: leaf columns, in the order of the schema.
        types: pyarrow's schema of the leaves; a table says what its timestamps are.
        indices: indices of the leaves of each path.
        groups: paths of the structs and lists, which have leaves below them.
        inside: index of the leaf below each of them that is read fastest for its levels.
        features: what the file's metadata says of leaves, by the file's own paths.
    """

    path: str
    footer: core.Footer
    leaves: list[core.Leaf]
    types: Any
    indices: dict[Path, list[int]]
    groups: frozenset[Path]
    inside: dict[Path, int]
    features: dict[Path, Feature]

    @classmethod
    def of(cls, path: str, footer: core.Footer, columns: TableColumns | None = None) -> FileSchema:
        """Return the schema of a file.

        Args:
            path: path of the file.
            footer: footer of the file.
            columns: columns of the file's table, whose names count; None = the file's own names.
        """
        leaves = footer.leaves
        types = pa.schema(footer)
        paths: list[tuple[Path | None, list[Path]]]
        if columns is None:
            paths = [(leaf.names, groups_above(leaf.names)) for leaf in leaves]
        else:
            paths = columns.find(footer, path)
            types = _timed_as(columns, types, leaves, [found for found, _ in paths])
        indices: dict[Path, list[int]] = {}
        inside: dict[Path, int] = {}
        for index in sorted(range(len(leaves)), key=lambda index: _cost(leaves[index])):
            for group in paths[index][1]:
                inside.setdefault(group, index)
        for index, (names, _) in enumerate(paths):
            if names is not None:
                indices.setdefault(names, []).append(index)
        groups = frozenset(group for found in indices for group in groups_above(found))
        features = features_of(footer) | stored_fields(footer)
        return cls(path, footer, leaves, types, indices, groups, inside, features)

    def find(self, path: Path) -> int | None:
        """Return the index of the leaf at `path`, or None if the schema has no such leaf."""
        found = self.indices.get(path, [])
        if len(found) > 1:
            raise SchemaError(
                f"Expected one column of this name, got {len(found)} - at {self.path}, column "
                f"`{'.'.join(path)}`"
            )
        return found[0] if found else None

    def touched(self) -> Iterable[Path]:
        """Return the paths of all leaves, structs and lists, some of them more than once.

        A schema lacks a leaf and all that can stand in for the leaf or rule it out, if neither the
        leaf's path nor a path above it is among them.
        """
        return chain(self.indices, self.groups, self.inside)

    def is_null(self, path: Path) -> bool:
        """Return True if every leaf at `path` is of type null, or no leaf is at `path`."""
        found = self.indices.get(path, [])
        return all(pa.types.is_null(self.types.field(index).type) for index in found)

    def find_null(self, path: Path) -> int | None:
        """Return the index of a leaf of type null in lists that stands in for the leaf at `path`.

        A file may store a struct or list as one leaf of type null. Such a leaf carries
        information only inside lists: the lengths of the lists. So None is returned for a leaf
        outside lists.
        """
        found = (self.indices.get(group, [-1])[0] for group in groups_above(path))
        index = next((index for index in found if index >= 0), None)
        if index is None or not self.leaves[index].list_sizes:
            return None
        return index if pa.types.is_null(self.types.field(index).type) else None

    def find_sibling(self, path: Path) -> Sibling | None:
        """Return a leaf of the struct or list in which the schema lacks a leaf at `path`.

        None = the schema lacks all structs around the leaf, or a column rules the leaf out.
        """
        for group in reversed(groups_above(path)):
            if group in self.inside:
                return None if self.other(path) else Sibling(self.inside[group], len(group))
        return None

    def null_in_lists(self, index: int, levels: int) -> LeafType:
        """Return the type of nulls in the outermost `levels` lists around a leaf."""
        leaf = self.leaves[index]
        feature = self.features.get(leaf.names)
        sizes = leaf.list_sizes if feature is None else feature.fixed_sizes(leaf.list_sizes)
        return LeafType(pa.null(), "null", torch.float32, list_sizes=sizes[:levels])

    def other(self, path: Path) -> str | None:
        """Describe the column that rules out a leaf at `path` in this schema; None = no column."""
        if path in self.groups:
            return "a struct or list"
        leaf = next((group for group in groups_above(path) if not self.is_null(group)), None)
        if leaf is None:
            return None
        return f"`{'.'.join(leaf)}` of type {self.resolve(self.indices[leaf][0])}"

    def resolve(self, index: int) -> LeafType:
        """Return the type of a leaf.

        Raises:
            UnsupportedTypeError: the type is not supported; the message names the leaf.
        """
        leaf = self.leaves[index]
        try:
            found = leaf_types.resolve_leaf(self.types.field(index).type, leaf)
        except UnsupportedTypeError as error:
            raise UnsupportedTypeError(
                f"{error} (leave it out with columns=[...]) - at {self.path}, column "
                f"`{'.'.join(leaf.names)}`"
            ) from None
        feature = self.features.get(leaf.names)
        if feature is None:
            return found
        if feature.dtype is not None and found.kind == "number":
            found = replace(found, dtype=feature.dtype, cast=True)
        if feature.unit is not None:
            found = replace(found, unit=feature.unit)
        if found.tensor_shape is not None:
            return found
        return replace(found, list_sizes=feature.fixed_sizes(found.list_sizes))

    def class_names(self, index: int) -> tuple[str, ...]:
        """Return the names of a leaf's classes, by number; () if the leaf has none."""
        feature = self.features.get(self.leaves[index].names)
        return () if feature is None else feature.names


class Sibling(NamedTuple):
    """A leaf beside a leaf that a file lacks.

    Attributes:
        leaf: index of the leaf.
        depth: number of names that the paths of both leaves share.
    """

    leaf: int
    depth: int


def group_files(
    files: Sequence[SourceFile], columns: TableColumns | None = None
) -> tuple[list[FileSchema], list[int]]:
    """Return the distinct schemas of the files, and for each file the number of its schema.

    Args:
        files: the files.
        columns: columns of the table that the files belong to. They are the first schema, which
            no file has. None = plain files.
    """
    schemas: list[FileSchema] = []
    if columns is not None:
        schemas.append(FileSchema.of(columns.location, columns.footer))
    # Footers that are read together share equal schemas, and neighbours mostly have equal ones.
    # Others are compared with the schemas of the same names only, because each file may have a
    # schema of its own.
    known: dict[core.FooterSchema, int] = {}
    named: dict[tuple[Path, ...], list[int]] = {}
    schema_of: list[int] = []
    for file in files:
        footer = file.footer
        number = known.get(footer.schema)
        if number is None and schema_of and schemas[schema_of[-1]].footer.same_schema(footer):
            number = schema_of[-1]
        if number is None:
            numbers = named.setdefault(tuple([leaf.names for leaf in footer.leaves]), [])
            same = (n for n in numbers if schemas[n].footer.same_schema(footer))
            number = next(same, len(schemas))
            if number == len(schemas):
                schemas.append(FileSchema.of(file.path, footer, columns))
                numbers.append(number)
        known[footer.schema] = number
        schema_of.append(number)
    return schemas, schema_of


def merge_paths(schemas: Sequence[FileSchema]) -> Iterable[Path]:
    """Return the paths of all schemas in order of first appearance, structs kept together."""
    paths = dict.fromkeys(path for schema in schemas for path in schema.indices)
    if len(schemas) == 1:
        return paths
    rank: dict[Path, int] = {}
    for path in paths:
        for part in (*groups_above(path), path):
            rank.setdefault(part, len(rank))
    # A column of type null in one file may be a struct or a list in another.
    groups = frozenset[Path]().union(*(schema.groups for schema in schemas))
    kept = (
        path
        for path in paths
        if path not in groups or not all(schema.is_null(path) for schema in schemas)
    )
    return sorted(kept, key=lambda path: [rank[part] for part in (*groups_above(path), path)])


def _timed_as(
    columns: TableColumns, types: Any, leaves: Sequence[core.Leaf], paths: Sequence[Path | None]
) -> Any:
    """Return the types of a file's leaves, with timestamps as the columns of a table have them.

    An INT96 timestamp has neither a unit nor a zone: the table's type says both. Other timestamps
    without a zone count in UTC if the table's column has a zone, as deltalake and pyiceberg read
    them.
    """
    fields = list(types)
    times = [
        index
        for index, field in enumerate(fields)
        if pa.types.is_timestamp(field.type) and field.type.tz is None
    ]
    if not times:
        return types
    names = (leaf.names for leaf in columns.footer.leaves)
    wanted = dict(zip(names, pa.schema(columns.footer).types, strict=True))
    for index in times:
        arrow = wanted.get(paths[index] or ())
        if arrow is None or not pa.types.is_timestamp(arrow):
            continue
        if leaves[index].physical_type != "INT96":
            arrow = pa.timestamp(fields[index].type.unit, arrow.tz)
        fields[index] = fields[index].with_type(arrow)
    return pa.schema(fields)


def _cost(leaf: core.Leaf) -> tuple[int, bool]:
    """Return a key that orders leaves by the time that their levels take to read."""
    return len(leaf.list_sizes), leaf.physical_type == "BYTE_ARRAY"


def groups_above(path: Path) -> list[Path]:
    """Return the paths of the structs and lists around a leaf, outermost first."""
    return [path[:depth] for depth in range(1, len(path))]
