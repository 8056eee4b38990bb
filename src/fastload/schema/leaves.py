"""The leaf columns of files with different schemas, unified into one schema."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import torch

from fastload.errors import ColumnNotFoundError, SchemaError
from fastload.runtime.user_warnings import warn
from fastload.schema.file_schema import FileSchema, Path, group_files, groups_above, merge_paths
from fastload.schema.hub_features import common_names
from fastload.schema.leaf_types import NUMBERS, LeafType, common_type, multiplier, resolve
from fastload.source.hive import HiveKey, find_keys, keys_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fastload.schema.file_schema import Sibling
    from fastload.source.source import Source

__all__ = ["FileLeaves", "SelectedLeaf", "describe_not_found"]

_MOST_FACTOR = 2**63 - 1  # the core multiplies by int64
# Number of column names listed in an error when no name resembles the wanted name.
_SHOWN = 8
# Arrow types as which the text of a hive key is parsed.
_PARSED = {dtype: arrow for arrow, dtype in NUMBERS.items() if dtype != torch.float16}


@dataclass(frozen=True, slots=True)
class SelectedLeaf:
    """One leaf column of all files.

    Attributes:
        name: dotted name of the leaf.
        indices: index of the leaf in each file; -1 = the file lacks the leaf.
        type: common type, as which the leaves of all files are read.
        stored: type of the leaf in each file (the common type where a file lacks the leaf);
            () = every file stores the common type.
        shared_levels: how many levels of lists the leaf shares with the one in each file, if that
            is another leaf, which stands in for one that the file lacks; 0 = it is none; () = 0 in
            every file.
        constants: for each file, the value of all rows if the file lacks the leaf: a number,
            decimal, str or bytes, or None for null; () = null in all these files.
        names: names of the classes, by number; () = the leaf has none.
    """

    name: str
    indices: tuple[int, ...]
    type: LeafType
    stored: tuple[LeafType, ...] = ()
    shared_levels: tuple[int, ...] = ()
    constants: tuple[Any, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def types(self) -> list[LeafType]:
        """Distinct types that the files store."""
        return list({id(stored): stored for stored in self.stored}.values()) or [self.type]

    @property
    def widens_integers(self) -> bool:
        """True if integers of some files are read as floats, because other files store floats."""
        if self.type.kind != "number" or not self.type.dtype.is_floating_point:
            return False
        return any(
            stored.kind == "number" and not stored.dtype.is_floating_point for stored in self.types
        )

    def is_cast(self, dtype: torch.dtype) -> bool:
        """Return True if some file stores a type other than `dtype`."""
        return any(
            stored.cast or (stored.dtype != dtype and stored.kind != "null")
            for stored in self.types
        )

    def in_unit(self, unit: str) -> SelectedLeaf:
        """Return the leaf with its dates or times in a unit.

        Raises:
            SchemaError: the leaf has no unit, or the value of a file that lacks the leaf is no
                whole number of units.
        """
        place = f"at column `{self.name}`"
        if self.type.unit is None:
            raise SchemaError(
                f"Expected no unit for a column of type {self.type}, got {unit!r} - {place}"
            )
        common = replace(self.type, unit=unit, dtype=torch.int64)
        # The constants are numbers in the unit of the common type.
        factor = multiplier(replace(self.type, multiplier=1), common, unscaled=False)
        constants = []
        for value in self.constants:
            if value is not None and factor < 0 and value % -factor:
                raise SchemaError(
                    f"Expected a whole number of {unit}, got {value} {self.type.unit} - {place}"
                )
            scaled = value if value is None else value * factor if factor > 0 else value // -factor
            constants.append(scaled)
        stored = self.stored or (self.type,) * len(self.indices)
        return replace(self, type=common, stored=stored, constants=tuple(constants))

    def multipliers(self, *, unscaled: bool) -> tuple[int, ...]:
        """Return the factor from the stored to the delivered integers of each file; () = all are 1.

        A factor -n divides by n.

        Args:
            unscaled: deliver decimals as their unscaled integers.

        Raises:
            SchemaError: a factor exceeds int64.
        """
        factors = {id(t): multiplier(t, self.type, unscaled=unscaled) for t in self.types}
        if set(factors.values()) == {1}:
            return ()
        if max(factors.values()) > _MOST_FACTOR:
            arrow = ", ".join(map(str, self.types))
            raise SchemaError(
                "Expected decimals whose unscaled integers fit int64 at one scale, got the types "
                f"{arrow} - at column `{self.name}`"
            )
        stored = self.stored or (self.type,) * len(self.indices)
        return tuple([factors[id(type_)] for type_ in stored])


class FileLeaves:
    """The leaf columns of all files, and the hive keys of their directories, found by path.

    Args:
        source: the files.

    Attributes:
        source: the files.
        path: path of the first file, for error messages.
        paths: paths of the leaves of all files in order of first appearance, as pyarrow unifies
            schemas; then the paths of the hive keys.
        exact: paths of the leaves of each dotted name.
        below: paths of the leaves below each struct or list, by dotted name.
    """

    __slots__ = (
        "_constants_of",
        "_files_of",
        "_keys",
        "_schema_of",
        "_schemas",
        "_spellings",
        "_touching",
        "below",
        "exact",
        "path",
        "paths",
        "source",
    )

    def __init__(self, source: Source) -> None:
        self.source = source
        self.path = source.files[0].path
        columns = None if source.table is None else source.table.columns
        self._schemas, self._schema_of = group_files(source.files, columns)
        self._files_of: list[list[int]] = [[] for _ in self._schemas]
        for file, number in enumerate(self._schema_of):
            self._files_of[number].append(file)
        self._touching: dict[Path, list[int]] = {}  # numbers of schemas
        for number, schema in enumerate(self._schemas):
            for path in schema.touched():
                numbers = self._touching.setdefault(path, [])
                if not numbers or numbers[-1] != number:
                    numbers.append(number)
        self._spellings: dict[str, set[str]] = {}
        for path in dict.fromkeys(chain.from_iterable(s.indices for s in self._schemas)):
            name = ".".join(path)
            self._spellings.setdefault(name.casefold(), set()).add(name)
        self._constants_of: dict[Path, dict[int, Any]] = {}
        for number, source_file in enumerate(source.files):
            for path, scalar in source_file.constants:
                self._constants_of.setdefault(path, {}).setdefault(number, scalar)
        self._keys = find_keys(source.files)
        keys = ((name,) for name in self._keys)
        self.paths = list(dict.fromkeys([*merge_paths(self._schemas), *keys]))
        self.exact: dict[str, list[Path]] = {}
        self.below: dict[str, list[Path]] = {}
        for path in self.paths:
            self.exact.setdefault(".".join(path), []).append(path)
            for group in groups_above(path):
                self.below.setdefault(".".join(group), []).append(path)

    def leaf(self, path: Path, dtype: torch.dtype | None = None) -> SelectedLeaf:
        """Return the leaf at `path` in all files; some files may lack the leaf.

        Args:
            path: path of the leaf.
            dtype: the dtype that the user asks for, to which the text of a hive key is parsed.

        Raises:
            SchemaError: the types of two files have no common type; the message names the files.
            UnsupportedTypeError: the type of the leaf is not supported.
        """
        key = self._keys.get(path[0]) if len(path) == 1 else None
        near = self._near(path)
        schemas = list(near.values())
        found = [schema.find(path) for schema in schemas]
        stored = [
            None if index is None else schema.resolve(index)
            for schema, index in zip(schemas, found, strict=True)
        ]
        shared = _stand_in(path, schemas, found, stored)
        common = _common(path, schemas, stored)
        name = ".".join(path)
        indices = [-1 if index is None else index for index in found]
        if key is not None:
            return self._keyed(key, self._by_file(near, indices, -1), near, stored, common, dtype)
        assert common is not None
        constants = self._constants(path, common)
        shared_by_file = self._by_file(near, shared, 0) if any(shared) else ()
        for file, levels, value in zip(self.source.files, shared_by_file, constants, strict=False):
            if levels and value is not None:
                raise SchemaError(
                    f"Expected no default value for a field inside lists, got {value!r}: rewrite "
                    f"the file, or leave the column out - at {file.path}, column `{name}`"
                )
        return SelectedLeaf(
            name,
            self._by_file(near, indices, -1),
            common,
            self._stored_by_file(near, stored, common),
            shared_by_file,
            constants,
            self._class_names(name, schemas, indices, shared),
        )

    def _near(self, path: Path) -> dict[int, FileSchema]:
        """Return the schemas that touch a path or a path above it, by number, in order."""
        found = [self._touching.get(part, []) for part in (*groups_above(path), path)]
        return {number: self._schemas[number] for number in sorted(set().union(*found))}

    def _class_names(
        self,
        name: str,
        schemas: Sequence[FileSchema],
        indices: Sequence[int],
        shared: Sequence[int],
    ) -> tuple[str, ...]:
        known = zip(schemas, indices, shared, strict=True)
        names = common_names(
            [s.class_names(index) for s, index, levels in known if index >= 0 and not levels]
        )
        if names is None:
            warn(
                "The files name one class differently, so the field of the output has no names: "
                f"check that the labels mean the same in all files - at {self.path}, column "
                f"`{name}`"
            )
        return names or ()

    def find(self, name: str) -> list[Path]:
        """Return the paths of the leaf called `name`, or of all leaves below a struct `name`.

        Raises:
            ColumnNotFoundError: no column has this name; the message lists the nearest names.
            SchemaError: two columns have this name.
        """
        exact = self.exact.get(name, [])
        if len(exact) > 1:
            raise SchemaError(
                f"Expected one column of this name, got {len(exact)} - at {self.path}, column "
                f"`{name}`"
            )
        found = exact or self.below.get(name, [])
        if not found:
            if name in {"__file__", "__row__"}:
                raise ColumnNotFoundError(
                    f"Expected a column of the files, got `{name}`: this is no column. To get the "
                    "outputs `__file__` and `__row__`, leave them out here and pass "
                    "provenance=True - "
                    f"at {self.path}"
                )
            raise ColumnNotFoundError(
                describe_not_found(name, [*self.exact, *self.below], self.path)
            )
        return found

    def other_spelling(self, name: str, files: Iterable[int]) -> tuple[int, str] | None:
        """Return the first file with a column that differs from a name in case alone, and its name.

        Args:
            name: the name.
            files: indices of the files to look at.
        """
        if self._spellings.get(name.casefold(), {name}) == {name}:
            return None
        firsts: dict[int, int] = {}
        for file in files:
            firsts.setdefault(self._schema_of[file], file)
        for number, file in firsts.items():
            for other in map(".".join, self._schemas[number].indices):
                if other != name and other.casefold() == name.casefold():
                    return file, other
        return None

    def _keyed(
        self,
        key: HiveKey,
        indices: Sequence[int],
        near: Iterable[int],
        stored: Sequence[LeafType | None],
        common: LeafType | None,
        dtype: torch.dtype | None,
    ) -> SelectedLeaf:
        """Return the leaf of a hive key; a key in a file's path overrides a column in the file."""
        origin = []
        if common is None or common.kind == "null":
            common = resolve(key.infer_type(), "None")
            if common.kind == "str" and dtype is not None:
                # Arrow parses no text to floats of 16 bits.
                common = resolve(_PARSED.get(dtype, pa.float64()), "None")
                origin = ["which `columns` asks for"]
        values = key.parse(common.arrow, self.source.files, *origin)
        constants = tuple(None if text is None else values[text] for text in key.texts)
        leaves = zip(indices, key.named, strict=True)
        return SelectedLeaf(
            key.name,
            tuple(-1 if named else index for index, named in leaves),
            common,
            self._stored_by_file(near, stored, common),
            constants=constants,
        )

    def _constants(self, path: Path, common: LeafType) -> tuple[Any, ...]:
        """Return the value of each file whose table has one for the column; () = no file has one.

        Raises:
            SchemaError: a value does not fit the column's type.
        """
        files = self.source.files
        given = self._constants_of.get(path)
        if given is None:
            return ()
        scalars = [given.get(number) for number in range(len(files))]
        # The text tells 0.0 from -0.0, which equals 0.0.
        keys = [None if scalar is None else (scalar, str(scalar)) for scalar in scalars]
        values: dict[Any, Any] = {None: None}
        for key in set(keys):
            if key is None:
                continue
            scalar, _ = key
            try:
                values[key] = _plain(scalar.cast(common.arrow))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise SchemaError(
                    f"Expected a partition value of type {common.arrow}, got {scalar}: {error} - "
                    f"at {files[keys.index(key)].path}, column `{'.'.join(path)}`"
                ) from None
        if not any(value is not None for value in values.values()):
            return ()
        return tuple([values[key] for key in keys])

    def _by_file(
        self, schemas: Iterable[int], values: Sequence[Any], other: Any
    ) -> tuple[Any, ...]:
        """Return a value for each file, given those of some schemas and that of all others."""
        found = [other] * len(self._schema_of)
        for number, value in zip(schemas, values, strict=True):
            for file in self._files_of[number]:
                found[file] = value
        return tuple(found)

    def _stored_by_file(
        self, schemas: Iterable[int], stored: Sequence[LeafType | None], common: LeafType
    ) -> tuple[LeafType, ...]:
        if all(type_ is None or type_ == common for type_ in stored):
            return ()
        return self._by_file(schemas, [type_ or common for type_ in stored], common)


