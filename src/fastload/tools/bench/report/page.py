"""Page of --html: one file, without scripts, which loads nothing from the network."""

from __future__ import annotations

import shlex
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any, TypeAlias

from fastload.runtime.units import counted, million
from fastload.tools.bench.report import charts
from fastload.tools.bench.report.text import IN_MEMORY, kept_note, name_of, source_of
from fastload.tools.bench.report.timeline import timeline
from fastload.tools.bench.report.verdict import (
    MODES,
    compared,
    headline,
    ranked,
    roof_share,
    verdict,
    warnings,
)
from fastload.tools.bench.roofline import decode_name

if TYPE_CHECKING:
    from fastload.tools.bench.profile import Profile

_Record: TypeAlias = dict[str, Any]

_MODES = {mode: words.capitalize() for mode, words in MODES.items()}
# A larger spread is that of epochs that something else slowed.
_MOST_SPREAD = 1.0
# Largest number of upright bars that a page shows well.
_COLUMNS = 300
_MEMORY_LINES = (("resident", "wait"), ("batches", "fill"), ("read", "read"), ("staged", "stage"))


def page(record: _Record, profile: Profile | None) -> str:
    """Return the page of a record that `fastload.tools.bench.report.record.to_json` made.

    Args:
        record: the results.
        profile: the profile whose spans the timeline shows; None = no timeline.
    """
    style = (
        resources.files("fastload.tools.bench.report")
        .joinpath("page.css")
        .read_text(encoding="utf-8")
    )
    parts = [
        _summary(record),
        *(_comparison(record, mode) for mode in _MODES),
        _roofline(record),
        _waits(record),
        timeline(profile) if profile else "",
        _memory(record),
        _tuning(record),
        _layout(record),
        _method(record),
        _left_out(record),
    ]
    title = f"{headline(record)}: {source_of(record)}"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{escape(title)}</title><style>{style}</style>'
        f"</head><body><header><h1>{escape(headline(record))}</h1>{_machine(record)}{_facts(record)}</header>"
        f"<main>{''.join(parts)}</main>{_footer(record)}</body></html>\n"
    )


def section(heading: str, *content: str) -> str:
    """Return a section of the page; "" if the content is empty."""
    inside = "".join(content)
    return f"<section><h2>{escape(heading)}</h2>{inside}</section>" if inside else ""


def _machine(record: _Record) -> str:
    """Say on one line what was run, where and when: a picture of the page's top has it all."""
    host = record["host"]
    words = (
        f"fastload {record['fastload']} on {source_of(record)}",
        f"{host['cpu']}, {counted(host['cores'], 'core')}",
        f"torch {host['torch']}",
        record["created"].replace("T", " ").removesuffix("+00:00") + " UTC",
    )
    command = f"<code>{escape(shlex.join(record['command']))}</code>"
    return f'<p class="machine">{" · ".join((*map(escape, words), command))}</p>'


def _facts(record: _Record) -> str:
    data, host = record["dataset"], record["host"]
    facts = [
        ("rows", f"{data['rows']:,}"),
        ("columns", str(len(data["columns"]))),
        ("row groups", f"{data['row_groups']:,}"),
        ("stored", _mb(data["stored_bytes"])),
        ("decoded", _mb(data["decoded_bytes"])),
        ("batches of", f"{data['batch_size']:,} rows"),
        ("cores", str(host["cores"])),
    ]
    entries = (f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in facts)
    return f'<dl class="facts">{"".join(entries)}</dl>'


def _summary(record: _Record) -> str:
    lines = [verdict(record), *(f"Warning: {line}." for line in warnings(record))]
    for mode, words in _MODES.items():
        one = compared(record, mode)
        if one is not None:
            share = roof_share(one.mine)
            roof = f", {100 * share:.0f} % of the roof" if share else ""
            lines.append(f"{words}: {million(one.mine['rows_per_s'])} rows/s{roof}.")
    if record["roofline"]:
        lines.append(record["roofline"]["verdict"])
    seen = record["profile"]
    if seen and seen["step_s"]:
        lines.append(
            f"With steps of {1e3 * seen['step_s']:g} ms, {100 * seen['share']:.1f} % of the time "
            "goes on waiting for data."
        )
    return section("Summary", *(f"<p>{escape(line)}</p>" for line in lines if record["results"]))


