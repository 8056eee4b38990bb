"""Text of a record for people: the verdict, then a table for each mode, then hints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from fastload.runtime.units import counted, duration_of, million, size_of
from fastload.tools.bench.report.verdict import (
    MODES,
    compared,
    hints,
    is_absent,
    is_kept,
    ranked,
    roof_share,
    verdict,
    warnings,
)
from fastload.tools.terminal import Table, hint, warning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from fastload.tools.bench.report.verdict import Entry, Record

FIGURES = ("rows/s", "vs best", "1st batch", "memory", "+-", "MB/s", "cores", "of roof")
# The figures that every table has; -v adds the others, and --roofline the last one.
_BRIEF = 4
# A spread above is that of a few epochs that something else slowed.
_MOST_SPREAD = 1.0
_COLUMNS_NAMED = 3


def report(record: Record, *, verbose: bool = False) -> Iterator[RenderableType]:
    """Yield the parts of the report.

    Args:
        record: the results.
        verbose: show every column of the table, and every reason.
    """
    yield Text(verdict(record), "bold")
    for line in warnings(record):
        yield warning(line)
    yield ""
    yield from heading(record)
    for mode in MODES:
        if ranked(record, mode):
            yield ""
            yield results(record, mode, verbose=verbose)
    yield ""
    for line in notes(record, verbose=verbose):
        yield Text(line, "dim")
    for line in hints(record):
        yield hint(line)
    if record["profile"] and record["profile"]["step_s"]:
        yield ""
        yield from waits(record)


def heading(record: Record) -> Iterator[str]:
    """Say which files were read, and on which machine."""
    data, host = record["dataset"], record["host"]
    columns = counted(len(data["columns"]), "column")
    if data["left_out"]:
        columns = (
            f"{len(data['columns'])} of {len(data['columns']) + len(data['left_out'])} columns"
        )
    copies = f", each {data['copies']:,} times" if data["copies"] > 1 else ""
    yield (
        f"{source_of(record)}{copies}: {data['rows']:,} rows x {columns}, "
        f"{counted(data['row_groups'], 'row group')}, {', '.join(data['codecs']).lower()}, "
        f"{size_of(data['stored_bytes'])} -> {size_of(data['decoded_bytes'])}"
    )
    threads = f", {counted(data['threads'], 'thread')}" if data["threads"] else ""
    workers = f", {counted(data['workers'], 'worker')}" if data["workers"] else ""
    where = "in a store" if "://" in data["files"][0] else "in the page cache"
    yield (
        f"{host['cpu']}, {counted(host['cores'], 'core')}, torch {host['torch']} with "
        f"{counted(data['threads'] or host['cores'], 'thread')}; batches of "
        f"{data['batch_size']:,} rows{threads}{workers}; files {where}"
    )


def figures(record: Record, entry: Entry) -> tuple[str, ...]:
    """Return the figures of a contender, as FIGURES names them."""
    one = compared(record, entry["mode"])
    best = one.best["rows_per_s"] if one and one.best and not one.short_s else None
    times = entry["rows_per_s"] / best if best else 0.0
    spread, share = entry["spread"], roof_share(entry)
    return (
        million(entry["rows_per_s"]),
        "-" if not times else f"{times:.1f}x" if times >= 0.095 else f"{times:.2g}x",
        duration_of(entry["first_batch_s"]),
        size_of(entry["peak_rss_bytes"]),
        f"{100 * spread:.0f} %" if spread <= _MOST_SPREAD else "-",
        f"{entry['bytes_per_s'] / 1e6:,.0f}",
        f"{min(entry['busy_cores'], record['host']['cores']):.1f}",
        "-" if share is None else f"{share:.2f}",
    )


def results(record: Record, mode: str, *, verbose: bool = False) -> Table:
    """Return the table of a mode: a line for each contender, the fastest first."""
    entries = ranked(record, mode)
    shown = [*range(len(FIGURES) - 1 if verbose else _BRIEF)]
    shown += [len(FIGURES) - 1] if record["roof"] else []
    heads = [MODES[mode], *(FIGURES[index] for index in shown)]
    rows = []
    for entry in entries:
        ours = entry["family"] == "fastload"
        own = figures(record, entry)
        texts = (name_of(entry), *(own[index] for index in shown))
        rows.append([Text(text, "bold" if ours and j < 3 else "") for j, text in enumerate(texts)])
    return Table(heads, rows, numbers=range(1, len(heads)), names=(), notes=(0,))


def waits(record: Record) -> Iterator[str]:
    """Describe in a few sentences how long the consumer waited, and when."""
    seen = record["profile"]
    yield (
        f"In a loop with steps of {1e3 * seen['step_s']:g} ms, {MODES[seen['mode']]}: "
        f"{100 * seen['share']:.1f} % of the time went on waiting for data, "
        f"{1e3 * seen['waiting_s'] / max(1, seen['steps']):.2f} ms a step "
        f"({seen['steps']} steps in {seen['epochs']} epochs)."
    )
    for pause in seen["pauses"][:3]:
        where = f" ({pause['where']})" if pause["where"] else ""
        yield (
            f"  {1e3 * pause['seconds']:.1f} ms before batch {pause['index']} of epoch "
            f"{pause['epoch']}{where}"
        )


def notes(record: Record, *, verbose: bool = False) -> Iterator[str]:
    """Say how the results came about, and what was not measured."""
    if any(entry["family"] == "memory" for entry in record["results"]):
        yield (
            "* The whole table in RAM before the first epoch, and a permutation of all rows; the "
            "others read files from the page cache and shuffle windows."
        )
    kept = max((entry["kept_bytes"] for entry in record["results"] if is_kept(entry)), default=0)
    if kept:
        yield (
            f"Kept in memory: {size_of(kept)} of decompressed pages, from the first epoch on, "
            "within memory_budget. The others decompress in each epoch."
        )
    if record["roof"]:
        yield (
            "of roof: 1.00 = reading and decompressing these pages once and copying the output "
            f"once, {duration_of(record['roof'])} an epoch"
            + ("; for kept pages, reading them decompressed and copying." if kept else ".")
        )
    for one in record["left_out"]:
        if is_absent(one) and not verbose:
            continue
        where = f", {MODES[one['mode']]}" if one["mode"] else ""
        yield f"Not timed: {one['name']}{where}: {one['reason']}."
    left_out = list(record["dataset"]["left_out"].items())
    shown = left_out if verbose else left_out[:_COLUMNS_NAMED]
    if shown:
        more = len(left_out) - len(shown)
        names = "; ".join(f"`{name}`, {reason}" for name, reason in shown)
        yield f"Not read: {names}{f'; and {more} more (-v)' if more else ''}."
    if verbose:
        yield "Not measured: copies to a GPU, and files that are not in the page cache."
        yield (
            "memory: the largest resident memory of all processes, imports included; +-: half the "
            "distance between the quartiles of epochs."
        )
    if record["dataset"]["workers"]:
        yield "Workers: only contenders that go through DataLoader have workers."


def name_of(entry: Entry) -> str:
    """Return the name of a contender, with a mark if the notes explain it."""
    if is_kept(entry):
        return f"{entry['name']}, kept in memory"
    return f"{entry['name']} *" if entry["family"] == "memory" else str(entry["name"])


def source_of(record: Record) -> str:
    """Return a short name of the files."""
    files = record["dataset"]["files"]
    name = files[0].rpartition("/")[2]
    return name if len(files) == 1 else f"{name} and {len(files) - 1:,} more"