def _stand_in(
    path: Path,
    schemas: Sequence[FileSchema],
    found: list[int | None],
    stored: list[LeafType | None],
) -> list[int]:
    """Fill in leaves for files that lack the leaf at `path`, for the sake of the lists.

    A file that stores the structs and lists of `path` as null has a leaf of type null in
    their place. A file with the structs has other leaves in them, which know the lengths of
    the lists. If some file stores lists at `path`, leaves of type null outside lists are
    dropped.

    Returns:
        For each schema, how many levels of lists the leaf at `path` shares with the leaf of
        another path that was filled in; 0 = none was.

    Raises:
        SchemaError: the levels of lists differ between files.
    """
    shared = [0] * len(found)
    own = [
        (schema, schema.leaves[index].lists_around)
        for schema, index in zip(schemas, found, strict=True)
        if index is not None
    ]
    for number, schema in enumerate(schemas):
        if found[number] is not None:
            continue
        found[number] = index = schema.find_null(path)
        if index is not None:
            stored[number] = schema.resolve(index)
        elif (sibling := schema.find_sibling(path)) is not None:
            shared[number] = levels = _shared_levels(path, schema, sibling, own)
            if levels:
                found[number] = sibling.leaf
                stored[number] = schema.null_in_lists(sibling.leaf, levels)
    if not any(type_ and type_.list_sizes for type_ in stored):
        return shared
    for number, type_ in enumerate(stored):
        if type_ and type_.kind == "null" and not type_.list_sizes:
            found[number] = stored[number] = None
    return shared


