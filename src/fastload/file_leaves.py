"""The leaf columns of files that may differ, as one schema."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fastload import leaf_types
from fastload.errors import ColumnNotFoundError, SchemaError, UnsupportedTypeError
from fastload.hive import HiveKey, find_keys
from fastload.unify import common_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import torch

    from fastload._core import Footer, Leaf
    from fastload.leaf_types import LeafType
    from fastload.source import Source, SourceFile

__all__ = ["FileLeaves", "Path", "SelectedLeaf"]

Path = tuple[str, ...]

# Column names shown where none is near to the one asked for.
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class SelectedLeaf:
    """One flat leaf column of all files.

    indices: of the leaf in each file; -1 = the file lacks it.
    type: the one that all files' types have in common.
    stored: the type in each file (that in common where it lacks the leaf); () = all have the
        one in common.
    constants: by file, the value of all rows of a file that lacks the leaf: a number, decimal,
        str or bytes, or None for null; () = null in all of them.
    """

    name: str
    indices: tuple[int, ...]
    type: LeafType
    stored: tuple[LeafType, ...] = ()
    constants: tuple[Any, ...] = ()

    @property
    def types(self) -> list[LeafType]:
        """The types that files store, each once."""
        return list({id(stored): stored for stored in self.stored}.values()) or [self.type]

    @property
    def widens_integers(self) -> bool:
        """Whether integers of some files are read as the floats of others."""
        if self.type.kind != "number" or not self.type.dtype.is_floating_point:
            return False
        return any(
            stored.kind == "number" and not stored.dtype.is_floating_point for stored in self.types
        )

    def is_cast(self, dtype: torch.dtype) -> bool:
        """Whether some file stores another type than `dtype`."""
        return any(
            stored.cast or (stored.dtype != dtype and stored.kind != "null")
            for stored in self.types
        )


@dataclass(frozen=True, slots=True)
class _FileSchema:
    """The leaves of all files that share a schema; `path` is the first of those files.

    groups: the paths of what has leaves below it.
    """

    path: str
    footer: Footer
    leaves: list[Leaf]
    types: Any
    indices: dict[Path, list[int]]
    groups: frozenset[Path]

    @classmethod
    def of(cls, file: SourceFile) -> _FileSchema:
        leaves = file.footer.leaves
        indices: dict[Path, list[int]] = {}
        for index, leaf in enumerate(leaves):
            indices.setdefault(leaf.path, []).append(index)
        groups = frozenset(above for path in indices for above in _above(path))
        return cls(file.path, file.footer, leaves, pa.schema(file.footer), indices, groups)

    def find(self, path: Path) -> int | None:
        """The index of the leaf of that path, if there is one."""
        found = self.indices.get(path, [])
        if len(found) > 1:
            raise SchemaError(
                f"Expected one column of that name, got {len(found)} - at {self.path}, column "
                f"`{'.'.join(path)}`"
            )
        return found[0] if found else None

    def is_null(self, path: Path) -> bool:
        """Whether every leaf of that path, if there is any, is of type null."""
        found = self.indices.get(path, [])
        return all(pa.types.is_null(self.types.field(index).type) for index in found)

    def other(self, path: Path) -> str | None:
        """In words, what stands where a leaf of that path can't be then; None = nothing."""
        if path in self.groups:
            return "a struct or list"
        leaf = next((above for above in _above(path) if not self.is_null(above)), None)
        if leaf is None:
            return None
        return f"`{'.'.join(leaf)}` of type {self.types.field(self.indices[leaf][0]).type}"

    def resolve(self, index: int) -> LeafType:
        """The type of a leaf. Raises `UnsupportedTypeError`, naming it, for a nested one."""
        leaf = self.leaves[index]
        where = (
            f"(leave it out with columns=[...]) - at {self.path}, column `{'.'.join(leaf.path)}`"
        )
        if leaf.max_repetition_level > 0:
            raise UnsupportedTypeError(
                f"Expected a flat column, got a list or map, which this version can't read {where}"
            )
        try:
            return leaf_types.resolve(self.types.field(index).type, leaf.logical_type)
        except UnsupportedTypeError as error:
            raise UnsupportedTypeError(f"{error} {where}") from None


