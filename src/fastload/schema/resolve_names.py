"""The leaf columns that the names in the `columns` argument stand for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fastload.schema.columns import Codes, Column, Hash, Pad, Spec, Stack, column_name
from fastload.schema.leaves import FileLeaves, SelectedLeaf

__all__ = ["select"]

Selected = tuple[str, Spec, list[SelectedLeaf]]


def select(files: FileLeaves, columns: object) -> Iterator[Selected]:
    """Yield the name, spec and leaves of each output, in output order.

    An output has one leaf, but a `Stack` has a leaf for each of its columns.

    Args:
        files: the leaf columns of all files.
        columns: the `columns` argument of the dataset.

    Raises:
        ColumnNotFoundError: a column does not exist.
        SchemaError: files disagree on a type, or two columns have the same name.
        UnsupportedTypeError: the type of a column is not supported.
        TypeError, ValueError: `columns` is wrong.
    """
    if columns is None:
        if not files.paths:
            raise ValueError(f"The files have no columns - at {files.path}")
        for path in files.paths:
            leaf = files.leaf(path)
            # Column(name) would refuse a column whose name is empty, which a file may have.
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


def _refuse_empty(columns: Sequence[object] | Mapping[object, object]) -> None:
    if not columns:
        raise ValueError("Expected at least one column, got none; columns=None selects all")
