"""Seconds of passes that drop each batch at once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def seconds_of_pass(batches: Iterable[object], passes: int = 1) -> float:
    """Return the seconds of a pass, as the mean of several passes in a row."""
    start = time.perf_counter()
    for _ in range(passes):
        for _batch in batches:
            pass
    return (time.perf_counter() - start) / passes
