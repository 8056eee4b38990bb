"""fastload-cache: fill a cache with the rows of a dataset, and maintain the cache."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING, Any, get_args

from fastload.errors import FastloadError
from fastload.runtime.disk.cache import Cache
from fastload.runtime.units import counted, parse_bytes, size_of
from fastload.runtime.version import __version__
from fastload.schema.projection import Nulls
from fastload.tools.cli import cache_report
from fastload.tools.cli.arguments import conditions_of, names_of, positive
from fastload.tools.cli.warm_jobs import Description, warm_jobs
from fastload.tools.terminal import complain, open_streams, print_lines, rendered

if TYPE_CHECKING:
    from collections.abc import Sequence


_DIRECTORY = "FASTLOAD_CACHE_DIR"


def main(arguments: Sequence[str] | None = None, prog: str = "fastload-cache") -> int:
    """Run the command.

    Args:
        arguments: arguments of the command line; None = those of this process.
        prog: name of the command in its help.

    Returns:
        The exit status: 0, or 1 if `verify` found damage, 2 if the command failed, 130 after
        Ctrl-C.
    """
    open_streams()
    options = _parser(prog).parse_args(arguments)
    # The modules of --preprocess may lie in the working directory; spawned processes inherit it.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    if getattr(options, "directory", None) is not None:
        options.cache_dir = options.directory
    try:
        if options.cache_dir is None:
            raise ValueError(f"Expected --cache-dir or ${_DIRECTORY}, got neither")
        result, code = options.run(options)
    except (FastloadError, OSError, ImportError) as error:
        complain("fastload-cache", error)
        return 2
    except Exception as error:  # noqa: BLE001 - a step of --preprocess may raise any exception
        complain("fastload-cache", _described(error))
        return 2
    except KeyboardInterrupt:
        complain("fastload-cache", "interrupted; run the command again to continue")
        return 130
    lines = [json.dumps(result)] if options.json else rendered(cache_report.parts_of(result))
    return int(code) if print_lines("fastload-cache", lines) else 2


def _described(error: Exception) -> str:
    """Return the message of an error, after its type unless the message is one of fastload's."""
    ours = str(error).startswith("Expected")
    notes = "".join(f" ({text})" for text in getattr(error, "__notes__", ()))
    return f"{'' if ours else type(error).__name__ + ': '}{error}{notes}"


def _warm(options: argparse.Namespace) -> tuple[dict[str, Any], int]:
    description = Description(
        source=options.source,
        cache=Cache(
            options.cache_dir,
            max_bytes=options.max_bytes,
            key=options.key,
        ),
        columns=options.columns_from or options.columns,
        filters=options.filters,
        nulls=options.nulls,
        preprocess=options.preprocess,
        batch_size=options.batch_size,
        rank=options.rank,
        world_size=options.world_size,
    )
    progress = not options.quiet
    if options.engine == "ray":
        from fastload.tools.cli.warm_ray import warm_on_ray

        warmed = warm_on_ray(description, options.ray_address, options.jobs, progress=progress)
    elif options.ray_address is not None:
        raise ValueError(f"Expected --engine ray with --ray-address, got --engine {options.engine}")
    else:
        warmed = warm_jobs(description, options.jobs or 1, progress=progress)
    return {"warmed": warmed}, 0


def _ls(options: argparse.Namespace) -> tuple[dict[str, Any], int]:
    return cache_report.contents(Cache(options.cache_dir)), 0


def _verify(options: argparse.Namespace) -> tuple[dict[str, Any], int]:
    found = cache_report.verify(Cache(options.cache_dir), progress=not options.quiet)
    return found, 1 if found["damaged"] else 0


def _prune(options: argparse.Namespace) -> tuple[dict[str, Any], int]:
    return cache_report.prune(
        Cache(options.cache_dir), parse_bytes(options.max_bytes, "--max-bytes")
    ), 0


