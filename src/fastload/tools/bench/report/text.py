"""Text of the results for people: a table and a few sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastload.tools.bench.host import host

if TYPE_CHECKING:
    from fastload.tools.bench.session import Findings, Mode, Result

_HEAD = ("", "rows/s", "+-", "MB/s", "first batch", "peak memory", "CPU", "of roof")
_TITLES: dict[str, str] = {"in_order": "in order", "shuffled": "shuffled"}
# Above this share of the cores, less waiting would gain little.
_BUSY = 0.85


def table(findings: Findings) -> str:
    """Return a table: a part for each mode, a line for each contender, the fastest first."""
    blocks = []
    for mode in findings.plan.modes:
        lines = [_cells(result, findings) for result in _of(findings, mode)]
        if lines:
            blocks.append((_TITLES[mode], lines))
    rows = [_HEAD, *(line for _, lines in blocks for line in lines)]
    widths = [max(len(row[j]) for row in rows) for j in range(len(_HEAD))]
    widths[0] = max(widths[0], *(len(title) for title, _ in blocks), 0)

    def line(cells: tuple[str, ...]) -> str:
        numbers = (cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))
        return "  ".join((cells[0].ljust(widths[0]), *numbers)).rstrip()

    text = []
    for title, lines in blocks:
        text += [line((title, *_HEAD[1:])), "-" * (sum(widths) + 2 * (len(widths) - 1))]
        text += [*map(line, lines), ""]
    return "\n".join(text)


def heading(findings: Findings) -> str:
    """Say which files were read, and on which machine."""
    survey, work = findings.plan.survey, findings.plan.work
    here = host()
    return "\n".join(
        [
            (
                f"{_source(survey.files)}: {_counted(survey.rows, 'row')}, "
                f"{_counted(len(survey.columns), 'column')}, "
                f"{_counted(survey.row_groups, 'row group')}, {', '.join(survey.codecs).lower()}; "
                f"{_mb(survey.stored_bytes)} stored, {_mb(survey.decoded_bytes)} decoded"
            ),
            (
                f"{here['cores']} cores ({here['cpu']}); batches of {work.batch_size:,} rows, "
                f"{work.threads or 'all'} threads, {work.workers} workers"
            ),
        ]
    )


def remarks(findings: Findings) -> str:
    """Say what the table means, and what was not measured."""
    lines = []
    for mode in findings.plan.modes:
        lines += _meaning(findings, mode)
    if findings.roof_s is not None:
        lines.append(
            f"The roof, {findings.roof_s:.3f} s an epoch, is what the core needs to read and "
            "decompress the pages and to copy the decoded bytes once."
        )
    for name, seconds in _conversions(findings).items():
        lines.append(f"{name}: converting the files took {seconds:.1f} s, before all this.")
    for name, left_mode, reason in findings.left_out:
        version = f" {findings.versions[name]}" if name in findings.versions else ""
        where = f", {_TITLES[left_mode]}" if left_mode else ""
        lines.append(f"Not timed: {name}{version}{where}: {reason}.")
    for column, reason in findings.plan.survey.left_out.items():
        lines.append(f"Not read: column `{column}`, {reason}.")
    step = "" if findings.profile and findings.profile.step_s else "a training step, "
    lines.append(f"Not measured: {step}copies to a GPU, {_storage_not_measured(findings)}.")
    lines.append(
        "The number in brackets is the memory of the imports; pages of memory-mapped files count. "
        "+- is half the distance between the quartiles of epochs."
    )
    if findings.plan.work.workers:
        lines.append("Workers: only contenders that go through DataLoader have workers.")
    return "\n".join(lines)


def _storage_not_measured(findings: Findings) -> str:
    if findings.plan.survey.remote:
        return "and the store from elsewhere than this machine"
    return "object stores, and a cold disk (the files were in the page cache)"


def _of(findings: Findings, mode: Mode) -> list[Result]:
    of_mode = [result for result in findings.results if result.mode == mode]
    return sorted(of_mode, key=lambda result: result.epoch_s)


def _cells(result: Result, findings: Findings) -> tuple[str, ...]:
    survey = findings.plan.survey
    fraction = roof_fraction(result, findings)
    return (
        result.peer.name,
        f"{survey.rows / result.epoch_s:,.0f}",
        f"{100 * result.spread:.0f} %",
        f"{survey.decoded_bytes / result.epoch_s / 1e6:,.0f}",
        f"{result.first_batch_s:.3f} s",
        f"{_mb(result.peak_rss_bytes)} ({_mb(result.imports_rss_bytes)})",
        f"{result.cpu_s / result.epoch_s:.2f} cores",
        "-" if fraction is None else f"{fraction:.2f}",
    )


def _meaning(findings: Findings, mode: Mode) -> list[str]:
    ranked = _of(findings, mode)
    mine = next((result for result in ranked if result.peer.family == "fastload"), None)
    if mine is None:
        return []
    text = f"fastload {_TITLES[mode]}"
    others = [result for result in ranked if result is not mine]
    if others:
        text += (
            f": {others[0].epoch_s / mine.epoch_s:.1f} times the rate of the best other "
            f"({others[0].peer.name})"
        )
    cores = int(host()["cores"])
    threads = min(findings.plan.work.threads or cores, cores)
    busy = mine.cpu_s / mine.epoch_s
    limit = (
        "the processor is the limit"
        if busy >= _BUSY * threads
        else "it waits for something else than the processor"
    )
    text += f"; {busy:.1f} of {threads} cores at work, so {limit}"
    if mine.bottleneck:
        text += f"; slowest stage: {mine.bottleneck}"
    return [text + "."]


def _conversions(findings: Findings) -> dict[str, float]:
    """Return the seconds of conversion, by the name of each contender that converts."""
    return {r.peer.name: r.conversion_s for r in findings.results if r.conversion_s}


def roof_fraction(result: Result, findings: Findings) -> float | None:
    """Return the result's rate as a fraction of the roof's rate; None without a roof."""
    return None if findings.roof_s is None else findings.roof_s / result.epoch_s


def _source(files: tuple[str, ...]) -> str:
    return files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _mb(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
