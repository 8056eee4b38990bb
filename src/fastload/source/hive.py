"""Columns in the names of directories, as Hive writes them: `year=2024/country=fr/a.parquet`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from fastload.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.source.files import Keys, SourceFile

__all__ = ["HiveKey", "find_keys", "keys_of"]


# What Hive writes in place of a null.
_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class HiveKey:
    """One key of the directories, as a column.

    texts: its value by file as the directories have it; None = null.
    named: by file, whether its directories have the key at all.
    """

    name: str
    texts: tuple[str | None, ...]
    named: tuple[bool, ...]

    def infer_type(self) -> Any:
        """int32 if every value is one, else string, as pyarrow infers; null without a value."""
        texts = self._distinct()
        if not texts:
            return pa.null()
        return pa.string() if self._cast(texts, pa.int32()) is None else pa.int32()

    def parse(self, arrow: Any, files: Sequence[SourceFile]) -> dict[str, Any]:
        """From each text to its value as `arrow`: dates, times and timestamps as int.

        Raises `SchemaError`, naming the first of the files whose text is no such value.
        """
        texts = self._distinct()
        if not texts:
            return {}
        values = self._cast(texts, arrow)
        if values is None:
            text = next(text for text in texts if self._cast([text], arrow) is None)
            raise SchemaError(
                f"Expected a directory `{self.name}=...` of type {arrow}, which the column of "
                f"that name in the files has, got {text!r} - at "
                f"{files[self.texts.index(text)].path}, column `{self.name}`"
            )
        if pa.types.is_temporal(arrow):
            values = values.view(pa.int32() if arrow.bit_width == 32 else pa.int64())
        return dict(zip(texts, values.to_pylist(), strict=True))

    @staticmethod
    def _cast(texts: list[str], arrow: Any) -> Any:
        """The texts as an array of that type; None where one of them is no such value."""
        try:
            return pa.array(texts, pa.string()).cast(arrow)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None

    def _distinct(self) -> list[str]:
        return [text for text in dict.fromkeys(self.texts) if text is not None]


def keys_of(folders: Sequence[str], path: str) -> Keys:
    """The keys in the names of the directories around a file, outermost first.

    Of a key that is there twice the outermost counts. Raises `SchemaError` for a name that is
    not UTF-8 once it is URL-decoded.
    """
    keys: dict[str, str | None] = {}
    for folder in folders:
        name, separator, text = folder.partition("=")
        if not separator:
            continue
        value = None if text == _NULL else unquote(text, errors="surrogateescape")
        name = unquote(name, errors="surrogateescape")
        try:
            (name + (value or "")).encode()
        except UnicodeEncodeError:
            raise SchemaError(
                f"Expected the directory's name in UTF-8, got {folder!r} - at {path}"
            ) from None
        keys.setdefault(name, value)
    return tuple(keys.items())


def find_keys(files: Sequence[SourceFile]) -> dict[str, HiveKey]:
    """The keys of all files by name, in order of first appearance."""
    by_file = [dict(file.keys) for file in files]
    names = dict.fromkeys(name for keys in by_file for name in keys)
    return {
        name: HiveKey(
            name,
            tuple(keys.get(name) for keys in by_file),
            tuple(name in keys for keys in by_file),
        )
        for name in names
    }