def _clear(options: argparse.Namespace) -> tuple[dict[str, Any], int]:
    cache = Cache(options.cache_dir)
    held = cache_report.contents(cache)
    if sys.stdin.isatty() and not options.yes:
        question = f"Remove {counted(_entries(held), 'entry')}, {size_of(held['bytes'])}, "
        print(f"{question}from {held['directory']}? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            return {"removed": 0, "bytes": held["bytes"]}, 0
    return cache_report.clear(cache), 0


def _entries(held: dict[str, Any]) -> int:
    return sum(int(file["entries"]) for file in held["files"])


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=prog, description=__doc__)
    parser.add_argument("--version", action="version", version=f"fastload {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--cache-dir",
        default=os.environ.get(_DIRECTORY),
        metavar="D",
        help=f"directory of the cache [default: ${_DIRECTORY}]",
    )
    common.add_argument("--json", action="store_true", help="print one line of JSON")
    shown = argparse.ArgumentParser(add_help=False)
    shown.add_argument("--quiet", action="store_true", help="show no progress")

    warm = commands.add_parser(
        "warm",
        parents=[common, shown],
        help="fill the cache with the rows of a dataset; run again to continue",
    )
    warm.set_defaults(run=_warm)
    add = warm.add_argument
    add("source", help="file, directory, glob or URL")
    read = warm.add_mutually_exclusive_group()
    read.add_argument(
        "--columns", type=names_of, metavar="C,...", help="columns to read [default: all]"
    )
    read.add_argument(
        "--columns-from", metavar="M:C", help="columns as the dataset takes them, as module:name"
    )
    add("--filters", type=conditions_of, metavar="JSON", help='such as [["day", "<", 30]]')
    add(
        "--nulls",
        choices=get_args(Nulls),
        default="raise",
        help="what becomes of nulls, as the dataset takes it [default: raise]",
    )
    add(
        "--preprocess",
        type=names_of,
        default=(),
        metavar="M:F,...",
        help="functions or kernels, each as module:name; the rows after them are kept, "
        "and without them the bytes of remote files",
    )
    add("--key", metavar="K", help="name that stands for the code of --preprocess")
    add("--rank", type=int, metavar="R", help="rank whose bytes are read [default: all rows]")
    add("--world-size", type=int, metavar="W", help="number of ranks")
    add(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="where the rows are read [default: local]",
    )
    address = "address of Ray, such as 10.0.0.1:6379 [default: $RAY_ADDRESS, else this machine]"
    add("--ray-address", metavar="A", help=address)
    jobs = "processes [default: 1], or tasks of Ray [default: four per CPU]"
    add("--jobs", type=positive, metavar="N", help=jobs)
    rows = "rows per batch; choose fewer if rows are large [default: 4096]"
    add("--batch-size", type=positive, default=4096, metavar="B", help=rows)
    add("--max-bytes", metavar="X", help="limit on disk, such as 100GB [default: the disk]")

    # `ls DIR` is the same as `ls --cache-dir DIR`.
    kept = argparse.ArgumentParser(add_help=False, parents=[common])
    kept.add_argument("directory", nargs="?", metavar="DIR", help="the same as --cache-dir")
    commands.add_parser("ls", parents=[kept], help="list the kept files").set_defaults(run=_ls)
    verify = commands.add_parser(
        "verify",
        parents=[kept, shown],
        help="compare entries with their checksums; the exit status is 1 on damage",
    )
    verify.set_defaults(run=_verify)
    prune = commands.add_parser(
        "prune", parents=[kept], help="remove the least recently used entries"
    )
    prune.add_argument("--max-bytes", required=True, metavar="X", help="size to keep at most")
    prune.set_defaults(run=_prune)
    clear = commands.add_parser("clear", parents=[kept], help="remove all entries")
    clear.add_argument("--yes", action="store_true", help="ask no question on a terminal")
    clear.set_defaults(run=_clear)
    return parser


if __name__ == "__main__":
    sys.exit(main())
