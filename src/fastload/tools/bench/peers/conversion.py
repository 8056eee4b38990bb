"""Rows in another loader's own format: converted once for all processes of a session."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from fastload.runtime.digest import digest

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastload.tools.bench.peers import Work


def converted(work: Work, name: str, convert: Callable[[Path], None]) -> tuple[Path, float]:
    """The directory that holds the rows of `work`, and the seconds that converting took.

    Args:
        work: its files, columns and scratch count.
        name: of the format.
        convert: fills an empty directory.
    """
    parent = Path(work.scratch or tempfile.mkdtemp(prefix="fastload-bench-"))
    directory = parent / digest(json.dumps([name, work.files, work.columns]))[:16]
    seconds = directory / "seconds"
    if not seconds.exists():
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        started = time.perf_counter()
        convert(directory)
        seconds.write_text(repr(time.perf_counter() - started))
    return directory, float(seconds.read_text())
