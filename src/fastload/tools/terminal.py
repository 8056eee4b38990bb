"""Tables and sentences on a terminal, in its width and colours; in a pipe, plain text."""

from __future__ import annotations

import io
import os
import shutil
import sys
from typing import TYPE_CHECKING, Literal, TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import ConsoleOptions, RenderableType, RenderResult

__all__ = [
    "Table",
    "bar",
    "code",
    "complain",
    "console",
    "hint",
    "open_streams",
    "print_lines",
    "rendered",
    "shortened",
    "warning",
]

# Width where no terminal says how wide it is: that of most terminals.
_WIDTH = 80
_EIGHTHS = " ▏▎▍▌▋▊▉"
_GAP = 2  # blanks between the columns of a table
# Names and notes of a table become narrower than this only if nothing else is left to narrow.
_LEAST_NAME = 20
_LEAST_NOTE = 12


def console(*, stderr: bool = False, file: TextIO | None = None) -> Console:
    """Return a console for stdout or stderr: no colours in a pipe, or if NO_COLOR is set.

    Args:
        stderr: True for stderr.
        file: where to write instead of that stream.
    """
    stream = sys.stderr if stderr else sys.stdout
    on_terminal = stream.isatty()
    width = shutil.get_terminal_size((_WIDTH, 24)).columns if on_terminal else _piped_width()
    # rich takes FORCE_COLOR, NO_COLOR and TERM from the environment.
    return Console(file=file or stream, force_terminal=on_terminal or None, width=width)


def rendered(parts: Iterable[RenderableType]) -> list[str]:
    """Return the lines that show the parts on stdout, with the colours that stdout takes.

    Sentences are wrapped by words to the width of the terminal, or to $COLUMNS in a pipe. A program
    that reads a pipe without $COLUMNS gets sentences whole. Code is never broken.
    """
    text = io.StringIO()
    shown = console(file=text)
    wraps = shown.is_terminal or "COLUMNS" in os.environ
    for part in parts:
        found: Sequence[RenderableType] = [part]
        sentence = Text(part) if isinstance(part, str) else part
        if isinstance(sentence, Text):
            found = (
                _wrapped(sentence, shown.width) if wraps and not sentence.no_wrap else [sentence]
            )
        for each in found:
            whole = isinstance(each, Text)
            shown.print(each, soft_wrap=whole, markup=False, highlight=False, emoji=False)
    return [line.rstrip() for line in text.getvalue().splitlines()]


def complain(command: str, message: object) -> None:
    """Print why a command failed to stderr, wrapped as `rendered` wraps sentences."""
    text = Text(f"{command}: {message}")
    shown = console(stderr=True)
    wraps = shown.is_terminal or "COLUMNS" in os.environ
    lines = _wrapped(text, shown.width) if wraps else [text]
    print(*(line.plain for line in lines), sep="\n", file=sys.stderr)


def _wrapped(text: Text, width: int) -> list[Text]:
    """Return the lines of a text: each ends after a blank, or else after a slash of a path."""
    plain, cuts, begun = text.plain, [], 0
    while cell_len(plain[begun:]) > width:
        most = begun + width
        while cell_len(plain[begun:most]) > width:
            most -= 1
        end = plain.rfind(" ", begun, most + 1) + 1
        end = end or plain.rfind("/", begun, most) + 1
        begun = end if end > begun else most
        cuts.append(begun)
    lines = text.divide(cuts)
    for line in lines:
        line.rstrip()
    return list(lines)