class FileLeaves:
    """The leaf columns of all files and their hive keys, found by path.

    paths: those of all files in order of first appearance, as pyarrow unifies schemas; then
        those of the keys.
    """

    __slots__ = ("_keys", "_schema_of", "_schemas", "below", "exact", "path", "paths", "source")

    def __init__(self, source: Source) -> None:
        self.source = source
        self.path = source.files[0].path
        self._schemas, self._schema_of = _group(source.files)
        self._keys = find_keys(source.files)
        keys = ((name,) for name in self._keys)
        self.paths = list(dict.fromkeys([*_merge_paths(self._schemas), *keys]))
        self.exact: dict[str, list[Path]] = {}
        self.below: dict[str, list[Path]] = {}
        for path in self.paths:
            self.exact.setdefault(".".join(path), []).append(path)
            for above in _above(path):
                self.below.setdefault(".".join(above), []).append(path)

    def leaf(self, path: Path) -> SelectedLeaf:
        """The leaf of that path in all files; a file may lack it.

        Raises `SchemaError` naming two files whose types have none in common, or
        `UnsupportedTypeError` for a nested leaf.
        """
        found = [schema.find(path) for schema in self._schemas]
        stored = [
            None if index is None else schema.resolve(index)
            for schema, index in zip(self._schemas, found, strict=True)
        ]
        common = self._common(path, stored)
        name = ".".join(path)
        indices: list[int] = [-1 if index is None else index for index in found]
        key = self._keys.get(path[0]) if len(path) == 1 else None
        if key is not None:
            return self._keyed(key, indices, stored, common)
        assert common is not None
        return SelectedLeaf(
            name, self._by_file(indices), common, self._stored_by_file(stored, common)
        )

    def find(self, name: str) -> list[Path]:
        """The leaves of that dotted name, or those below it; at least one.

        Raises `ColumnNotFoundError` with the nearest names, or `SchemaError` for two.
        """
        exact = self.exact.get(name, [])
        if len(exact) > 1:
            raise SchemaError(
                f"Expected one column of that name, got {len(exact)} - at {self.path}, column "
                f"`{name}`"
            )
        found = exact or self.below.get(name, [])
        if not found:
            raise ColumnNotFoundError(_not_found(name, [*self.exact, *self.below], self.path))
        return found

    def _common(self, path: Path, stored: Sequence[LeafType | None]) -> LeafType | None:
        """The type in common; None where no file has the leaf."""
        common: LeafType | None = None
        known = list(zip(self._schemas, stored, strict=True))
        for schema, type_ in known:
            if type_ is None:
                other = schema.other(path)
                if other is not None:
                    raise _no_common_type(path, known, schema, other, None)
                continue
            unified = type_ if common is None else common_type(common, type_)
            if unified is None:
                raise _no_common_type(path, known, schema, str(type_.arrow), type_)
            common = unified
        return common

    def _keyed(
        self,
        key: HiveKey,
        indices: Sequence[int],
        stored: Sequence[LeafType | None],
        common: LeafType | None,
    ) -> SelectedLeaf:
        """The leaf of a hive key: its value counts even where the file has the column too."""
        if common is None or common.kind == "null":
            common = leaf_types.resolve(key.infer_type(), "None")
        values = key.parse(common.arrow, self.source.files)
        constants = tuple(None if text is None else values[text] for text in key.texts)
        leaves = zip(self._by_file(indices), key.named, strict=True)
        return SelectedLeaf(
            key.name,
            tuple(-1 if named else index for index, named in leaves),
            common,
            self._stored_by_file(stored, common),
            constants,
        )

    def _by_file(self, by_schema: Sequence[Any]) -> tuple[Any, ...]:
        return tuple([by_schema[number] for number in self._schema_of])

    def _stored_by_file(
        self, stored: Sequence[LeafType | None], common: LeafType
    ) -> tuple[LeafType, ...]:
        if all(type_ is None or type_ == common for type_ in stored):
            return ()
        return self._by_file([type_ or common for type_ in stored])


def _group(files: Sequence[SourceFile]) -> tuple[list[_FileSchema], list[int]]:
    """The schemas that there are, and the number of each file's."""
    schemas: list[_FileSchema] = []
    schema_of: list[int] = []
    for file in files:
        # Neighbours are most often alike.
        last = schema_of[-1:]
        numbers = [*last, *(number for number in range(len(schemas)) if number not in last)]
        same = (n for n in numbers if schemas[n].footer.same_schema(file.footer))
        number = next(same, len(schemas))
        if number == len(schemas):
            schemas.append(_FileSchema.of(file))
        schema_of.append(number)
    return schemas, schema_of


def _merge_paths(schemas: Sequence[_FileSchema]) -> Iterable[Path]:
    """The paths of all schemas, in order of first appearance, structs kept together."""
    paths = dict.fromkeys(path for schema in schemas for path in schema.indices)
    if len(schemas) == 1:
        return paths
    rank: dict[Path, int] = {}
    for path in paths:
        for part in (*_above(path), path):
            rank.setdefault(part, len(rank))
    # A column of type null in one file may be a struct or a list in another.
    groups = frozenset[Path]().union(*(schema.groups for schema in schemas))
    kept = (
        path
        for path in paths
        if path not in groups or not all(schema.is_null(path) for schema in schemas)
    )
    return sorted(kept, key=lambda path: [rank[part] for part in (*_above(path), path)])


def _no_common_type(
    path: Path,
    known: Sequence[tuple[_FileSchema, LeafType | None]],
    refused: _FileSchema,
    got: str,
    got_type: LeafType | None,
) -> SchemaError:
    """Names the first of the known schemas that the refused one can't be unified with."""
    typed = [(schema, type_) for schema, type_ in known if type_ and type_.kind != "null"]
    conflicts = (
        (schema, type_)
        for schema, type_ in typed
        if got_type is None or common_type(type_, got_type) is None
    )
    # Each may have a type in common with each, but not all of them.
    schema, type_ = next(conflicts, typed[0])
    return SchemaError(
        f"Expected column `{'.'.join(path)}` to have types that promote to a common one, got "
        f"{type_.arrow} in {schema.path} and {got} in {refused.path}"
    )


def _above(path: Path) -> list[Path]:
    """The paths of the groups around a leaf, outermost first."""
    return [path[:depth] for depth in range(1, len(path))]


def _not_found(name: str, known: Sequence[str], path: str) -> str:
    folded: dict[str, str] = {}
    for candidate in known:
        folded.setdefault(candidate.casefold(), candidate)
    near = difflib.get_close_matches(name.casefold(), folded, n=3, cutoff=0.5)
    names = [folded[match] for match in near] or known[:_SHOWN]
    label = "the nearest are" if len(near) > 1 else "the nearest is" if near else "there are"
    more = "" if near or len(known) <= _SHOWN else " and more"
    shown = ", ".join(f"`{candidate}`" for candidate in names)
    return f"Expected a column of the files, got `{name}`; {label} {shown}{more} - at {path}"
