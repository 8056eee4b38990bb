"""A check of the language of pages and public docstrings.

    python tests/documentation/prose.py README.md docs src

It refuses phrases that a reader has to read twice, sentences that end in "too" or "as well", and
paragraphs that begin with a sentence without a subject. Notes and the changelog are left out.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# What to write instead, by phrase.
PHRASES = {
    r"anew": "again, rewrite or recreate",
    r"begun again": "restarted",
    r"(?:goes|go|going|went) on (?:at|in|with|there|from|after)": "resumes, continues",
    r"(?:is|are) told": "fastload reports, raises or prints it",
    r"(?:is|are) refused": "raises",
    r"not used for longest": "least recently used",
    r"by hand": "hand-written",
    r"as it lies": "as stored, in place",
    r"a second (?=each|and)": "per second",
    r"the (?:former|latter)": "name the thing again",
    r"some \d[\d.,]*\s?%": "about N%",
    r"shall": "is, must or will",
    r"likewise": "also, in the same way",
    r"nobody": "name the actor",
    r"is to be done": "name the actor",
    r"said to be": "marked as",
    r"dear": "expensive",
    r"spares": "avoids",
}
_PHRASE = re.compile(
    rf"(?<!\w)(?:{'|'.join(f'({phrase})' for phrase in PHRASES)})(?!\w)", re.IGNORECASE
)
_ENDS = re.compile(r"\b(?:too|as well)[.!?](?=\s|$)")
# "What a layout costs." and "Those that shuffle." are no sentences.
_FRAGMENT = re.compile(
    r"(?:What (?![^.?!:]*\b(?:is|are|was|has|have)\b)|Whether|Likewise|Those that|That (?:to|of))\b"
    r"[^.?!:]*\.(?=\s|$)"
)
# Parts of a page that are no prose: code, comments, headings (messages), links' addresses.
_NO_PROSE = re.compile(
    r"^---\n.*?^---\n|^ *```.*?^ *```$|<!--.*?-->|`[^`\n]*`|\]\([^)]*\)|^ *(?:#|===|:::)[^\n]*$",
    re.DOTALL | re.MULTILINE,
)


class Finding(NamedTuple):
    """One place to mend."""

    path: Path
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


def findings(path: Path, text: str, first_line: int = 1) -> Iterator[Finding]:
    """Yield what is refused in the prose of a page or a docstring."""
    # Blanks and line breaks keep the places of all characters.
    prose = _NO_PROSE.sub(lambda part: re.sub(r"[^\n]", "x", part[0]), text)

    def finding(place: int, what: str) -> Finding:
        return Finding(path, first_line + prose.count("\n", 0, place), what)

    for found in _PHRASE.finditer(prose):
        advice = list(PHRASES.values())[(found.lastindex or 1) - 1]
        yield finding(found.start(), f'Expected other words than "{found[0]}": {advice}')
    for found in _ENDS.finditer(prose):
        yield finding(found.start(), f'Expected no sentence that ends in "{found[0]}"')
    for paragraph in re.finditer(r"(?:^|\n\n)([^\n].*?)(?=\n\n|\Z)", prose, re.DOTALL):
        found = _FRAGMENT.match(paragraph[1])
        if found:
            yield finding(paragraph.start(1), f'Expected a subject and a verb, got "{found[0]}"')


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each docstring of a public class or function."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text and not node.name.startswith("_"):
                yield node.body[0].lineno, text


def pages(arguments: Iterable[str]) -> Iterator[Path]:
    """Yield the pages and modules under the given files and directories, without the notes."""
    for path in map(Path, arguments):
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        for page in found:
            if page.suffix in {".md", ".py"} and "notes" not in page.parts:
                yield page


def main() -> int:
    """Print all findings; return 1 if there is one."""
    found: list[Finding] = []
    for path in pages(sys.argv[1:]):
        if path.suffix == ".md":
            found += findings(path, path.read_text())
            continue
        for line, text in docstrings(path):
            found += findings(path, text, line)
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
