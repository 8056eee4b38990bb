"""Statistics of a dataset's stages: bytes, rows, and seconds of work and waiting."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Documents", "Memory", "Stage", "Stats", "stats_of"]


@dataclass(frozen=True, slots=True)
class Stage:
    """Counters of one stage of the pipeline.

    Attributes:
        bytes: bytes read from files, or handed out in batches; 0 if the stage counts no bytes.
        rows: rows handed out; for decoding, values (rows times columns); 0 if the stage counts no
            rows.
        working_s: seconds of work, summed over the threads of the stage. Reads of local files
            count the seconds in the system's calls, from a disk or from memory; decoding does not
            count the reads that happen meanwhile. 0 for reads from an object store, whose client
            waits without a thread of the core.
    """

    bytes: int = 0
    rows: int = 0
    working_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes held now, in use and for reuse; memory that processes share is counted once.

    Attributes:
        read: column chunks in their stored form, including bytes lent by a store's client.
        staged: decoded strings and lists that are kept outside of the batches until the sizes of
            the batches are known.
        batches: batches that are being filled, that are finished, and that the consumer holds.
        kept: decompressed pages, and rows that filters and deletes leave, that stay in memory from
            one pass to the next.
        kept_limit: the most bytes of `kept`: what memory_budget leaves beside the other memory. A
            consumer that holds many batches lowers the limit, until it has held fewer for a pass.
        kept_chunks: not bytes, but how often a column chunk came from kept pages or rows, without a
            read and without decompression.
        spare: memory of datasets that were closed, at most 64 MiB of each process, which the next
            dataset takes.
    """

    read: int = 0
    staged: int = 0
    batches: int = 0
    kept: int = 0
    kept_limit: int = 0
    kept_chunks: int = 0
    spare: int = 0

    @property
    def total(self) -> int:
        """Sum of all bytes that are held."""
        return self.read + self.staged + self.batches + self.kept + self.spare


NO_MEMORY = [0] * len(fields(Memory))
"""The memory of a process that has no engine, in the order of the fields of `Memory`."""


