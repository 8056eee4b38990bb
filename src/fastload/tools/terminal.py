"""Tables and sentences on a terminal, in its width and colours; in a pipe, plain text."""

from __future__ import annotations

import io
import os
import shutil
import sys
from typing import TYPE_CHECKING, Literal, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType

__all__ = ["bar", "console", "hint", "open_streams", "print_lines", "rendered", "table", "warning"]

# Width where no terminal says how wide it is: that of most terminals.
_WIDTH = 80
_EIGHTHS = " ▏▎▍▌▋▊▉"


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

    Sentences are wrapped on a terminal only: a program that reads a pipe gets them whole.
    """
    text = io.StringIO()
    shown = console(file=text)
    for part in parts:
        whole = isinstance(part, (str, Text)) and not shown.is_terminal
        shown.print(part, soft_wrap=whole, markup=False, highlight=False, emoji=False)
    return [line.rstrip() for line in text.getvalue().splitlines()]


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    numbers: Sequence[int] = (),
    folding: Sequence[int] = (0,),
) -> Table:
    """Return a table without borders.

    Args:
        heads: names of the columns.
        rows: cells of each row.
        numbers: indices of the columns to align at the right.
        folding: indices of the columns that are folded if the table is wider than the terminal.
    """
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for index, head in enumerate(heads):
        justify: Literal["left", "right"] = "right" if index in numbers else "left"
        made.add_column(head, justify=justify, no_wrap=index not in folding, overflow="fold")
    for row in rows:
        made.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
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
        print(f"{command}: Can't write to stdout: {error.strerror}", file=sys.stderr)
        return False
    return True


def _draws_blocks() -> bool:
    return (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"


def _piped_width() -> int:
    try:
        return max(40, int(os.environ["COLUMNS"]))
    except (KeyError, ValueError):
        return _WIDTH
