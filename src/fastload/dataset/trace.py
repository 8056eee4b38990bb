"""Traces of the core's threads, task by task, for Perfetto and chrome://tracing."""

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
"""Default number of spans that a trace keeps: about 30 MB of memory."""

# The thing that the index of a span numbers, by stage; in other stages, a window.
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

    Attributes:
        stage: the kind of task. "prepare": prepare a window. "read": read from a local file.
            "request": a request to a store, from asking to arrival. "stage" and "count": handle
            strings and lists. "fill": decode or gather columns into batches. "merge": merge a
            batch that lies in several windows. "kernels": call kernels on a batch. "wait": the
            consumer waits for a batch.
        thread: the system's number of the thread.
        start_ns: begin of the task, on the clock of `time.perf_counter_ns`.
        end_ns: end of the task, on the same clock.
        index: number of the file (read, request), of the batch (merge, kernels, wait), or
            otherwise of the window in its pass.
        column: first column that the task decodes; "" for stages that work on no column.
        bytes: number of bytes of a read or request; 0 in other stages.
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

    Attributes:
        spans: the spans in the order in which they ended.
        threads: number -> name of each thread that has a span.
        dropped: number of spans that were left out because the trace was full.
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
        """Write a file for https://ui.perfetto.dev or chrome://tracing.

        Args:
            path: path of the JSON file; an existing file is overwritten.

        Raises:
            OSError: the file can't be written.
        """
        Path(path).write_text(json.dumps(self.to_json()))


@contextmanager
def recorded(engines: ProcessEngine, capacity: int) -> Iterator[Trace]:
    """Record what the core does for the engines of a dataset, inside a with block.

    Raises:
        TypeError: `capacity` is not an int.
        ValueError: `capacity` is less than 1.
        RuntimeError: the engines are being recorded already.
    """
    if type(capacity) is not int:
        raise TypeError(f"Expected capacity as int, got {capacity!r}")
    if capacity < 1:
        raise ValueError(f"Expected capacity to be at least 1, got {capacity}")
    if engines.traced_by == os.getpid():
        raise RuntimeError(
            "Expected a dataset that no trace records, got one inside a with block of trace(): end "
            "that block first"
        )
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
    # Many requests run at once, so they cannot be drawn as the call stack of a thread.
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