def _comparison(record: _Record, mode: str) -> str:
    results = ranked(record, mode)
    if not results:
        return ""
    drawn = charts.bars(
        [
            charts.Bar(
                name_of(r),
                r["rows_per_s"],
                r["spread"],
                f"{million(r['rows_per_s'])} rows/s",
                r["name"] == "fastload",
            )
            for r in results
        ]
    )
    rows = [
        (
            name_of(r),
            r["version"],
            f"{r['rows_per_s']:,.0f}",
            _percent(r["spread"]),
            f"{r['bytes_per_s'] / 1e6:,.0f}",
            f"{r['first_batch_s']:.3f} s",
            f"{_mb(r['peak_rss_bytes'])}",
            f"{min(r['busy_cores'], record['host']['cores']):.2f}",
            "-" if (share := roof_share(r)) is None else f"{share:.2f}",
        )
        for r in results
    ]
    sizes = ("first batch", "peak memory", "cores", "of roof")
    head = ("loader", "version", "rows/s", "+-", "MB/s", *sizes)
    ours = next((name_of(r) for r in results if r["family"] == "fastload"), None)
    numbers = charts.table(f"{_MODES[mode]}: medians of epochs after the first", head, rows, ours)
    note = "<p>Longer is faster; whiskers are as long as the quartiles of epochs are apart.</p>"
    if any(r["family"] == "memory" for r in results):
        note += f"<p>{escape(IN_MEMORY)}</p>"
    note += "".join(f"<p>{escape(line)}</p>" for line in kept_note({"results": results}))
    return section(f"{_MODES[mode]}: rows a second", drawn, note, charts.folded("Numbers", numbers))


def _left_out(record: _Record) -> str:
    lines = [
        f"<li>{escape(' '.join(filter(None, (one['name'], one['version']))))}"
        + (f", {MODES[one['mode']]}" if one["mode"] else "")
        + f": {escape(one['reason'])}.</li>"
        for one in record["left_out"]
    ]
    lines += [
        f"<li>column <code>{escape(name)}</code>: {escape(reason)}.</li>"
        for name, reason in record["dataset"]["left_out"].items()
    ]
    return section("Not measured", f"<ul>{''.join(lines)}</ul>") if lines else ""


def _roofline(record: _Record) -> str:
    roofs = record["roofline"]
    if not roofs:
        return ""
    wall = roofs["threads"]
    decode_s = roofs["decompress_s"] + roofs.get("kept_read_s", 0.0) + roofs["memcpy_s"]
    kept = bool(roofs.get("kept_bytes"))
    stages = [
        ("read", roofs["read_s"], roofs["fastload_read_s"] / wall),
        (decode_name(kept=kept), decode_s, roofs["fastload_decode_s"] / wall),
        ("epoch", roofs["roof_s"], roofs["epoch_s"]),
    ]
    rows = [(name, _ms(roof), _ms(own), _share(roof, own)) for name, roof, own in stages]
    if roofs["h2d_s"] is not None:
        rows.append(("copy to the device", _ms(roofs["h2d_s"]), "-", "-"))
    threads = [
        (f"{one['threads']}", _ms(one["epoch_s"]), f"{100 * one['spread']:.0f} %")
        for one in roofs["by_threads"]
    ]
    codecs = [(name, _ms(seconds)) for name, seconds in roofs["codecs"].items()]
    return section(
        "Distance from the roof",
        f"<p>{escape(roofs['verdict'])}</p>",
        charts.table(
            "What reading, decompressing and one copy cost, and what fastload's threads took"
            + (", over pages kept in memory" if kept else ""),
            ("stage", "roof", "fastload", "of roof"),
            rows,
        ),
        charts.folded(
            "By threads and codecs",
            charts.table("An epoch of fastload", ("threads", "median", "+-"), threads)
            + charts.table(
                "Reading and decompressing the first rows, written with each codec",
                ("codec", "least"),
                codecs,
            ),
        ),
    )


