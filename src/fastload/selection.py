"""Which leaf columns of the files are meant by the names asked for."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fastload import leaf_types
from fastload.columns import Codes, Column, Hash, Pad, Spec, Stack, column_name
from fastload.errors import ColumnNotFoundError, SchemaError, UnsupportedTypeError

if TYPE_CHECKING:
    from fastload._core import Footer, Leaf
    from fastload.leaf_types import LeafType
    from fastload.source import Source, SourceFile

__all__ = ["FileLeaves", "SelectedLeaf", "select"]

Path = tuple[str, ...]
Selected = tuple[str, Spec, list["SelectedLeaf"]]

# Column names shown where none is near to the one asked for.
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class SelectedLeaf:
    """One leaf column: its dotted name, its index in each file, and its type."""

    name: str
    indices: tuple[int, ...]
    type: LeafType


@dataclass(frozen=True, slots=True)
class _FileSchema:
    """The leaves of all files that share a schema; `path` is the first of those files."""

    path: str
    footer: Footer
    leaves: list[Leaf]
    types: Any
    indices: dict[Path, list[int]]

    @classmethod
    def of(cls, file: SourceFile) -> _FileSchema:
        leaves = file.footer.leaves
        indices: dict[Path, list[int]] = {}
        for index, leaf in enumerate(leaves):
            indices.setdefault(leaf.names, []).append(index)
        return cls(file.path, file.footer, leaves, pa.schema(file.footer), indices)

    def find(self, path: Path) -> int | None:
        """The index of the leaf of that path, if there is one."""
        found = self.indices.get(path, [])
        if len(found) > 1:
            raise SchemaError(
                f"Expected one column of that name, got {len(found)} - at {self.path}, column "
                f"`{'.'.join(path)}`"
            )
        return found[0] if found else None

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


class FileLeaves:
    """The leaf columns of all files, found by path; the first file's stand for all."""

    __slots__ = ("_schema_of", "_schemas", "below", "exact", "path", "paths", "source")

    def __init__(self, source: Source) -> None:
        self.source = source
        self._schemas: list[_FileSchema] = []
        self._schema_of: list[int] = []
        for file in source.files:
            known = enumerate(self._schemas)
            same = (n for n, schema in known if schema.footer.same_schema(file.footer))
            number = next(same, len(self._schemas))
            if number == len(self._schemas):
                self._schemas.append(_FileSchema.of(file))
            self._schema_of.append(number)
        self.path = source.files[0].path
        self.paths: list[Path] = list(self._schemas[0].indices)
        self.exact: dict[str, list[Path]] = {}
        self.below: dict[str, list[Path]] = {}
        for path in self.paths:
            self.exact.setdefault(".".join(path), []).append(path)
            for depth in range(1, len(path)):
                self.below.setdefault(".".join(path[:depth]), []).append(path)

    def leaf(self, path: Path) -> SelectedLeaf:
        """The leaf of that path, which every file must have with the same type.

        Raises `SchemaError` naming both files, or `UnsupportedTypeError`.
        """
        name = ".".join(path)
        indices: list[int] = []
        stored: LeafType | None = None
        for schema in self._schemas:
            index = schema.find(path)
            if index is None:
                raise SchemaError(
                    f"Expected column `{name}` in every file, found it in {self.path} but not in "
                    f"{schema.path}"
                )
            resolved = schema.resolve(index)
            stored = stored or resolved
            if resolved != stored:
                raise SchemaError(
                    f"Expected column `{name}` to have one type in all files, got {stored} "
                    f"in {self.path} and {resolved} in {schema.path}"
                )
            indices.append(index)
        assert stored is not None
        return SelectedLeaf(name, tuple(indices[number] for number in self._schema_of), stored)

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


def select(files: FileLeaves, columns: object) -> Iterator[Selected]:
    """Yields each output's name, spec and leaves (one, but for a `Stack`), in output order.

    columns: the `columns` argument of the dataset.

    Raises `ColumnNotFoundError`, `SchemaError`, `UnsupportedTypeError`, `TypeError` or
    `ValueError`.
    """
    if columns is None:
        if not files.paths:
            raise ValueError(f"Expected columns, got none - at {files.path}")
        for path in files.paths:
            leaf = files.leaf(path)
            # Not Column(name): a file may have a column whose name is empty.
            yield leaf.name, _ALL, [leaf]
    elif isinstance(columns, Mapping):
        _refuse_empty(columns)
        for output, spec in columns.items():
            yield from _select_spec(files, output, spec)
    elif isinstance(columns, (list, tuple)):
        _refuse_empty(columns)
        for name in columns:
            if not isinstance(name, str):
                raise TypeError(
                    f"Expected a list of column names, got {name!r} in it; for specs write a "
                    "mapping, columns={'output': Column(...)}"
                )
            yield from _select_spec(files, name, name)
    else:
        raise TypeError(
            "Expected columns to be None, a list of names or a mapping from output name to name "
            f"or spec, got {columns!r}"
        )


_ALL = Column("*")


def _select_spec(files: FileLeaves, output: object, spec: object) -> Iterator[Selected]:
    if not isinstance(output, str):
        raise TypeError(f"Expected output names to be str, got {output!r}")
    if not output:
        raise ValueError("Expected an output name, got an empty str")
    if isinstance(spec, str):
        spec = Column(spec)
    if isinstance(spec, Stack):
        paths = [path for name in spec.names for path in files.find(name)]
        yield output, spec, [files.leaf(path) for path in paths]
    elif isinstance(spec, (Column, Pad, Hash, Codes)):
        name = column_name(spec)
        for path in files.find(name):
            # A struct becomes one output for each of its fields.
            rest = ".".join(path)[len(name) :]
            yield output + rest, spec, [files.leaf(path)]
    else:
        raise TypeError(
            f"Expected a column name, Column, Stack, Pad, Hash or Codes for `{output}`, got "
            f"{spec!r}"
        )


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


def _refuse_empty(columns: Sequence[object] | Mapping[object, object]) -> None:
    if not columns:
        raise ValueError("Expected at least one column, got none; columns=None means all")
