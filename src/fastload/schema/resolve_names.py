"""The leaf columns that the names in the `columns` and `exclude` arguments stand for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from fastload.schema.columns import (
    Column,
    Spec,
    Stack,
    column_name,
    torch_dtype,
)
from fastload.schema.image import Image
from fastload.schema.leaves import FileLeaves, SelectedLeaf

if TYPE_CHECKING:
    from fastload.schema.file_schema import Path

__all__ = ["select"]

Selected = tuple[str, Spec, list[SelectedLeaf]]

_OTHERS = "*"
# Column(name) would refuse a column whose name is empty, which a file may have.
_AS_STORED = Column("*")


def select(files: FileLeaves, columns: object, exclude: Iterable[str] = ()) -> Iterator[Selected]:
    """Yield the name, spec and leaves of each output, in output order.

    An output has one leaf, but a `Stack` has a leaf for each of its columns.

    Args:
        files: the leaf columns of all files.
        columns: the `columns` argument of the dataset.
        exclude: the `exclude` argument of the dataset.

    Raises:
        ColumnNotFoundError: a column does not exist.
        SchemaError: files disagree on a type, or two columns have the same name.
        UnsupportedTypeError: the type of a column is not supported.
        TypeError, ValueError: `columns` or `exclude` is wrong.
    """
    return _Selection(files, exclude).outputs(columns)


class _Selection:
    """The outputs of the files' columns, without the excluded columns."""

    def __init__(self, files: FileLeaves, exclude: Iterable[str]) -> None:
        self._files = files
        if isinstance(exclude, str) or not isinstance(exclude, Iterable):
            raise TypeError(f"Expected exclude as a list of column names, got {exclude!r}")
        self._excluded: set[Path] = set()
        for name in exclude:
            if not isinstance(name, str):
                raise TypeError(f"Expected exclude as a list of column names, got {name!r} in it")
            self._excluded.update(files.find(name))

    def outputs(self, columns: object) -> Iterator[Selected]:
        if columns is None:
            if not self._files.paths:
                raise ValueError(f"The files have no columns - at {self._files.path}")
            if self._excluded.issuperset(self._files.paths):
                raise ValueError("Expected at least one column, got an exclude that names all")
            yield from self._others(set())
        elif isinstance(columns, Mapping):
            _refuse_empty(columns)
            specs = {output: _spec_of(output, value) for output, value in columns.items()}
            for output, spec in specs.items():
                self._refuse_dtype(output, columns[output])
                if spec is None:
                    yield from self._others(self._named(specs.values()))
                else:
                    yield from self._output(output, spec)
        elif isinstance(columns, (list, tuple)):
            _refuse_empty(columns)
            for entry in columns:
                yield from self._output(*_named_after_column(entry))
        else:
            listed = f": write columns=[{columns!r}]" if isinstance(columns, (str, Spec)) else ""
            raise TypeError(
                "Expected columns to be None, a list of names or a mapping from output name to "
                f"name or spec, got {columns!r}{listed}"
            )

    def _refuse_dtype(self, output: str, value: object) -> None:
        """Raise TypeError for the name of a dtype where the name of a column is expected."""
        if not isinstance(value, str) or value in self._files.exact:
            return
        dtype = torch_dtype(value)
        if dtype is not None and value not in self._files.below:
            raise TypeError(
                f"Expected the name of a column for `{output}`, got {value!r}: write "
                f"columns={{{output!r}: {dtype}}} or Column({output!r}, dtype={value!r})"
            )

    def _others(self, named: set[Path]) -> Iterator[Selected]:
        """Yield each column that is neither named elsewhere nor excluded."""
        for path in self._files.paths:
            if path not in named and path not in self._excluded:
                leaf = self._files.leaf(path)
                yield leaf.name, _AS_STORED, [leaf]

    def _named(self, specs: Iterable[Spec | None]) -> set[Path]:
        names: list[str] = []
        for spec in specs:
            if isinstance(spec, Stack):
                names.extend(spec.names)
            elif spec is not None:
                names.append(column_name(spec))
        return {path for name in names for path in self._files.find(name)}

    def _output(self, output: str, spec: Spec) -> Iterator[Selected]:
        if isinstance(spec, Stack):
            paths = [path for name in spec.names for path in self._find(name)]
            yield output, spec, [self._files.leaf(path, torch_dtype(spec.dtype)) for path in paths]
            return
        name = column_name(spec)
        if isinstance(spec, Image):
            yield output, spec, [self._files.leaf(self._image(name))]
            return
        dtype = torch_dtype(spec.dtype) if isinstance(spec, Column) else None
        for path in self._find(name):
            # A struct becomes one output for each of its fields.
            rest = ".".join(path)[len(name) :]
            yield output + rest, spec, [self._files.leaf(path, dtype)]

    def _find(self, name: str) -> list[Path]:
        """Return the paths of a column or struct that are not excluded."""
        found = [path for path in self._files.find(name) if path not in self._excluded]
        if not found:
            raise ValueError(f"Column `{name}` stands both in columns and in exclude")
        return found

    def _image(self, name: str) -> Path:
        """Return the path of a column with encoded images, or of the field `bytes` of a struct."""
        found = self._find(name)
        paths = found if name in self._files.exact else self._find(f"{name}.bytes")
        return paths[0]


def _named_after_column(entry: object) -> tuple[str, Spec]:
    """Return the output name and the spec that an entry of a list means."""
    if isinstance(entry, str):
        return entry, Column(entry)
    if isinstance(entry, Spec) and not isinstance(entry, Stack):
        return column_name(entry), entry
    raise TypeError(
        f"Expected a list of column names, got {entry!r} in it; to give an output a name write a "
        "mapping, columns={'output': Stack([...])}"
    )


def _spec_of(output: object, value: object) -> Spec | None:
    """Return the spec that an entry of a mapping means; None for all other columns."""
    if not isinstance(output, str):
        raise TypeError(f"Expected output names to be str, got {output!r}")
    if not output:
        raise ValueError("Expected an output name, got an empty str")
    if value is ...:
        if output != _OTHERS:
            raise ValueError(
                f"Expected the key '*' for `...`, which stands for every other column, got "
                f"{output!r}"
            )
        return None
    if isinstance(value, Spec):
        return value
    if isinstance(value, str):
        return Column(value)
    if isinstance(value, (list, tuple)):
        return Stack(value)
    if isinstance(value, (torch.dtype, np.dtype, type)) and torch_dtype(value) is not None:
        return Column(output, value)
    raise TypeError(
        f"Expected a column name, dtype, list of names, Column, Stack, Pad, Fixed, Hash, Codes or "
        f"Image for `{output}`, got {value!r}"
    )


def _refuse_empty(columns: Sequence[object] | Mapping[object, object]) -> None:
    if not columns:
        raise ValueError("Expected at least one column, got none; columns=None selects all")
