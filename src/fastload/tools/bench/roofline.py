"""Roof of each stage, measured on the same files and in the same process as fastload."""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from fastload.runtime.cores import available_cores
from fastload.runtime.units import size_of
from fastload.tools.bench.peers.fastload_dataset import dataset_of
from fastload.tools.bench.roof import Roof

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.dataset.dataset import FastParquetDataset
    from fastload.tools.bench.peers import Work

_REPEATS = 5
# Seconds of epochs, for each number of threads.
_PASSES_S = 0.6
# Number of rows written again with other codecs: a second or two of work.
_CODEC_ROWS = 1 << 18
_CODECS = ("none", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class StageRoofs:
    """Seconds for all rows, as medians.

    Attributes:
        threads: number of threads of the roof and of fastload.
        read_s: seconds of the roof to read the columns' chunks.
        decompress_s: seconds of the roof to run the chunks through libparquet's page reader.
        memcpy_s: seconds of the roof to copy as many bytes as the batches have.
        h2d_s: seconds to copy as many bytes from pinned memory to a CUDA device; None without a
            device.
        epoch_s: seconds of an epoch of fastload.
        spread: half the distance between the quartiles of epoch_s, as a share of epoch_s.
        fastload_read_s: seconds of fastload's read stage in an epoch, summed over its threads.
        fastload_decode_s: seconds of fastload's decode stage, summed over its threads.
        waiting: share of the epoch that the consumer waited.
        bottleneck: name of the slowest stage.
        by_threads: number of threads -> (seconds of an epoch of fastload, spread).
        codecs: codec -> least seconds to read and decompress the first rows, written with the
            codec.
        stored_codecs: codecs of the files.
        kept_bytes: bytes of decompressed pages that stay in memory, of fastload and of the roof
            alike. The roof neither reads nor decompresses these pages.
        kept_read_s: seconds of the roof to read the kept pages in memory.
    """

    threads: int
    read_s: float
    decompress_s: float
    memcpy_s: float
    h2d_s: float | None
    epoch_s: float
    spread: float
    fastload_read_s: float
    fastload_decode_s: float
    waiting: float
    bottleneck: str
    by_threads: dict[str, list[float]]
    codecs: dict[str, float]
    stored_codecs: list[str] = field(default_factory=list)
    kept_bytes: int = 0
    kept_read_s: float = 0.0

    @property
    def roof_s(self) -> float:
        """Seconds of the roof for one epoch in host memory."""
        return self.read_s + self.decompress_s + self.kept_read_s + self.memcpy_s


def measure(work: Work) -> StageRoofs:
    """Measure fastload's own times, then the roofs, over as many kept pages as fastload has."""
    cores = available_cores()
    threads = min(work.threads or cores, cores)
    roof = Roof.of(list(work.files), list(work.columns))
    by_threads = {}
    for count in sorted({1, *_doublings(2 * cores), threads}):
        with dataset_of(replace(work, threads=count)) as dataset:
            by_threads[count] = _epochs(dataset)
    with dataset_of(replace(work, threads=threads)) as dataset:
        _drain(dataset)
        before = dataset.stats()
        passes, seconds = 0, time.perf_counter()
        while passes < 2 or time.perf_counter() - seconds < _PASSES_S:
            _drain(dataset)
            passes += 1
        after = dataset.stats()
    kept = after.memory
    times = _stages(roof, threads, kept.kept_limit if kept.kept else 0)
    read_s = after.read.working_s - before.read.working_s
    read_s += after.read_ahead.working_s - before.read_ahead.working_s
    waiting_s = after.waiting_s - before.waiting_s
    consuming_s = after.consuming_s - before.consuming_s
    codecs, stored = _codecs(work, threads)
    return StageRoofs(
        threads=threads,
        read_s=times.read_s,
        decompress_s=times.decompress_s,
        memcpy_s=times.memcpy_s,
        h2d_s=_seconds_to_device(roof.output_bytes),
        epoch_s=by_threads[threads][0],
        spread=by_threads[threads][1],
        fastload_read_s=read_s / passes,
        fastload_decode_s=(after.decode.working_s - before.decode.working_s) / passes,
        waiting=waiting_s / max(waiting_s + consuming_s, 1e-9),
        bottleneck=after.bottleneck,
        by_threads={str(count): list(pair) for count, pair in by_threads.items()},
        codecs=codecs,
        stored_codecs=stored,
        kept_bytes=kept.kept,
        kept_read_s=times.kept_read_s,
    )


def report(roofs: StageRoofs) -> str:
    """Return the table and its meaning, as text."""
    note = (
        "Times of fastload's stages are sums over its threads, divided by the number of threads. "
        "Bytes in the page cache are read during decoding."
    )
    if roofs.kept_bytes:
        note += (
            f" {size_of(roofs.kept_bytes)} of decompressed pages are kept in memory: the roof "
            "reads these pages there, and decompresses none of them."
        )
    else:
        note += " No page stays in memory: the roof decompresses every page, as fastload does."
    return "\n".join((table(roofs), verdict(roofs), note))


def verdict(roofs: StageRoofs) -> str:
    """Say what bounds fastload, how near the roof it is, and which settings matter."""
    share = min(1.0, roofs.roof_s / roofs.epoch_s)  # no share above 1: the times are noisy
    bound = {"consumer": "bound by the consumer", "none": "idle"}
    name = bound.get(roofs.bottleneck, f"{roofs.bottleneck}-bound")
    over = " over pages kept in memory" if roofs.kept_bytes else ""
    parts = [f"{name}: {100 * share:.0f} % of the roof{over}", _of_threads(roofs)]
    parts += _of_codecs(roofs)
    if roofs.h2d_s is not None and roofs.h2d_s > roofs.epoch_s:
        parts.append("copies to the device take longer than an epoch")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def table(roofs: StageRoofs) -> str:
    """Return a table with a line for each stage: its roof, fastload's time, and their ratio."""
    wall = roofs.threads  # divides sums over threads to seconds of the clock
    rows = [
        ("", "roof", "fastload", "of roof"),
        _line("read", roofs.read_s, roofs.fastload_read_s / wall),
        ("decompress", f"{roofs.decompress_s:.4f} s", "", ""),
        *([("read kept pages", f"{roofs.kept_read_s:.4f} s", "", "")] if roofs.kept_bytes else []),
        ("memcpy", f"{roofs.memcpy_s:.4f} s", "", ""),
        _line(
            decode_name(kept=bool(roofs.kept_bytes)),
            roofs.decompress_s + roofs.kept_read_s + roofs.memcpy_s,
            roofs.fastload_decode_s / wall,
        ),
        _line("epoch", roofs.roof_s, roofs.epoch_s),
    ]
    if roofs.h2d_s is not None:
        rows.append(("copy to the device", f"{roofs.h2d_s:.4f} s", "", ""))
    widths = [max(len(row[j]) for row in rows) for j in range(4)]
    lines = [
        "  ".join(
            (row[0].ljust(widths[0]), *(row[j].rjust(widths[j]) for j in range(1, 4)))
        ).rstrip()
        for row in rows
    ]
    lines.insert(1, "-" * len(lines[0]))
    return "\n".join(lines)


def decode_name(*, kept: bool) -> str:
    """Return the name of the decode stage in tables."""
    return "decode and write, pages kept" if kept else "decompress, decode and write"


def _line(stage: str, roof_s: float, own_s: float) -> tuple[str, str, str, str]:
    # Bytes in the page cache are read during decoding: no read stage counts them.
    share = f"{min(1.0, roof_s / own_s):.2f}" if own_s > 1e-4 else "-"
    return stage, f"{roof_s:.4f} s", f"{own_s:.4f} s", share


def _of_threads(roofs: StageRoofs) -> str:
    times = {int(count): pair for count, pair in roofs.by_threads.items()}
    own_s, own_spread = times[roofs.threads]
    best = min(times, key=lambda count: times[count][0])
    most = max(times)
    noise = 2 * (own_spread + times[best][1])
    if best > roofs.threads and own_s / times[best][0] > 1 + noise:
        return f"more threads help up to {best}: {own_s / times[best][0]:.1f} x"
    own = "one thread gains" if roofs.threads == 1 else f"{roofs.threads} threads gain"
    return f"more than {own} nothing up to {most}, within the noise"


def _of_codecs(roofs: StageRoofs) -> list[str]:
    own = [codec for codec in roofs.stored_codecs if codec in roofs.codecs]
    others = {codec: s for codec, s in roofs.codecs.items() if codec not in ("none", *own)}
    if len(own) != 1 or not others:
        return []
    best = min(others, key=lambda codec: others[codec])
    ratio = roofs.codecs[own[0]] / others[best]
    if ratio < 1.1:
        return []
    first = ", which first epochs do" if roofs.kept_bytes else ""
    return [f"{own[0]} costs {ratio:.1f} x over {best} in reading and decompressing{first}"]


@dataclass(frozen=True, slots=True)
class _Stages:
    read_s: float
    decompress_s: float
    kept_read_s: float
    memcpy_s: float


def _stages(roof: Roof, threads: int, kept_limit_bytes: int) -> _Stages:
    """Return the seconds of the roof's stages, as medians."""
    times = [roof.once(threads, kept_limit_bytes) for _ in range(_REPEATS)]
    return _Stages(
        read_s=statistics.median(t.read_s for t in times),
        decompress_s=statistics.median(
            max(0.0, t.pages_s - t.read_s - t.kept_s) if t.pages else 0.0 for t in times
        ),
        kept_read_s=statistics.median(t.kept_s for t in times),
        memcpy_s=statistics.median(t.memcpy_s for t in times),
    )


def _doublings(most: int) -> Sequence[int]:
    return [1 << k for k in range(most.bit_length())]


def _drain(dataset: FastParquetDataset) -> float:
    started = time.perf_counter()
    for _ in dataset:
        pass
    return time.perf_counter() - started


def _epochs(dataset: FastParquetDataset) -> tuple[float, float]:
    """Return the median and the spread of the epochs after the first epoch."""
    _drain(dataset)
    begun = time.perf_counter()
    seconds = [_drain(dataset) for _ in range(3)]
    while time.perf_counter() - begun < _PASSES_S:
        seconds.append(_drain(dataset))
    low, middle, high = statistics.quantiles(seconds, method="inclusive")
    return middle, (high - low) / 2 / middle


def _codecs(work: Work, threads: int) -> tuple[dict[str, float], list[str]]:
    """Return the least seconds to read and decompress the first rows by codec, and the codecs."""
    columns = list(work.columns)
    first = pq.ParquetFile(work.files[0])
    batches, rows = [], 0
    for batch in first.iter_batches(columns=columns):
        batches.append(batch)
        rows += len(batch)
        if rows >= _CODEC_ROWS:
            break
    table_ = pa.Table.from_batches(batches, first.iter_batches(columns=columns).__next__().schema)
    footer = first.metadata
    stored = {
        chunk.compression.lower()
        for chunk in (footer.row_group(0).column(j) for j in range(footer.num_columns))
        if chunk.path_in_schema in columns
    }
    names = {"uncompressed": "none"}
    with tempfile.TemporaryDirectory(dir=work.scratch or None) as directory:
        roofs = {}
        for codec in _CODECS:
            path = Path(directory, f"{codec}.parquet")
            pq.write_table(table_, path, compression=codec)
            roofs[codec] = Roof.of(str(path), columns)
        # In turns, so that other load of the machine slows all codecs alike.
        rounds = [
            {codec: roof.once(threads).pages_s for codec, roof in roofs.items()}
            for _ in range(_REPEATS)
        ]
    seconds = {codec: min(times[codec] for times in rounds) for codec in _CODECS}
    return seconds, sorted(names.get(codec, codec) for codec in stored)


def _seconds_to_device(size: int) -> float | None:
    """Measure how long a copy from pinned memory to the current CUDA device takes.

    Args:
        size: number of bytes to copy.

    Returns:
        The median seconds of a few runs, each of which copies one buffer of at most 64 MiB again
        and again; None if there is no CUDA device.
    """
    if not torch.cuda.is_available():
        return None
    block = min(max(size, 1), 64 << 20)
    host = torch.empty(block, dtype=torch.uint8, device="cpu", pin_memory=True)
    target = torch.empty(block, dtype=torch.uint8, device="cuda")
    seconds = []
    for _ in range(5):
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(-(-size // block)):
            target.copy_(host, non_blocking=True)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)
