"""fastload-cache: fills a cache with what a dataset reads, and looks after it."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from fastload import cache_report
from fastload.budget import parse_bytes
from fastload.cache import Cache
from fastload.errors import FastloadError
from fastload.warm_jobs import Description, warm_jobs

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command.

    Returns:
        0, or 1 if `verify` found damage, 2 for what can't be done, 130 after Ctrl-C.
    """
    options = _parser().parse_args(arguments)
    try:
        result, code = options.run(options)
    except (FastloadError, ValueError, TypeError, OSError) as error:
        print(f"fastload-cache: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("fastload-cache: interrupted; begun again, it goes on", file=sys.stderr)
        return 130
    for line in [json.dumps(result)] if options.json else cache_report.lines_of(result):
        print(line)
    return int(code)


def _warm(options: argparse.Namespace) -> tuple[dict[str, Any], int]:
    description = Description(
        source=options.source,
        cache=Cache(options.cache_dir, max_bytes=options.max_bytes),
        columns=options.columns,
        filters=options.filters,
        rank=options.rank,
        world_size=options.world_size,
    )
    return {"warmed": warm_jobs(description, options.jobs, progress=not options.quiet)}, 0


def _ls(options: argparse.Namespace) -> tuple[dict[str, Any], int]:
    return cache_report.contents(Cache(options.cache_dir)), 0


def _verify(options: argparse.Namespace) -> tuple[dict[str, Any], int]:
    found = cache_report.verify(Cache(options.cache_dir), progress=not options.quiet)
    return found, 1 if found["damaged"] else 0


def _prune(options: argparse.Namespace) -> tuple[dict[str, Any], int]:
    return cache_report.prune(Cache(options.cache_dir), parse_bytes(options.max_bytes)), 0


def _clear(options: argparse.Namespace) -> tuple[dict[str, Any], int]:
    return cache_report.clear(Cache(options.cache_dir)), 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fastload-cache", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--cache-dir", required=True, metavar="D", help="the cache's directory")
    common.add_argument("--json", action="store_true", help="print one line of JSON")
    shown = argparse.ArgumentParser(add_help=False)
    shown.add_argument("--quiet", action="store_true", help="show no progress")

    warm = commands.add_parser(
        "warm",
        parents=[common, shown],
        help="read what a dataset will ask for; begun again, it goes on where it ended",
    )
    warm.set_defaults(run=_warm)
    add = warm.add_argument
    add("source", help="file, directory, glob or URL")
    add("--columns", type=_names, metavar="C,...", help="columns to read; default: all")
    add("--filters", type=_filters, metavar="JSON", help='such as [["day", "<", 30]]')
    add("--rank", type=int, metavar="R", help="which share to read; default: all")
    add("--world-size", type=int, metavar="W", help="of how many")
    add("--jobs", type=_positive, default=1, metavar="N", help="processes; default 1")
    add("--max-bytes", metavar="X", help="on disk, such as 100GB; default: what there is room for")

    commands.add_parser("ls", parents=[common], help="what is kept").set_defaults(run=_ls)
    verify = commands.add_parser(
        "verify", parents=[common, shown], help="compare all with its checksums; 1 on damage"
    )
    verify.set_defaults(run=_verify)
    prune = commands.add_parser(
        "prune", parents=[common], help="remove what was not used for longest"
    )
    prune.add_argument("--max-bytes", required=True, metavar="X", help="to be left, at most")
    prune.set_defaults(run=_prune)
    commands.add_parser("clear", parents=[common], help="remove all").set_defaults(run=_clear)
    return parser


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _filters(text: str) -> Any:
    """Conditions as the dataset takes them, whose tuples JSON writes as lists."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"Expected JSON, got {error}") from None
    if not isinstance(found, list):
        raise argparse.ArgumentTypeError(f"Expected a list of conditions, got {text}")
    return [_condition(each) for each in found]


def _condition(found: Any) -> Any:
    if isinstance(found, list) and found and isinstance(found[0], list):
        return [_condition(each) for each in found]
    return tuple(found) if isinstance(found, list) else found


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"Expected a number from 1 up, got {text}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
