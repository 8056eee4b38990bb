"""What a dataset's stages have done: bytes, rows, and seconds working and waiting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Memory", "Stage", "Stats", "stats_of"]


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of the pipeline.

    bytes: read from files, or handed out in batches; 0 where the stage does not count them.
    rows: handed out; for decoding, values (rows times columns).
    working_s: seconds of all its threads.
    """

    bytes: int = 0
    rows: int = 0
    working_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes held now, in use and for reuse; what processes share is counted once.

    read: column chunks as they are stored, those that a store's client lends too.
    staged: decoded strings and lists that wait for their batches' sizes.
    batches: being filled, finished, and in the consumer's hands.
    """

    read: int = 0
    staged: int = 0
    batches: int = 0

    @property
    def total(self) -> int:
        """All of it."""
        return self.read + self.staged + self.batches


@dataclass(frozen=True, slots=True)
class Stats:
    """What has been done since the dataset was made, by this process.

    read: column chunks read from storage.
    read_ahead: likewise, while the pass before was ending; not in `read`.
    decode: pages decompressed, decoded, cast, and collated into batches.
    kernels: kernels called by the core.
    deliver: batches handed to the consumer.
    requests: reads asked of storage, those ahead included.
    batches: handed out.
    copied_batches: of those, handed out in memory of their own because the consumer held
        more than memory_budget allows.
    waiting_s: seconds that the consumer waited for a batch.
    steps_s: of these, seconds in preprocess= and augment=, waits for their threads included.
    consuming_s: seconds between one batch handed out and the next one asked for.
    memory: held by stage, by the DataLoader's worker processes too.
    memory_allocations: blocks of memory ever taken from the system; in the steady state
        this number stands still.
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

    @property
    def bottleneck(self) -> str:
        """What bounded the speed.

        "consumer", "steps", "read", "decode" or "kernels"; "none" at first.
        """
        if not self.batches:
            return "none"
        if self.consuming_s > self.waiting_s:
            return "consumer"
        if 2 * self.steps_s > self.waiting_s:
            return "steps"
        working_s = {
            "decode": self.decode.working_s,
            "read": self.read.working_s + self.read_ahead.working_s,
            "kernels": self.kernels.working_s,
        }
        return max(working_s, key=lambda stage: working_s[stage])


def stats_of(
    counts: Mapping[str, int],
    memory: Sequence[Sequence[int]],
    *,
    copied_batches: int,
    consuming_s: float,
    steps_s: float,
) -> Stats:
    """From the core's counters, in bytes and nanoseconds, and each process's memory by stage."""
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
    )


_READ_COUNTS = ("requests", "bytes", "ns")
_NOTHING = dict.fromkeys(
    [
        *(f"{read}_{kind}" for read in ("read", "read_ahead") for kind in _READ_COUNTS),
        *("decoded_values", "decode_ns", "kernel_ns"),
        *("batches", "rows", "batch_bytes", "wait_ns"),
        "memory_mapped_total",
    ],
    0,
)
