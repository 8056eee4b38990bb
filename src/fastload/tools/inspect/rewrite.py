"""The pyarrow call that writes a dataset in a better layout."""

from __future__ import annotations

import glob
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastload.source.local_paths import url_of

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Rewrite"]

# Of a file: as many as a rank reads at a time, and few enough files for short listings.
_GROUPS_OF_FILE = 64


@dataclass(frozen=True, slots=True)
class Rewrite:
    """How to write the files anew.

    group_rows: of a row group.
    codec: as pyarrow names it.
    plain: columns to be written without dictionaries, by their paths.
    """

    group_rows: int
    codec: str
    plain: tuple[str, ...] = ()

    def call(self, source: str, columns: Sequence[str], hive_keys: Sequence[str]) -> str:
        """Python to run; it writes below a directory `rewritten`, rows in the same order.

        source: as given to `fastload-inspect`.
        columns: the paths of all leaf columns of the files.
        """
        options = [f"compression={json.dumps(self.codec)}", "write_page_index=True"]
        if self.plain:
            kept = [name for name in columns if name not in self.plain]
            options.append(f"use_dictionary={json.dumps(kept) if kept else False}")
        place = _place(source)
        keys = ', partitioning="hive"' if hive_keys else ""
        lines = ["import glob", ""] if place.startswith("sorted(") else []
        lines += [
            "import pyarrow.dataset",
            "",
            "parquet = pyarrow.dataset.ParquetFileFormat()",
            "pyarrow.dataset.write_dataset(",
            f"    pyarrow.dataset.dataset({place}, format=parquet{keys}),",
            '    "rewritten",',
            "    format=parquet,",
            f"    file_options=parquet.make_write_options({', '.join(options)}),",
        ]
        if hive_keys:
            lines.append(f"    partitioning={json.dumps(list(hive_keys))},")
            lines.append('    partitioning_flavor="hive",')
        lines += [
            f"    min_rows_per_group={self.group_rows},",
            f"    max_rows_per_group={self.group_rows},",
            f"    max_rows_per_file={self.group_rows * _GROUPS_OF_FILE},",
            "    preserve_order=True,",
            ")",
        ]
        return "\n".join(lines)


def _place(source: str) -> str:
    """What stands for the files, in Python."""
    if url_of(source) is None:
        if os.path.exists(source) or not glob.has_magic(source):
            return json.dumps(source)
        return f"sorted(glob.glob({json.dumps(source)}, recursive=True))"
    # pyarrow knows no patterns in URLs; what a directory holds is as near as it comes.
    while glob.has_magic(source):
        source = source.rpartition("/")[0]
    return json.dumps(source)
