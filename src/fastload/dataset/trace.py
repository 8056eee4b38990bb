"""Traces of what the core's threads did when, for Perfetto and chrome://tracing."""

from __future__ import annotations

import json
import os
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastload.runtime.platform import thread_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fastload.dataset.process_engine import ProcessEngine

__all__ = ["CAPACITY", "Span", "Trace", "recorded"]

CAPACITY = 300_000
"""The spans that a trace keeps unless the caller says otherwise: about 30 MB of memory."""

# What the index of a span counts, by stage; of the others it is a window.
_INDICES = {
    "read": "file",
    "request": "file",
    "merge": "batch",
    "kernels": "batch",
    "wait": "batch",
    "train": "step",
}


@dataclass(frozen=True, slots=True)
class Span:
    """One task of one thread.

    stage: "prepare" (of a window), "read" (of a local file), "request" (to a store, from asking to
        arrival), "stage" and "count" (of strings and lists), "fill" (columns decoded, or
        gathered, into batches), "merge" (of a batch that lies in several windows), "kernels" or
        "wait" (of the consumer, for a batch).
    thread: as the system numbers it.
    start_ns, end_ns: of the clock of `time.perf_counter_ns`.
    index: of the file for reads and requests, of the batch for merge, kernels and wait, else of the
        window of its pass.
    column: the first one that is decoded; "" for stages that work on no column.
    bytes: of reads and requests.
    """

    stage: str
    thread: int
    start_ns: int
    end_ns: int
    index: int
    column: str = ""
    bytes: int = 0


@dataclass(slots=True)
class Trace:
    """The spans that `FastParquetDataset.trace` recorded.

    spans: in the order in which they ended.
    threads: number -> name of each thread that has a span.
    dropped: how many spans were left out because the trace was full.
    """

    spans: list[Span] = field(default_factory=list)
    threads: dict[int, str] = field(default_factory=dict)
    dropped: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the trace in Chrome's trace event format, which `write` writes."""
        start_ns = min((span.start_ns for span in self.spans), default=0)
        process = os.getpid()
        events: list[dict[str, Any]] = [
            {
                "name": "thread_name",
                "ph": "M",
                "pid": process,
                "tid": thread,
                "args": {"name": name},
            }
            for thread, name in self.threads.items()
        ]
        for number, span in enumerate(self.spans):
            events += _events(span, number, start_ns, process)
        other = {"dropped_spans": self.dropped}
        return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": other}

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a file for https://ui.perfetto.dev or chrome://tracing."""
        Path(path).write_text(json.dumps(self.to_json()))


@contextmanager
def recorded(engines: ProcessEngine, capacity: int) -> Iterator[Trace]:
    """Record what the core does for the engines of a dataset, as `FastParquetDataset.trace` says.

    Raises:
        ValueError: capacity is less than 1.
    """
    if capacity < 1:
        raise ValueError(f"Expected capacity to be at least 1, got {capacity}")
    trace = Trace()
    engines.start_spans(capacity)
    try:
        yield trace
    finally:
        spans, units, trace.dropped = engines.stop_spans()
        trace.spans += (
            Span(stage, thread, start, end, index, units[unit] if unit >= 0 else "", size)
            for stage, thread, start, end, index, unit, size in spans
        )
        trace.threads.update(_names(span.thread for span in trace.spans))


def _events(span: Span, number: int, start_ns: int, process: int) -> list[dict[str, Any]]:
    arguments: dict[str, Any] = {_INDICES.get(span.stage, "window"): span.index}
    if span.column:
        arguments["column"] = span.column
    if span.bytes:
        arguments["bytes"] = span.bytes
    event = {
        "name": f"{span.stage} {span.column}".rstrip(),
        "cat": span.stage,
        "ph": "X",
        "ts": (span.start_ns - start_ns) / 1e3,
        "dur": (span.end_ns - span.start_ns) / 1e3,
        "pid": process,
        "tid": span.thread,
        "args": arguments,
    }
    if span.stage != "request":
        return [event]
    # Many requests run at once, so that they cannot be drawn as the stack of a thread.
    begin = {**event, "ph": "b", "id": number}
    del begin["dur"]
    return [begin, {**begin, "ph": "e", "ts": (span.end_ns - start_ns) / 1e3}]


def _names(threads: Iterable[int]) -> dict[int, str]:
    """Return number -> name of the threads; the main thread is the consumer."""
    consumer = threading.main_thread().native_id
    return {
        thread: "consumer" if thread == consumer else thread_name(thread)
        for thread in sorted(set(threads))
    }
