"""Rewrite of a dataset: the pyarrow call that writes a better layout."""

from __future__ import annotations

import glob
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastload.source.local_paths import url_of
from fastload.tools.inspect.code_lines import list_lines, text_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Rewrite"]

# Row groups of a file: as many as a rank reads at a time; files few enough for short listings.
_GROUPS_OF_FILE = 64


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The layout in which to write the files again.

    Attributes:
        group_rows: rows of a row group.
        codec: codec, as pyarrow names it.
        plain: paths of the columns to write without dictionaries.
    """

    group_rows: int
    codec: str
    plain: tuple[str, ...] = ()

    def call(self, source: str, columns: Sequence[str], hive_keys: Sequence[str]) -> str:
        """Return Python code that writes the rows in the same order to a directory `rewritten`.

        Args:
            source: the source, as given to `fastload-inspect`.
            columns: paths of all leaf columns of the files.
            hive_keys: names of the columns in directory names.
        """
        options = [f"    compression={json.dumps(self.codec)},", "    write_page_index=True,"]
        if self.plain:
            kept = [name for name in columns if name not in self.plain]
            options += list_lines("    use_dictionary=", kept, ",") if kept else []
            options += [] if kept else ["    use_dictionary=False,"]
        files = _files(source)
        lines = ["import glob", ""] if files[0].startswith("sorted(") else []
        lines += [
            "import pyarrow.dataset",
            "",
            "parquet = pyarrow.dataset.ParquetFileFormat()",
            "options = parquet.make_write_options(",
            *options,
            ")",
            "rows = pyarrow.dataset.dataset(",
            *(f"    {line}" for line in files),
            "    format=parquet,",
            *(['    partitioning="hive",'] if hive_keys else []),
            ")",
            "pyarrow.dataset.write_dataset(",
            "    rows,",
            '    "rewritten",',
            "    format=parquet,",
            "    file_options=options,",
        ]
        if hive_keys:
            lines += list_lines("    partitioning=", hive_keys, ",")
            lines.append('    partitioning_flavor="hive",')
        lines += [
            f"    min_rows_per_group={self.group_rows},",
            f"    max_rows_per_group={self.group_rows},",
            f"    max_rows_per_file={self.group_rows * _GROUPS_OF_FILE},",
            "    preserve_order=True,",
            ")",
        ]
        return "\n".join(lines)


def _files(source: str) -> list[str]:
    """Return the lines of a Python expression for the files of the source, as an argument."""
    if url_of(source) is None:
        if glob.has_magic(source) and not os.path.exists(source):
            found = text_lines("    ", source, ", recursive=True)")
            return ["sorted(", "    glob.glob(", *(f"    {line}" for line in found), "),"]
    else:
        # pyarrow takes no patterns in URLs: the directory above the pattern replaces the pattern.
        while glob.has_magic(source):
            source = source.rpartition("/")[0]
    return list(text_lines("", source, ","))
