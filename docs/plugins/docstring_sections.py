"""An extension of Griffe: how the reference shows sections of docstrings.

A section `Example:` of code becomes a block of Python. In `Raises:`, an entry of several errors
becomes an entry for each error, so that the table has one error a row.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^Examples?:\n(?P<code>(?:(?: {4,}.*)?\n)+)", re.MULTILINE)
_RAISES = re.compile(r"^Raises:\n(?P<entries>(?:(?: {4,}.*)?\n)+)", re.MULTILINE)
_SEVERAL = re.compile(r"^(?P<indent> {4})(?P<names>\w+(?:, \w+)+):(?P<rest>(?:.*\n(?: {5,}.*\n)*))")


class DocstringSections(griffe.Extension):
    """Rewrites the sections of each docstring before Griffe parses them."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of a class, function, attribute or module."""
        if obj.docstring is not None:
            obj.docstring.value = rewritten(obj.docstring.value)


def rewritten(text: str) -> str:
    """Return a docstring with fenced examples, and one error in each entry of `Raises:`."""
    text = _EXAMPLE.sub(_fenced, text + "\n")
    return _RAISES.sub(_one_error_each, text).rstrip()


def _fenced(section: re.Match[str]) -> str:
    lines = [line[4:] for line in section["code"].strip("\n").split("\n")]
    return "\n".join(["**Example:**", "", "```python", *lines, "```", "", ""])


def _one_error_each(section: re.Match[str]) -> str:
    # An entry is its first line, and the lines that are indented further.
    entries = re.split(r"^(?= {4}\S)", section["entries"], flags=re.MULTILINE)
    return "Raises:\n" + "".join(map(_split, entries))


def _split(entry: str) -> str:
    several = _SEVERAL.match(entry)
    if several is None:
        return entry
    return "".join(
        f"{several['indent']}{name}:{several['rest']}" for name in several["names"].split(", ")
    )