def _shared_levels(
    path: Path,
    schema: FileSchema,
    sibling: Sibling,
    own: Sequence[tuple[FileSchema, tuple[int, ...]]],
) -> int:
    """Return how many levels of lists a leaf that a schema lacks shares with its sibling.

    Args:
        path: path of the leaf.
        schema: the schema that lacks the leaf.
        sibling: the leaf's sibling in the schema.
        own: the schemas that have the leaf, and the lists around each of the names of its path.

    Raises:
        SchemaError: another schema has more levels, or fewer.
    """
    levels = schema.leaves[sibling.leaf].lists_around[sibling.depth]
    for other, around in own:
        if around[sibling.depth] != levels:
            raise SchemaError(
                f"Expected as many levels of lists around the fields of "
                f"`{'.'.join(path[: sibling.depth])}` in all files, got {around[sibling.depth]} in "
                f"{other.path} and {levels} in {schema.path}, which lacks the column - at column "
                f"`{'.'.join(path)}`"
            )
    return levels


def _common(
    path: Path, schemas: Sequence[FileSchema], stored: Sequence[LeafType | None]
) -> LeafType | None:
    """Return the common type of the stored types; None if no file has the leaf."""
    common: LeafType | None = None
    known = list(zip(schemas, stored, strict=True))
    for schema, type_ in known:
        if type_ is None:
            other = schema.other(path)
            if other is not None:
                raise _no_common_type(path, known, schema, other, None)
            continue
        unified = type_ if common is None else common_type(common, type_)
        if unified is None:
            raise _no_common_type(path, known, schema, str(type_), type_)
        common = unified
    return common


