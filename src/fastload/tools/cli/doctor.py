"""fastload doctor: the installation and the machine, for a report of a problem."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from fastload.runtime.version import __version__
from fastload.tools.installation import installation
from fastload.tools.self_test import faults
from fastload.tools.terminal import Table, open_streams, print_lines, rendered

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import RenderableType


def main(arguments: Sequence[str] | None = None, prog: str = "fastload doctor") -> int:
    """Run the command.

    Args:
        arguments: arguments of the command line; None = those of this process.
        prog: name of the command in its help.

    Returns:
        The exit status: 0, 1 if something does not work, or 2 if stdout can't be written.
    """
    open_streams()
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Show versions, cores, memory, CUDA, stores and caches, for a report of a "
        "problem, and read a small file. The exit status is 1 if something does not work. It "
        "opens no connection.",
    )
    parser.add_argument("--version", action="version", version=f"fastload {__version__}")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    options = parser.parse_args(arguments)
    found, wrong = installation(), faults()
    if options.json:
        lines = [json.dumps({**found, "faults": wrong})]
    else:
        lines = rendered([*_parts(found), "", *_verdict(wrong)])
    if not print_lines(prog.replace(" ", "-"), lines):
        return 2
    return 1 if wrong else 0


def _verdict(wrong: Sequence[str]) -> Iterator[str]:
    if not wrong:
        yield "Everything works: rows were read in this process and in a worker process."
        return
    yield f"To mend first: {wrong[0]}"
    yield from (f"Then: {each}" for each in wrong[1:])


def _parts(found: Mapping[str, Mapping[str, str]]) -> Iterator[RenderableType]:
    width = max(len(name) for entries in found.values() for name in entries)
    home = os.fspath(Path.home())
    for number, (title, entries) in enumerate(found.items()):
        if number:
            yield ""
        # No user's name in what is pasted into an issue.
        rows = [(name, value.replace(home, "~")) for name, value in entries.items()]
        yield Table([title.ljust(width), ""], rows, notes=(1,))
