"""fastload-inspect: the layout of a dataset, the tensors of its columns, and what to change.

With --state and --step, the command prints the rows of a step of a run instead.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from fastload.errors import FastloadError
from fastload.runtime.version import __version__
from fastload.tools.cli.arguments import conditions_of, names_of
from fastload.tools.inspect.dataset_layout import DatasetLayout
from fastload.tools.inspect.report import report_of
from fastload.tools.inspect.step import step_report
from fastload.tools.inspect.step_text import step_lines
from fastload.tools.inspect.text import parts_of
from fastload.tools.terminal import open_streams, print_lines, rendered

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
    try:
        return _run(_parser(prog), arguments)
    except KeyboardInterrupt:
        print("fastload-inspect: interrupted", file=sys.stderr)
        return 130


def _run(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> int:
    options = parser.parse_args(arguments)
    if (options.state is None) != (options.step is None):
        parser.error("Expected --state and --step together")
    if options.state is not None:
        if options.columns is not None:
            parser.error("Expected no --columns with --state: rows have all columns")
        return _inspect_step(options)
    for name in ("filters", "world_size", "num_workers"):
        if getattr(options, name) is not None:
            parser.error(f"Expected --{name.replace('_', '-')} with --state and --step alone")
    try:
        layout = DatasetLayout.of(options.source, options.columns)
    except (FastloadError, ValueError, TypeError, OSError) as error:
        print(f"fastload-inspect: {error}", file=sys.stderr)
        return 2
    report = report_of(layout, options.source, options.columns)
    lines = [json.dumps(report)] if options.json else rendered(parts_of(report))
    return 0 if print_lines("fastload-inspect", lines) else 2


def _inspect_step(options: argparse.Namespace) -> int:
    try:
        report = step_report(
            options.source,
            options.state,
            options.step,
            filters=options.filters,
            world_size=options.world_size,
            num_workers=options.num_workers,
        )
    except (FastloadError, ValueError, TypeError, OSError) as error:
        print(f"fastload-inspect: {error}", file=sys.stderr)
        return 2
    lines = [json.dumps(report)] if options.json else step_lines(report)
    return 0 if print_lines("fastload-inspect", lines) else 2


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=prog, description=__doc__)
    add = parser.add_argument
    add("--version", action="version", version=f"fastload {__version__}")
    add("source", help="file, directory, glob or URL")
    add("--columns", type=names_of, metavar="C,...", help="columns to inspect [default: all]")
    add("--json", action="store_true", help="print one line of JSON")
    step = parser.add_argument_group("the rows of a step of a run").add_argument
    step("--state", metavar="FILE", help="JSON file with a state_dict() of the run")
    step("--step", type=int, metavar="N", help="number of the step in the state's epoch, from 0 on")
    example = 'those of the run, such as [["day", "<", 30]]'
    step("--filters", type=conditions_of, metavar="JSON", help=example)
    step("--world-size", type=int, metavar="W", help="ranks after the state [default: as before]")
    step("--num-workers", type=int, metavar="K", help="workers after it [default: as before]")
    return parser


if __name__ == "__main__":
    sys.exit(main())
