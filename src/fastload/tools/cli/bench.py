"""fastload-bench: how fast fastload and others read Parquet into tensors on this machine."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fastload.errors import FastloadError
from fastload.runtime.units import counted, size_of
from fastload.runtime.version import __version__
from fastload.tools.bench.child import JobError
from fastload.tools.bench.peers import DEFAULT, FAMILIES
from fastload.tools.bench.run import Options, check_path, run
from fastload.tools.bench.sample import ROW_GROUP_ROWS, ROW_GROUPS, make, schema
from fastload.tools.cli.arguments import names_of, positive
from fastload.tools.terminal import complain, open_streams, print_lines

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None, prog: str = "fastload-bench") -> int:
    """Run the command.

    Args:
        arguments: arguments of the command line; None = those of this process.
        prog: name of the command in its help.

    Returns:
        The exit status: 0, or 1 if fastload could not be timed, or 2 if the source or an option
        is wrong or stdout can't be written.
    """
    open_streams()
    arguments = sys.argv[1:] if arguments is None else arguments
    given = vars(_parser(prog).parse_args(arguments))
    path = given.pop("sample")
    try:
        if path:
            return _write_sample(Path(path))
        options = Options(**given, command=tuple(arguments))
        return run(options)
    except (FastloadError, JobError, ValueError, OSError) as error:
        complain("fastload-bench", error)
        return 2


def _write_sample(path: Path) -> int:
    check_path(str(path))
    make(path)
    rows = counted(ROW_GROUPS * ROW_GROUP_ROWS, "row")
    lines = [f"{path}: {rows} x {len(schema())} columns, {size_of(path.stat().st_size)}"]
    return 0 if print_lines("fastload-bench", lines) else 2


_EXAMPLES = """\
examples:
  fastload-bench train/ --columns price,clicks --batch-size 4096
  fastload-bench train/ --step-ms 20 --html report.html
  fastload-bench train/ --peers all -v --json result.json
  fastload-bench train/ --svg rows.svg --trace trace.json
"""


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Measure how fast fastload and others read Parquet into tensors here.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--version", action="version", version=f"fastload {__version__}")
    add("source", nargs="?", help="file, directory, glob or URL [default: a sample click log]")
    add("--columns", type=names_of, metavar="C,...", help="columns to read [default: all numbers]")
    add(
        "--batch-size",
        type=positive,
        default=16384,
        metavar="N",
        help="rows per batch [default: 16384]",
    )
    add(
        "--shuffle",
        action=argparse.BooleanOptionalAction,
        help="measure only shuffled reads, or only reads in order [default: both]",
    )
    add(
        "--epochs",
        type=positive,
        metavar="N",
        help="epochs per process [default: as many as begin within 1.5 s]",
    )
    add(
        "--repeats",
        type=positive,
        metavar="N",
        help="processes per loader and mode [default: up to 3, within a minute]",
    )
    add(
        "--copies",
        type=positive,
        metavar="N",
        help="read each file N times per epoch, through links [default: until an epoch is long "
        "enough to time]",
    )
    add("--threads", type=positive, metavar="N", help="threads per loader [default: all cores]")
    add("--workers", type=_count, default=0, metavar="N", help="DataLoader workers [default: 0]")
    add(
        "--peers",
        type=names_of,
        default=("default",),
        metavar="P,...",
        help=f"loaders to compare with: {', '.join(FAMILIES)}, default, all or none [default: "
        f"{', '.join(DEFAULT)}]",
    )
    add(
        "--limit-s",
        type=positive,
        default=20,
        metavar="N",
        help="seconds per epoch after which a loader is cut off [default: 20]",
    )
    add("--cache-dir", metavar="DIR", help="directory in which fastload keeps the bytes of a store")
    add(
        "--roofline",
        action="store_true",
        help="also measure the roof: how fast these files can be read, decompressed and copied",
    )
    add(
        "--step-ms",
        type=_duration,
        metavar="X",
        help="also simulate training steps of X milliseconds, and measure the waits for data",
    )
    add("-v", "--verbose", action="store_true", help="print spread, MB/s, cores and every reason")
    add("--json", metavar="FILE", help="write the results as JSON")
    add("--html", metavar="FILE", help="write a page with the results and a chart")
    add("--svg", metavar="FILE", help="write bars of the shuffled results, as a picture")
    add("--sample", metavar="FILE", help="measure nothing: write the sample click log to a file")
    add("--trace", metavar="FILE", help="write what fastload's threads did, for ui.perfetto.dev")
    return parser


def _duration(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e6:
        raise argparse.ArgumentTypeError(f"Expected milliseconds, from 0 up, got {text}")
    return value


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"Expected a number from 0 up, got {text}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
