"""Conversion to another loader's own format, once for all processes of a session."""

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
    """Return the directory with the converted rows, and the seconds that the conversion took.

    The conversion runs only if the scratch directory does not hold its result yet.

    Args:
        work: the work whose files and columns are converted below the work's scratch directory.
        name: name of the format.
        convert: function that writes the converted rows to an empty directory.
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
