"""fastload: one command with inspect, bench, cache and doctor."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

from fastload.runtime.version import __version__
from fastload.tools.terminal import complain

if TYPE_CHECKING:
    from collections.abc import Sequence

_COMMANDS = {
    "inspect": "how files are stored, and the program that reads them",
    "bench": "how fast fastload and others read files into tensors here",
    "cache": "fill a cache with the rows of a dataset, and maintain it",
    "doctor": "whether all works here, and versions for a report of a problem",
}
_HELP = """\
usage: fastload COMMAND ...

Load Parquet into PyTorch.

commands:
{commands}

options:
  -h, --help  show this help, or that of a command: fastload bench --help
  --version   show the version
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: arguments of the command line; None = those of this process.

    Returns:
        The exit status of the command; 2 if there is no such command.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    name = given[0] if given else "--help"
    if name in _COMMANDS:
        command = importlib.import_module(f"fastload.tools.cli.{name}")
        return int(command.main(given[1:], prog=f"fastload {name}"))
    if name == "--version":
        print(f"fastload {__version__}")
        return 0
    listed = "\n".join(f"  {command:10}  {what}" for command, what in _COMMANDS.items())
    if name in ("-h", "--help"):
        print(_HELP.format(commands=listed), end="")
        return 0
    complain("fastload", f"Expected one of {', '.join(_COMMANDS)}, got {name}")
    return 2


if __name__ == "__main__":
    sys.exit(main())