def _plain(scalar: Any) -> Any:
    """Return an Arrow scalar as a number, decimal, str or bytes; dates and times as integers."""
    if scalar.is_valid and pa.types.is_temporal(scalar.type):
        return scalar.value
    return scalar.as_py()


def _no_common_type(
    path: Path,
    known: Sequence[tuple[FileSchema, LeafType | None]],
    refused: FileSchema,
    got: str,
    got_type: LeafType | None,
) -> SchemaError:
    """Return the error that names the first known schema that conflicts with the refused one."""
    typed = [
        (schema, type_)
        for schema, type_ in known
        if type_ and (type_.kind != "null" or type_.list_sizes) and schema is not refused
    ]
    conflicts = (
        (schema, type_)
        for schema, type_ in typed
        if got_type is None or common_type(type_, got_type) is None
    )
    # Every two types may have a common type while all types together have none: then the first
    # typed schema is named. If no file has the column, the column is a hive key.
    schema, type_ = next(conflicts, typed[0] if typed else (None, None))
    first = f"{type_} in {schema.path}" if schema and type_ else "a hive key"
    return SchemaError(
        f"Expected column `{'.'.join(path)}` to have types that promote to a common one, got "
        f"{first} and {got} in {refused.path}"
    )


def describe_not_found(name: str, known: Sequence[str], path: str) -> str:
    """Return the error message for a column that does not exist, with the nearest known names."""
    folded: dict[str, str] = {}
    for candidate in known:
        folded.setdefault(candidate.casefold(), candidate)
    near = difflib.get_close_matches(name.casefold(), folded, n=3, cutoff=0.5)
    names = [folded[match] for match in near] or known[:_SHOWN]
    label = "the nearest are" if len(near) > 1 else "the nearest is" if near else "the columns are"
    more = "" if near or len(known) <= _SHOWN else " and more"
    shown = ", ".join(f"`{candidate}`" for candidate in names)
    return (
        f"Expected a column of the files, got `{name}`; {label} {shown}{more}"
        f"{_hint_of_key(name, path)} - at {path}"
    )


def _hint_of_key(name: str, path: str) -> str:
    """Return how to read a hive key of a path as a column; "" if the path has no such key."""
    for folder in path.split("/")[:-1]:
        if dict(keys_of([folder], path)).keys() == {name}:
            return (
                f"; to read the key of the directory `{folder}`, pass the directory that holds "
                f"`{folder}`, or a glob whose first wildcard is that of `{name}=*`"
            )
    return ""