def _waits(record: _Record) -> str:
    seen = record["profile"]
    # Steps without length wait for data all the time.
    if not seen or not seen["steps"] or not seen["step_s"]:
        return ""
    steps = seen["steps"]
    every = -(-len(steps) // _COLUMNS)
    groups = [steps[i : i + every] for i in range(0, len(steps), every)]
    values = [max(step["wait_s"] for step in group) for group in groups]
    marks = [any(step["where"] == "epoch start" for step in group) for group in groups]
    each = "each step" if every == 1 else f"the longest of {every} steps"
    pauses = [
        (
            f"epoch {pause['epoch']}, batch {pause['index']}",
            _ms(pause["seconds"]),
            pause["where"] or "-",
        )
        for pause in seen["pauses"]
    ]
    below = charts.legend([("first of an epoch", "wait"), ("other steps", "ours")])
    below += charts.table("The longest waits", ("before", "wait", "where"), pauses)
    return section(
        "Waits for data",
        f"<p>{100 * seen['share']:.1f} % of the time of {seen['number_of_steps']:,} steps in "
        f"{seen['epochs']} epochs ({MODES[seen['mode']]}, steps of "
        f"{1e3 * seen['step_s']:g} ms) went on waiting.</p>",
        charts.columns(
            f"Wait before {each}",
            values,
            marks,
            (_ms(max(values)), f"{len(steps)} steps"),
            ("ours", "wait"),
            below,
        ),
    )


def _memory(record: _Record) -> str:
    seen = record["profile"]
    if not seen or not seen["memory"]:
        return ""
    samples = seen["memory"]
    most = max(max(sample[name] for name, _ in _MEMORY_LINES) for sample in samples)
    end = samples[-1]["at_s"]
    words = {
        "resident": "resident memory of the process",
        "batches": "fastload: batches",
        "read": "fastload: read bytes",
        "staged": "fastload: staged strings and lists",
    }
    drawn = [
        charts.Line(words[name], [(s["at_s"], s[name]) for s in samples], colour)
        for name, colour in _MEMORY_LINES
    ]
    peaks = [(words[name], _mb(max(s[name] for s in samples))) for name, _ in _MEMORY_LINES]
    numbers = charts.table("Peaks", ("bytes of", "most"), peaks)
    return section(
        "Memory over time",
        charts.lines(
            "Bytes held while fastload ran",
            drawn,
            (_mb(most), f"{end:.2f} s"),
            (end, most),
            numbers,
        ),
    )


def _tuning(record: _Record) -> str:
    tuning = record["tuning"]
    if not tuning:
        return ""
    keys = ("threads", "workers", "prefetch", "request_bytes")
    rows = []
    for trial in tuning["trials"]:
        best = all(trial[key] == tuning["best"][key] for key in keys)
        cells = ["default" if trial[key] is None else f"{trial[key]:,}" for key in keys]
        rate = "-" if trial["rows_per_s"] is None else f"{trial['rows_per_s']:,.0f}"
        mark = "best" if best else trial["note"] or "-"
        rows.append((*cells, rate, f"{100 * trial['spread']:.0f} %", mark))
    return section(
        "Tuning",
        charts.table(
            f"{_MODES[tuning['mode']]}; the same setting differed by {100 * tuning['noise']:.0f} % "
            "from process to process",
            ("threads", "workers", "prefetch", "request bytes", "rows/s", "+-", "note"),
            rows,
        ),
    )


def _layout(record: _Record) -> str:
    data = record["dataset"]
    groups = data["layout"]["row_groups"]
    every = max(1, -(-len(groups) // _COLUMNS))
    parts = [groups[i : i + every] for i in range(0, len(groups), every)]
    values = [max(group["rows"] for group in part) for part in parts]
    starts = [part[0]["file"] % 2 == 1 for part in parts]
    each = "each row group" if every == 1 else f"the largest of {every} row groups"
    columns = [
        (
            column["name"],
            column["type"],
            ", ".join(column["codecs"]).lower(),
            ", ".join(column["encodings"]).lower(),
            _mb(column["stored_bytes"]),
            _mb(column["decoded_bytes"]),
            f"{column['decoded_bytes'] / max(1, column['stored_bytes']):.1f}",
        )
        for column in data["layout"]["columns"]
    ]
    head = ("column", "type", "codec", "encodings", "stored", "decoded", "ratio")
    files = "".join(f"<li><code>{escape(file)}</code></li>" for file in data["files"][:50])
    more = len(data["files"]) - 50
    files += f"<li>and {more:,} more</li>" if more > 0 else ""
    return section(
        "The files",
        charts.columns(
            f"Rows of {each}; files in turns of colour",
            values,
            starts,
            (f"{max(values, default=0):,}", counted(len(groups), "row group")),
            ("ours", "theirs"),
            charts.folded("Files", f"<ul>{files}</ul>"),
        ),
        charts.folded(
            f"{len(columns)} columns", charts.table("Sizes of the columns read", head, columns)
        ),
    )


def _method(record: _Record) -> str:
    host = record["host"]
    versions = {r["name"]: r["version"] for r in record["results"]}
    rows = [
        ("processor", f"{host['cpu']}, {host['cores']} cores"),
        ("system", host["system"]),
        ("Python", host["python"]),
        ("torch", host["torch"]),
        *((name, version) for name, version in versions.items()),
    ]
    return section(
        "How it was measured",
        f"<pre><code>{escape(shlex.join(record['command']))}</code></pre>",
        "<p>Every contender reads the same rows and columns into the same batches of tensors, and "
        "is checked against what pyarrow reads before it is timed. They take turns, each in a "
        "process of its own; figures are medians of the epochs after the first. Local files were "
        "in the page cache.</p>",
        charts.table("Versions", ("of", "version"), rows, prose=True),
    )


def _footer(record: _Record) -> str:
    text = f"fastload {record['fastload']}, {record['created']}"
    return f"<footer><p>{escape(text)}</p></footer>"


def _percent(spread: float) -> str:
    return f"{100 * spread:.0f} %" if spread <= _MOST_SPREAD else "unstable"


def _mb(size: float) -> str:
    return f"{size / 1e6:,.0f} MB" if size >= 1e7 else f"{size / 1e6:,.1f} MB"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.1f} ms"


def _share(roof_s: float, own_s: float) -> str:
    return f"{roof_s / own_s:.2f}" if own_s > 1e-4 else "-"
