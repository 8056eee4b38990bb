"""Features of columns, which writers keep in the metadata of Parquet files: Hugging Face's."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import torch

    from fastload.runtime.native import core

__all__ = ["Feature", "common_names", "features_of", "metadata_of"]

Path = tuple[str, ...]

_KEY = b"huggingface"
_ARRAYS = ("Array2D", "Array3D", "Array4D", "Array5D")
_LISTS = ("Sequence", "List", "LargeList")
# Metadata that nests deeper than this is not that of a dataset.
_MOST_LEVELS = 64


@dataclass(frozen=True, slots=True)
class Feature:
    """The facts that the features state about one leaf column.

    Attributes:
        names: names of the classes of a ClassLabel, by number; () = the leaf is none.
        sizes: number of elements of each level of lists around a value, outermost first; 0 =
            lists of varying lengths.
        dtype: dtype of the values, if their Parquet type says another; else None.
        unit: unit of the values, if their Parquet type says none; else None.
    """

    names: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    dtype: torch.dtype | None = None
    unit: str | None = None

    def fixed_sizes(self, list_sizes: Sequence[int]) -> tuple[int, ...]:
        """Return the sizes of lists of a leaf, with those that only the features know.

        Args:
            list_sizes: the sizes that the file's schema knows.
        """
        stored = tuple(list_sizes)
        if len(stored) != len(self.sizes):
            return stored
        both = list(zip(stored, self.sizes, strict=True))
        if any(own and size and own != size for own, size in both):
            return stored
        return tuple(own or size for own, size in both)


def features_of(footer: core.Footer) -> dict[Path, Feature]:
    """Return the features of a file by path of the leaf; of leaves with names or fixed sizes.

    Metadata that is not that of a Hugging Face dataset has no features.
    """
    text = metadata_of(footer, _KEY)
    if text is None:
        return {}
    try:
        features = json.loads(text)["info"]["features"]
        found = dict(_walk(features, (), ()))
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return {}
    return {path: each for path, each in found.items() if each.names or any(each.sizes)}


def metadata_of(footer: core.Footer, key: bytes) -> bytes | None:
    """Return what the metadata of a file holds under a key; None if it has no such key."""
    if key not in footer.schema.tail:
        return None
    import pyarrow.parquet as pq

    file = pa.BufferReader(b"PAR1" + footer.schema.tail)
    text: bytes | None = (pq.read_metadata(file).metadata or {}).get(key)
    return text


def common_names(names: Sequence[tuple[str, ...]]) -> tuple[str, ...] | None:
    """Return the class names that all files share: the longest, if it continues the others.

    Returns:
        The names; () if no file has names; None if files name one number differently.
    """
    longest = max(names, key=len, default=())
    if any(longest[: len(each)] != each for each in names):
        return None
    return longest


def _walk(feature: Any, path: Path, sizes: tuple[int, ...]) -> Iterator[tuple[Path, Feature]]:
    """Yield each leaf of a feature as JSON with its path."""
    if len(path) + len(sizes) > _MOST_LEVELS:
        return
    if isinstance(feature, list):  # [feature], of older releases
        yield from _walk(feature[0], path, (*sizes, 0))
        return
    kind = feature.get("_type")
    if not isinstance(kind, str):  # a struct, or the columns
        for name, below in feature.items():
            yield from _walk(below, (*path, name), sizes)
    elif kind in _LISTS:
        length = feature.get("length", -1)
        yield from _walk(feature["feature"], path, (*sizes, _size(length)))
    elif kind in _ARRAYS:
        shape = tuple(_size(size) for size in feature["shape"])
        yield path, Feature(sizes=(*sizes, *shape))
    elif kind == "ClassLabel":
        names = feature.get("names") or ()
        if all(isinstance(name, str) for name in names):
            yield path, Feature(tuple(names), sizes)
    elif kind == "Value":
        yield path, Feature(sizes=sizes)


def _size(size: Any) -> int:
    return size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else 0
