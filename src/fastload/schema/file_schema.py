"""The schemas of files, each once, and their leaf columns in one order."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fastload.errors import SchemaError, UnsupportedTypeError
from fastload.schema import leaf_types

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fastload.runtime.native import core
    from fastload.schema.leaf_types import LeafType
    from fastload.source.files import SourceFile

__all__ = ["FileSchema", "Path", "group_files", "groups_above", "merge_paths"]

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FileSchema:
    """The leaves of all files that share a schema; `path` is the first of those files.

    groups: the paths of what has leaves below it.
    """

    path: str
    footer: core.Footer
    leaves: list[core.Leaf]
    types: Any
    indices: dict[Path, list[int]]
    groups: frozenset[Path]

    @classmethod
    def of(cls, file: SourceFile) -> FileSchema:
        """The schema of that file."""
        leaves = file.footer.leaves
        indices: dict[Path, list[int]] = {}
        for index, leaf in enumerate(leaves):
            indices.setdefault(leaf.names, []).append(index)
        groups = frozenset(group for path in indices for group in groups_above(path))
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
        """Return whether every leaf of that path, if there is any, is of type null."""
        found = self.indices.get(path, [])
        return all(pa.types.is_null(self.types.field(index).type) for index in found)

    def find_null(self, path: Path) -> int | None:
        """The index of a leaf of type null that stands for all leaves below it, as this one.

        Only one in lists has more to tell than that they are null: the lengths of the lists.
        """
        found = (self.indices.get(group, [-1])[0] for group in groups_above(path))
        index = next((index for index in found if index >= 0), None)
        if index is None or not self.leaves[index].list_sizes:
            return None
        return index if pa.types.is_null(self.types.field(index).type) else None

    def other(self, path: Path) -> str | None:
        """In words, what stands where a leaf of that path can't be then; None = nothing."""
        if path in self.groups:
            return "a struct or list"
        leaf = next((group for group in groups_above(path) if not self.is_null(group)), None)
        if leaf is None:
            return None
        return f"`{'.'.join(leaf)}` of type {self.resolve(self.indices[leaf][0])}"

    def resolve(self, index: int) -> LeafType:
        """The type of a leaf. Raises `UnsupportedTypeError`, naming it."""
        leaf = self.leaves[index]
        try:
            return leaf_types.resolve_leaf(self.types.field(index).type, leaf)
        except UnsupportedTypeError as error:
            raise UnsupportedTypeError(
                f"{error} (leave it out with columns=[...]) - at {self.path}, column "
                f"`{'.'.join(leaf.names)}`"
            ) from None


def group_files(files: Sequence[SourceFile]) -> tuple[list[FileSchema], list[int]]:
    """The schemas that there are, and the number of each file's."""
    schemas: list[FileSchema] = []
    schema_of: list[int] = []
    for file in files:
        # Neighbours are most often alike.
        numbers = chain(schema_of[-1:], range(len(schemas)))
        same = (n for n in numbers if schemas[n].footer.same_schema(file.footer))
        number = next(same, len(schemas))
        if number == len(schemas):
            schemas.append(FileSchema.of(file))
        schema_of.append(number)
    return schemas, schema_of


def merge_paths(schemas: Sequence[FileSchema]) -> Iterable[Path]:
    """The paths of all schemas, in order of first appearance, structs kept together."""
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


def groups_above(path: Path) -> list[Path]:
    """The paths of the groups around a leaf, outermost first."""
    return [path[:depth] for depth in range(1, len(path))]
