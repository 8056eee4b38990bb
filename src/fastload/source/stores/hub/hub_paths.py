"""Paths of files on the Hugging Face Hub, in one commit of their repository."""

from __future__ import annotations

import re

__all__ = ["BUCKETS", "HUB", "split_pinned", "without_commit"]

HUB = "hf"
"""The kind of files on the Hub."""
BUCKETS = "buckets/"
"""The start of paths in buckets of the Hub, which have no commits."""

_PINNED = re.compile(
    r"((?:(?:datasets|spaces)/)?[^/@]+/[^/@]+)@([0-9a-f]{40,64})(?:/(.*))?", re.DOTALL
)


def split_pinned(path: str) -> tuple[str, str, str] | None:
    """Split the path of a file in a commit into repository, commit and path in the repository.

    Returns:
        The parts; None if the path names no commit.
    """
    found = _PINNED.fullmatch(path)
    return None if found is None else (found[1], found[2], found[3] or "")


def without_commit(path: str) -> str:
    """Return a path without the commit, so that a file has the same path in all commits."""
    parts = split_pinned(path)
    return path if parts is None else f"{parts[0]}/{parts[2]}"
