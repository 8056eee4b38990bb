"""Lines of Python to paste, of at most 80 columns unless a single name is longer."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["comment_lines", "entry_lines", "list_lines", "text_lines"]

_WIDTH = 80


def comment_lines(text: str) -> list[str]:
    """Return a comment, wrapped by words."""
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent="# ",
        subsequent_indent="# ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def entry_lines(indent: str, key: str, value: str, comment: str = "") -> Iterator[str]:
    """Yield the entry of a dict: a comment that doesn't fit goes above, a value below its key."""
    line = f"{indent}{key}: {value},"
    if comment and len(line) + len(f"  # {comment}") <= _WIDTH:
        yield f"{line}  # {comment}"
        return
    if comment:
        yield f"{indent}# {comment}"
    if len(line) <= _WIDTH:
        yield line
        return
    yield f"{indent}{key}:"
    call, of_key, rest = value.partition(f"({key}, ")
    if len(f"{indent}    {value},") <= _WIDTH or not of_key:
        yield f"{indent}    {value},"
        return
    yield f"{indent}    {call}("
    yield f"{indent}        {key},"
    yield f"{indent}        {rest.removesuffix(')')},"
    yield f"{indent}    ),"


def list_lines(head: str, items: Sequence[str], tail: str) -> list[str]:
    """Return a list of texts between `head` and `tail`: in one line, or a line for each text."""
    line = f"{head}{json.dumps(list(items))}{tail}"
    if len(line) <= _WIDTH:
        return [line]
    indent = " " * (len(head) - len(head.lstrip()))
    return [f"{head}[", *(f"{indent}    {json.dumps(item)}," for item in items), f"{indent}]{tail}"]


def text_lines(indent: str, text: str, end: str) -> Iterator[str]:
    """Yield a text in quotes, cut behind slashes into parts that Python joins again."""
    room = _WIDTH - len(indent) - len(end)
    while len(json.dumps(text)) > room:
        cut = text.rfind("/", 0, room - 3) + 1
        if not cut:
            break
        yield f"{indent}{json.dumps(text[:cut])}"
        text = text[cut:]
    yield f"{indent}{json.dumps(text)}{end}"
