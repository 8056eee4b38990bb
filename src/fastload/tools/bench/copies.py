"""Links to small files, so that an epoch over the links takes long enough to be timed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastload.tools.bench.survey import Survey

# An epoch that decodes this much a core takes 25 ms where pages are kept in memory, and up to
# 100 ms elsewhere; two copies of the sample have as much on two cores.
_CORE_BYTES = 256 << 20
# Contenders that read the whole table into memory need room for it.
_MOST_BYTES = 2 << 30
# More files would measure how files are opened.
_MOST_FILES = 2000


def copies_of(survey: Survey, cores: int) -> int:
    """Return how often to read the files in one epoch; 1 for files of a store.

    Args:
        survey: the files.
        cores: number of cores that read them.
    """
    if survey.remote or not survey.decoded_bytes:
        return 1
    wanted = min(_CORE_BYTES * cores, _MOST_BYTES)
    # Half of that is long enough.
    copies = max(1, round(wanted / survey.decoded_bytes))
    return min(copies, max(1, _MOST_FILES // len(survey.files)))


def with_copies(survey: Survey, copies: int, directory: str) -> Survey:
    """Return the survey of `copies` links to each file, which lie in `directory`.

    No byte is copied.
    """
    if copies == 1:
        return survey
    links = []
    for copy in range(copies):
        folder = Path(directory, f"copy-{copy:05}")
        folder.mkdir()
        for number, file in enumerate(survey.files):
            link = folder / f"{number:05}-{Path(file).name}"
            link.symlink_to(Path(file).absolute())
            links.append(str(link))
    return replace(
        survey,
        files=tuple(links),
        originals=survey.files,
        copies=copies,
        rows=survey.rows * copies,
        row_groups=survey.row_groups * copies,
        decoded_bytes=survey.decoded_bytes * copies,
        stored_bytes=survey.stored_bytes * copies,
    )
