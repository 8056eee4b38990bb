"""Hive keys: columns in the names of directories, such as `year=2024/country=fr/a.parquet`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from fastload.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.source.files import HiveKeys, SourceFile

__all__ = ["HiveKey", "find_keys", "keys_of"]


# The text that Hive writes for a null.
_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class HiveKey:
    """One Hive key as a column.

    Attributes:
        name: name of the key.
        texts: for each file, the value as its directory spells it; None = null.
        named: for each file, True if one of its directories has the key.
    """

    name: str
    texts: tuple[str | None, ...]
    named: tuple[bool, ...]

    def infer_type(self) -> Any:
        """Return the type that pyarrow infers: int32 if every value is one, else string.

        Without any value that is not null, the type is null.
        """
        texts = self._distinct()
        if not texts:
            return pa.null()
        return pa.string() if self._cast(texts, pa.int32()) is None else pa.int32()

    def parse(
        self,
        arrow: Any,
        files: Sequence[SourceFile],
        origin: str = "which the column of that name in the files has",
    ) -> dict[str, Any]:
        """Convert each distinct text to a value of an Arrow type.

        Args:
            arrow: the Arrow type.
            files: the files of the source, for the error.
            origin: what asks for the type, for the error.

        Returns:
            The value of each text: dates, times and timestamps as int.

        Raises:
            SchemaError: a text is not a value of the type; the error names the first file.
        """
        texts = self._distinct()
        if not texts:
            return {}
        values = self._cast(texts, arrow)
        if values is None:
            text = next(text for text in texts if self._cast([text], arrow) is None)
            raise SchemaError(
                f"Expected a directory `{self.name}=...` of type {arrow}, {origin}, got {text!r} - "
                f"at {files[self.texts.index(text)].path}, column `{self.name}`"
            )
        if pa.types.is_temporal(arrow):
            values = values.view(pa.int32() if arrow.bit_width == 32 else pa.int64())
        return dict(zip(texts, values.to_pylist(), strict=True))

    @staticmethod
    def _cast(texts: list[str], arrow: Any) -> Any:
        """Convert the texts to an array of an Arrow type; return None if a text is no value."""
        try:
            return pa.array(texts, pa.string()).cast(arrow)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None

    def _distinct(self) -> list[str]:
        return [text for text in dict.fromkeys(self.texts) if text is not None]


def keys_of(folders: Sequence[str], path: str) -> HiveKeys:
    """Return the Hive keys in the names of a file's directories, outermost first.

    If two directories have the same key, the outermost counts.

    Args:
        folders: names of the directories, outermost first.
        path: path of the file, for the error.

    Raises:
        SchemaError: a name is not UTF-8 after URL-decoding.
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
    """Return the Hive keys of all files by name, in order of first appearance."""
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
