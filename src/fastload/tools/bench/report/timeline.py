"""Timeline of fastload's threads, drawn from the spans of a profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastload.tools.bench.report import charts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastload.dataset.trace import Span, Trace
    from fastload.tools.bench.profile import Profile
    from fastload.tools.bench.report.charts import Block

_WORDS = {
    "read": "reads of files",
    "request": "requests to the store",
    "prepare": "plans and orders of windows",
    "stage": "strings and lists decoded",
    "count": "sizes counted",
    "fill": "columns decoded into batches",
    "merge": "batches put together",
    "kernels": "kernels",
    "wait": "waits for a batch",
    "train": "training steps",
}
# Blocks of one kind are joined if the gap is less than this part of the time: it is invisible.
_GAPS = 1500


def timeline(profile: Profile) -> str:
    """Return a section with a lane for each thread, over the first two epochs."""
    trace = profile.trace()
    end_s = _end_of_two_epochs(profile, trace)
    by_lane: dict[str, list[Span]] = {}
    for span in trace.spans:
        if (span.start_ns - profile.start_ns) / 1e9 < end_s:
            name = trace.threads.get(span.thread, str(span.thread))
            # Requests overlap, so their lanes are independent of threads.
            lane = "store" if span.stage == "request" else f"{name} {span.thread}"
            by_lane.setdefault(lane, []).append(span)
    if not by_lane:
        return ""
    threads = [
        (_name(lane, number), _blocks(by_lane[lane], profile.start_ns, end_s))
        for number, lane in enumerate(sorted(by_lane, key=_order))
    ]
    kinds = [kind for kind in _WORDS if any(b.kind == kind for _, bs in threads for b in bs)]
    rows = [
        (name, *(f"{1e3 * _seconds(blocks, kind):.1f} ms" for kind in kinds))
        for name, blocks in threads
    ]
    numbers = charts.table("Time by thread and stage", ("thread", *kinds), rows)
    title = "What each thread did in the first two epochs"
    below = charts.legend([(_WORDS[kind], kind) for kind in kinds])
    return (
        "<section><h2>Timeline</h2>"
        + charts.lanes(title, threads, end_s, below + charts.folded("Numbers", numbers))
        + "</section>"
    )


def _end_of_two_epochs(profile: Profile, trace: Trace) -> float:
    """Return the end of the first two epochs, in seconds on the clock of the profile."""
    first_ns = min((span.start_ns for span in trace.spans), default=profile.start_ns)
    steps = (float(s["wait_s"] + s["work_s"]) for s in profile.steps if s["epoch"] < 2)
    end_s = (first_ns - profile.start_ns) / 1e9 + max(sum(steps), 1e-3)
    return min(end_s, max(profile.seconds, 1e-3))


def _order(lane: str) -> tuple[int, str]:
    places = ("consumer", "fastload-cpu", "fastload-io", "store")
    return next((i for i, name in enumerate(places) if lane.startswith(name)), 9), lane


def _name(lane: str, number: int) -> str:
    name = lane.rpartition(" ")[0] or lane
    return f"{name} {number}" if name.startswith("fastload-") else name


def _blocks(spans: Iterable[Span], start_ns: int, end_s: float) -> list[Block]:
    """Convert spans to blocks; join neighbours of one kind, and omit waits without length."""
    blocks: list[Block] = []
    gap_s = end_s / _GAPS
    for span in sorted(spans, key=lambda span: span.start_ns):
        start = max(0.0, (span.start_ns - start_ns) / 1e9)
        end = min(end_s, (span.end_ns - start_ns) / 1e9)
        if span.stage == "wait" and end - start < gap_s:
            continue
        last = blocks[-1] if blocks else None
        if last and last.kind == span.stage and start - last.end_s < gap_s:
            blocks[-1] = charts.Block(span.stage, last.start_s, max(end, last.end_s))
        else:
            blocks.append(charts.Block(span.stage, start, end))
    return blocks


def _seconds(blocks: Iterable[Block], kind: str) -> float:
    return sum(block.end_s - block.start_s for block in blocks if block.kind == kind)