class Table:
    """A table without borders, which is never wider than the terminal.

    A table that is too wide first wraps notes by words, then shortens names in the middle.

    Args:
        heads: names of the columns.
        rows: cells of each row.
        numbers: indices of the columns to align at the right.
        names: indices of the columns of names and paths.
        notes: indices of the columns of words.
    """

    def __init__(
        self,
        heads: Sequence[str],
        rows: Iterable[Sequence[str | Text]],
        *,
        numbers: Sequence[int] = (),
        names: Sequence[int] = (0,),
        notes: Sequence[int] = (),
    ) -> None:
        self._heads = heads
        self._rows = [[Text(cell) if isinstance(cell, str) else cell for cell in r] for r in rows]
        self._numbers, self._names, self._notes = numbers, names, notes

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table in the width that the options give."""
        widths = self._widths(options.max_width)
        made = RichTable(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
        for index, head in enumerate(self._heads):
            justify: Literal["left", "right"] = "right" if index in self._numbers else "left"
            wraps = index in self._notes
            made.add_column(
                head, justify=justify, no_wrap=not wraps, overflow="fold", width=widths[index]
            )
        for row in self._rows:
            made.add_row(
                *(
                    Text(shortened(cell.plain, widths[index]), cell.style)
                    if index in self._names and cell.cell_len > widths[index]
                    else cell
                    for index, cell in enumerate(row)
                )
            )
        yield made

    def _widths(self, most: int) -> list[int]:
        columns = list(zip(*([Text(head) for head in self._heads], *self._rows), strict=True))
        widths = [max(cell.cell_len for cell in column) for column in columns]
        words = [
            max((cell_len(word) for cell in column for word in cell.plain.split()), default=0)
            for column in columns
        ]
        over = sum(widths) + _GAP * (len(widths) - 1) - most
        for indices, least in (
            (self._notes, [max(width, _LEAST_NOTE) for width in words]),
            (self._names, [_LEAST_NAME] * len(widths)),
            (self._notes, words),
            (self._names, [1] * len(widths)),
            (self._notes, [1] * len(widths)),
        ):
            while over > 0 and (wide := [i for i in indices if widths[i] > least[i]]):
                widths[max(wide, key=lambda i: widths[i])] -= 1
                over -= 1
        return widths


def shortened(name: str, width: int) -> str:
    """Return a name that takes at most `width` cells: its middle gives way to an ellipsis."""
    if cell_len(name) <= width:
        return name
    gap = "…" if _draws_blocks() else ".."
    left = max(0, width - len(gap))
    head, tail = name, name
    while cell_len(head) > (left + 1) // 2:
        head = head[:-1]
    while cell_len(tail) > left // 2:
        tail = tail[1:]
    return head + gap[:width] + tail


def code(text: str) -> Text:
    """Return Python to paste, whose lines are never broken."""
    from rich.syntax import Syntax

    made = Syntax(text, "python", theme="ansi_dark", background_color="default").highlight(text)
    made.rstrip()
    made.no_wrap = True
    return made


def bar(share: float, cells: int) -> str:
    """Return a bar over `share` of a number of cells, in eighths of a cell where possible."""
    eighths = round(8 * cells * max(0.0, min(share, 1.0)))
    if not _draws_blocks():
        return "#" * max(1, round(eighths / 8))
    text = "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
    return text or _EIGHTHS[1]


def hint(text: str) -> Text:
    """Return a line that says what to try next."""
    return Text.assemble(("hint: ", "cyan"), text)


def warning(text: str) -> Text:
    """Return a line that says what makes the results doubtful."""
    return Text.assemble(("warning: ", "bold yellow"), text)


def open_streams() -> None:
    """Open the null device in place of each standard stream that is closed (`>&-`)."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def print_lines(command: str, lines: Iterable[str]) -> bool:
    """Print lines to stdout, and flush stdout.

    A reader that has seen enough (`| head -1`) closes the pipe: the rest of the lines is dropped.
    A character that the encoding of stdout lacks is printed as Python escapes the character.

    Args:
        command: name of the command, for the message on stderr.
        lines: the lines, without ends.

    Returns:
        False if stdout can't be written, such as on a full disk; a message on stderr says why.
    """
    try:
        for line in lines:
            try:
                print(line)
            except UnicodeEncodeError:
                encoding = sys.stdout.encoding
                print(line.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except OSError as error:
        # Python flushes stdout once more when the process ends, and would print a traceback.
        with open(os.devnull, "w") as nothing:
            os.dup2(nothing.fileno(), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return True
        complain(command, f"Can't write to stdout: {error.strerror}")
        return False
    return True


def _draws_blocks() -> bool:
    return (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"


def _piped_width() -> int:
    try:
        return max(40, int(os.environ["COLUMNS"]))
    except (KeyError, ValueError):
        return _WIDTH
