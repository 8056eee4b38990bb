"""The standard output of the commands."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["print_lines"]


def print_lines(command: str, lines: Iterable[str]) -> bool:
    """Print lines to stdout, and flush stdout.

    A reader that has seen enough (`| head -1`) closes the pipe: the rest of the lines is dropped.

    Args:
        command: name of the command, for the message on stderr.
        lines: the lines, without ends.

    Returns:
        False if stdout can't be written, such as on a full disk; a message on stderr says why.
    """
    try:
        for line in lines:
            print(line)
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