@dataclass(frozen=True, slots=True)
class Documents:
    """Documents of an epoch, on all ranks, that are longer than a packed row.

    Attributes:
        split: documents cut into pieces, with `long="split"`.
        truncated: documents cut off, with `long="truncate"`.
        dropped: documents left out, with `long="drop"`.
    """

    split: int = 0
    truncated: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Stats:
    """Statistics of this process since the dataset was made.

    Example:
        for batch in ds:
            train(batch)
        print(ds.stats().bottleneck, ds.stats().waiting_s)

    Attributes:
        read: column chunks read from storage.
        read_ahead: column chunks read from storage for the next pass, while the pass before was
            ending; not included in `read`.
        decode: pages decompressed, decoded, cast, and collated into batches.
        kernels: kernels called by the core.
        deliver: batches handed to the consumer.
        requests: read requests to storage, including requests for the next pass.
        batches: the number of batches handed out.
        copied_batches: the number of batches handed out as copies, because the consumer held more
            memory than memory_budget allows.
        waiting_s: seconds that the consumer waited for a batch.
        consuming_s: seconds between handing out a batch and the consumer's request for the next.
        memory: bytes held by each stage, including the DataLoader's worker processes.
        memory_allocations: how many times memory was taken from the system; in the steady state
            this number stands still.
        steps_s: the part of `waiting_s` spent in preprocess= and augment=, including waits for
            the threads of the steps.
        documents: what `long` of a `Pack` does to the long documents of the running epoch, or else
            the next epoch; zeros without `pack`.
        threads: threads of the core that decode and collate.
        cpu_s: CPU seconds of the core's threads, which read, decode, collate and call kernels, in
            passes; with threads=0, of the consumer while it waits for batches. The consumer's
            Python code, functions of preprocess= and augment=, and the client of an object store
            do not count.
    """

    read: Stage
    read_ahead: Stage
    decode: Stage
    kernels: Stage
    deliver: Stage
    requests: int
    batches: int
    copied_batches: int
    waiting_s: float
    consuming_s: float
    memory: Memory
    memory_allocations: int
    steps_s: float
    documents: Documents = Documents()
    threads: int = 1
    cpu_s: float = 0.0

    @property
    def bottleneck(self) -> str:
        """Stage that limited the speed.

        "consumer", "steps", "read", "decode" or "kernels"; "none" before the first batch. With an
        object store, "read" means that the core's threads had no work for most of the time.
        """
        if not self.batches:
            return "none"
        if self.consuming_s > self.waiting_s:
            return "consumer"
        if 2 * self.steps_s > self.waiting_s:
            return "steps"
        if self._awaits_store():
            return "read"
        working_s = {
            "decode": self.decode.working_s,
            "read": self.read.working_s + self.read_ahead.working_s,
            "kernels": self.kernels.working_s,
        }
        return max(working_s, key=lambda stage: working_s[stage])

    def _awaits_store(self) -> bool:
        """Return True if bytes of a store were read, and the threads were idle most of the time."""
        read_bytes = self.read.bytes + self.read_ahead.bytes
        if not read_bytes or self.read.working_s + self.read_ahead.working_s:
            return False
        possible_s = self.threads * (self.waiting_s - self.steps_s + self.consuming_s)
        return 2 * (self.decode.working_s + self.kernels.working_s) < possible_s

    def to_prometheus(self, labels: Mapping[str, str] | None = None) -> str:
        """Return the statistics in Prometheus' text format, to write to a file or an endpoint.

        Counters begin at 0 when the dataset is made; memory is a gauge. All numbers are of this
        process, except memory, which includes the DataLoader's worker processes.

        Args:
            labels: labels to add to each sample, such as {"rank": "0"}.

        Raises:
            TypeError: a key or a value of `labels` is not a str.
            ValueError: a key of `labels` is not a valid label name, or is "stage" or "becomes",
                which fastload uses itself.
        """
        _check_labels(labels or {})
        lines: list[str] = []
        for name, (kind, text, samples) in _metrics(self).items():
            lines += [f"# HELP fastload_{name} {text}", f"# TYPE fastload_{name} {kind}"]
            for own, value in samples:
                pairs = {**(labels or {}), **own}
                inside = ",".join(f'{key}="{_escaped(pairs[key])}"' for key in pairs)
                shown = f"{{{inside}}}" if inside else ""
                lines.append(f"fastload_{name}{shown} {value}")
        return "\n".join(lines) + "\n"


def stats_of(
    counts: Mapping[str, int],
    memory: Sequence[Sequence[int]],
    *,
    copied_batches: int,
    consuming_s: float,
    steps_s: float,
    documents: Documents,
    threads: int,
) -> Stats:
    """Convert the core's counters to statistics.

    Args:
        counts: the core's counters, in bytes and nanoseconds.
        memory: for each process, the bytes held by each stage.
        copied_batches: the number of batches handed out as copies.
        consuming_s: seconds between handing out a batch and the request for the next.
        steps_s: seconds in preprocess= and augment=.
        documents: long documents of an epoch.
        threads: threads of the core that decode; at least 1, the consumer's own.
    """
    count = {**_NOTHING, **counts}
    return Stats(
        read=Stage(count["read_bytes"], 0, count["read_ns"] / 1e9),
        read_ahead=Stage(count["read_ahead_bytes"], 0, count["read_ahead_ns"] / 1e9),
        decode=Stage(0, count["decoded_values"], count["decode_ns"] / 1e9),
        kernels=Stage(working_s=count["kernel_ns"] / 1e9),
        deliver=Stage(count["batch_bytes"], count["rows"]),
        requests=count["read_requests"] + count["read_ahead_requests"],
        batches=count["batches"],
        copied_batches=copied_batches,
        waiting_s=count["wait_ns"] / 1e9 + steps_s,
        consuming_s=consuming_s,
        memory=Memory(*map(sum, zip(*memory, strict=True))),
        memory_allocations=count["memory_mapped_total"],
        steps_s=steps_s,
        documents=documents,
        threads=threads,
        cpu_s=count["cpu_ns"] / 1e9,
    )


