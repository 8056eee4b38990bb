"""fastload-inspect: the layout of a dataset, the tensors of its columns, and what to change."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from fastload.errors import FastloadError
from fastload.runtime.version import __version__
from fastload.tools.cli.arguments import names_of
from fastload.tools.inspect.dataset_layout import DatasetLayout
from fastload.tools.inspect.report import report_of
from fastload.tools.inspect.text import parts_of
from fastload.tools.terminal import complain, open_streams, print_lines, rendered

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None, prog: str = "fastload-inspect") -> int:
    """Run the command.

    Args:
        arguments: arguments of the command line; None = those of this process.
        prog: name of the command in its help.

    Returns:
        The exit status: 0, or 2 if the source or columns can't be read, 130 after Ctrl-C.
    """
    open_streams()
    options = _parser(prog).parse_args(arguments)
    try:
        layout = DatasetLayout.of(options.source, options.columns)
        report = report_of(layout, options.source, options.columns)
    except KeyboardInterrupt:
        complain("fastload-inspect", "interrupted")
        return 130
    except (FastloadError, ValueError, TypeError, OSError) as error:
        complain("fastload-inspect", error)
        return 2
    lines = [json.dumps(report)] if options.json else rendered(parts_of(report))
    return 0 if print_lines("fastload-inspect", lines) else 2


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=prog, description=__doc__)
    add = parser.add_argument
    add("--version", action="version", version=f"fastload {__version__}")
    add("source", help="file, directory, glob or URL")
    add("--columns", type=names_of, metavar="C,...", help="columns to inspect [default: all]")
    add("--json", action="store_true", help="print one line of JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
