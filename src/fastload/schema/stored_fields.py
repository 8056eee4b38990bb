"""What prepared rows say of a column that Parquet has no type for.

fastload's key in the metadata of a file names the columns whose dtype or unit the schema of the
file does not show: of bfloat16, which is stored as float32, and of numbers that count days or
seconds. Other readers see the stored numbers.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import torch

from fastload.schema.hub_features import Feature, metadata_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastload.runtime.native import core
    from fastload.schema.fields import Field

__all__ = ["STORED_AS", "lost_metadata", "lost_row_groups", "metadata_for", "stored_fields"]

_KEY = b"fastload"
_LOST = b"fastload.lost"
_UNITS = ("day", "s", "ms", "us", "ns")

STORED_AS = {torch.bfloat16: torch.float32}
"""The dtypes that Parquet lacks, and those as which their values are stored."""


def metadata_for(fields: Mapping[str, Field]) -> dict[bytes, bytes]:
    """Return the metadata of a file that holds some outputs.

    Args:
        fields: the outputs, by the names of their columns.
    """
    said = {}
    for name, field in fields.items():
        entry: dict[str, str] = {}
        if field.dtype in STORED_AS:
            entry["dtype"] = str(field.dtype).removeprefix("torch.")
        if field.unit is not None:
            entry["unit"] = field.unit
        if entry:
            said[name] = entry
    return {_KEY: json.dumps({"columns": said}).encode()} if said else {}


def stored_fields(footer: core.Footer) -> dict[tuple[str, ...], Feature]:
    """Return what the metadata of a file says of its columns, by path of the leaf.

    Metadata that fastload did not write says nothing.
    """
    text = metadata_of(footer, _KEY)
    if text is None:
        return {}
    try:
        columns = json.loads(text)["columns"]
        return {(name,): _feature(entry) for name, entry in columns.items()}
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return {}


def lost_metadata(lost: Mapping[tuple[int, int], str]) -> dict[bytes, bytes]:
    """Return the metadata of a file whose source has unreadable row groups.

    Args:
        lost: the cause for each file and row group of the source.
    """
    entries = [[*place, cause] for place, cause in lost.items()]
    return {_LOST: json.dumps(entries).encode()}


def lost_row_groups(path: str) -> dict[tuple[int, int], str]:
    """Return what `lost_metadata` wrote to a file; {} if nothing was lost."""
    import pyarrow.parquet as pq

    # Footers of equal schemas share one object, which has the metadata of the first.
    text = (pq.read_metadata(path).metadata or {}).get(_LOST)
    return {} if text is None else {(a, b): cause for a, b, cause in json.loads(text)}


def _feature(entry: Any) -> Feature:
    dtypes = {str(dtype).removeprefix("torch."): dtype for dtype in STORED_AS}
    dtype = dtypes[entry["dtype"]] if "dtype" in entry else None
    unit = entry.get("unit")
    return Feature(dtype=dtype, unit=unit if unit in _UNITS else None)