_WORKING = "Seconds of all threads of a stage; 0 for reads from an object store."

_Samples: TypeAlias = "list[tuple[dict[str, str], float]]"


def _metrics(stats: Stats) -> dict[str, tuple[str, str, _Samples]]:
    """Return for each metric's name its kind, its help text, and samples with their labels."""
    stages = {
        "read": stats.read,
        "read_ahead": stats.read_ahead,
        "decode": stats.decode,
        "kernels": stats.kernels,
    }
    memory = ("read", "staged", "batches", "kept", "spare")
    working: _Samples = [({"stage": name}, one.working_s) for name, one in stages.items()]
    working.append(({"stage": "steps"}, stats.steps_s))
    read: _Samples = [({"stage": name}, stages[name].bytes) for name in ("read", "read_ahead")]
    held: _Samples = [({"stage": name}, getattr(stats.memory, name)) for name in memory]
    return {
        "read_bytes_total": ("counter", "Bytes read from storage.", read),
        "requests_total": ("counter", "Read requests to storage.", [({}, stats.requests)]),
        "working_seconds_total": ("counter", _WORKING, working),
        "cpu_seconds_total": ("counter", "CPU seconds of the core's threads.", [({}, stats.cpu_s)]),
        "batches_total": ("counter", "Batches handed out.", [({}, stats.batches)]),
        "copied_batches_total": (
            "counter",
            "Batches handed out as copies, because the consumer held too many.",
            [({}, stats.copied_batches)],
        ),
        "rows_total": ("counter", "Rows handed out.", [({}, stats.deliver.rows)]),
        "batch_bytes_total": ("counter", "Bytes handed out.", [({}, stats.deliver.bytes)]),
        "waiting_seconds_total": (
            "counter",
            "Seconds that the consumer waited for batches.",
            [({}, stats.waiting_s)],
        ),
        "consuming_seconds_total": (
            "counter",
            "Seconds between a batch and the consumer's request for the next.",
            [({}, stats.consuming_s)],
        ),
        "long_documents": (
            "gauge",
            "Documents of an epoch that are longer than a packed row.",
            [({"becomes": name}, getattr(stats.documents, name)) for name in Documents.__slots__],
        ),
        "memory_bytes": ("gauge", "Bytes held, in use and for reuse.", held),
        "kept_limit_bytes": (
            "gauge",
            "The most bytes of pages kept from one pass to the next.",
            [({}, stats.memory.kept_limit)],
        ),
        "kept_chunks_total": (
            "counter",
            "Column chunks that came from kept pages or rows.",
            [({}, stats.memory.kept_chunks)],
        ),
    }


_OWN_LABELS = ("stage", "becomes")


def _check_labels(labels: Mapping[Any, Any]) -> None:
    """Raise TypeError or ValueError if Prometheus or fastload can't take a label."""
    for name, value in labels.items():
        if not isinstance(name, str) or not isinstance(value, str):
            wanted = f"{{{str(name)!r}: {str(value)!r}}}"
            raise TypeError(f"Expected labels of str such as {wanted}, got {{{name!r}: {value!r}}}")
        # Names that begin with __ are Prometheus' own.
        if not re.fullmatch(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*", name) or name in _OWN_LABELS:
            raise ValueError(f"Expected the name of a label of your own, got {name!r}")


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


_READ_COUNTS = ("requests", "bytes", "ns")
_NOTHING = dict.fromkeys(
    [
        *(f"{read}_{kind}" for read in ("read", "read_ahead") for kind in _READ_COUNTS),
        *("decoded_values", "decode_ns", "kernel_ns", "cpu_ns"),
        *("batches", "rows", "batch_bytes", "wait_ns"),
        "memory_mapped_total",
    ],
    0,
)
