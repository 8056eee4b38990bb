"""The Python blocks of a page, and what stands before them."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

# A block, the comment in front of it if there is one, or code that only the tests see.
_PARTS = re.compile(
    r"<!-- setup\n(?P<setup>.*?)-->"
    r"|(?:^ *<!-- (?P<comment>[^\n]*) -->\n+)?"
    r"^(?P<indent> *)```python\n(?P<code>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)
_NOT_RUN = re.compile(r"not run: needs (?P<what>.+)")


@dataclass(frozen=True)
class Block:
    """Python of a page.

    code: with as many empty lines in front that its line numbers are those of the page.
    needs: what it can't be run without here; None = it is run.
    """

    code: str
    needs: str | None


def blocks_of(page: str) -> list[Block]:
    """The blocks of a page in Markdown, in order."""
    blocks = []
    for part in _PARTS.finditer(page):
        group = "code" if part["setup"] is None else "setup"
        note = _NOT_RUN.fullmatch(part["comment"] or "")
        if part["comment"] and note is None:
            raise ValueError(f"Expected a comment like `not run: needs ...`, got {part['comment']}")
        lines_before = page.count("\n", 0, part.start(group))
        code = textwrap.dedent(part[group])
        blocks.append(Block("\n" * lines_before + code, note and note["what"]))
    return blocks
