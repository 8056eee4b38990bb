"""What users read from batches, statistics, traces and checks; never run."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import torch
from typing_extensions import assert_type

from fastload import (
    Batch,
    Cache,
    Codes,
    Column,
    FastParquetDataset,
    Hash,
    Pack,
    Pad,
    Ragged,
    Stack,
    TokenBudget,
    mix,
)
from fastload.dataset.loaders.data_wait import DataWait, Pause, Step, WaitReport
from fastload.dataset.trace import Span
from fastload.engine.stats import Documents, Memory, Stage, Stats
from fastload.testing import ShuffleQuality, assert_same_batches, shuffle_quality

dataset = FastParquetDataset("a.parquet")

for batch in dataset:
    assert_type(batch, Batch)
    assert_type(batch["x"], Any)
    assert_type(batch.get("x"), Any)
    assert_type(batch.get("x", None), Any)
    for name, value in batch.items():
        assert_type((name, value), tuple[str, Any])
    for value in batch.values():
        assert_type(value, Any)
    assert_type(batch.rows, int)
    assert_type(batch.nbytes, int)
    assert_type(batch.slice(0, 2), Batch)
    assert_type(batch.to_arrow(), pa.RecordBatch)
    assert_type(batch.to_pandas(), Any)
    assert_type(batch.source, str | None)
    assert_type(batch.clone(), Batch)
    assert_type(batch.copy(), Batch)
    assert_type(batch.pin_memory(), Batch)

lists = Ragged(torch.zeros(3), torch.tensor([0, 1, 3]))
assert_type(lists.values, Any)
lists.values.float().mean()
assert_type(lists.offsets, torch.Tensor)
assert_type(lists.kind, Literal["str", "bytes"] | None)
assert_type(lists.depth, int)
assert_type(lists.lengths, torch.Tensor)
assert_type(lists.device, torch.device)
assert_type(lists.dtype, torch.dtype)
assert_type(lists.nbytes, int)
assert_type(lists[1:], Ragged)
assert_type(lists.tolist(), list[Any])
assert_type(lists.to_nested(), torch.Tensor)
assert_type(lists.pin_memory(), Ragged)
assert_type(lists.clone(), Ragged)

assert_type(Column("x").name, str)
torch_dtype: object = Column("x").dtype
assert_type(Column("x").valid, bool)
assert_type(Column("x").unit, Literal["s", "ms", "us", "ns"] | None)
assert_type(Hash("x", 10).buckets, int)
assert_type(Hash("x", 10).seed, int)
assert_type(Codes("x", ["a"]).unknown, int)
assert_type(
    Codes("x", ["a"]).vocabulary,
    Sequence[str | None] | Sequence[bytes | None] | Sequence[int | None],
)
assert_type(Pad("x", 8).length, int)
assert_type(Pad("x", 8).name, str | Column | Hash | Codes)
assert_type(Pad("x", 8).elements, Column | Hash | Codes)
pack = Pack("tokens", 8192, along=["labels"], fit="split", long="drop", pad={"labels": -100})
assert_type(pack.column, str | Column | Hash | Codes)
assert_type(pack.output, str)
assert_type(pack.outputs, tuple[str, ...])
assert_type(pack.pad_of("labels"), bool | int | float)
assert_type(TokenBudget("tokens", 4096).tokens, int)
assert_type(TokenBudget("tokens", 4096, padded=True, max_rows=64).long, Literal["raise", "alone"])
assert_type(Stack(["x"]).names, Sequence[str])
assert_type(Stack(["x"], fill={"x": 1}).fill_of("x"), bool | int | float | None)
assert_type(Cache("cache").directory, str | PathLike[str])
assert_type(Cache("cache").path, Path)
assert_type((Cache("cache").raw, Cache("cache").prepared), tuple[bool, bool])
assert_type(Cache("cache", key="1").limit_bytes, int | None)
assert_type(Cache("cache").key, str | None)

stats = dataset.stats()
assert_type(stats, Stats)
for stage in (stats.read, stats.read_ahead, stats.decode, stats.kernels, stats.deliver):
    assert_type(stage, Stage)
    assert_type((stage.bytes, stage.rows, stage.working_s), tuple[int, int, float])
assert_type((stats.requests, stats.batches, stats.copied_batches), tuple[int, int, int])
assert_type((stats.waiting_s, stats.consuming_s, stats.cpu_s), tuple[float, float, float])
assert_type(stats.memory_allocations, int)
memory = stats.memory
assert_type(memory, Memory)
documents = stats.documents
assert_type(documents, Documents)
assert_type((documents.split, documents.truncated, documents.dropped), tuple[int, int, int])
assert_type((memory.read, memory.staged, memory.batches, memory.total), tuple[int, int, int, int])


def show(step: Step) -> None:
    assert_type((step.epoch, step.index, step.where), tuple[int, int, str])
    assert_type((step.wait_s, step.work_s), tuple[float, float])


waits = DataWait(dataset, on_step=show)
assert_type(next(iter(waits.loader)), Batch)
report = waits.report()
assert_type(report, WaitReport)
assert_type((report.steps, report.epochs), tuple[int, int])
assert_type((report.waiting_s, report.working_s), tuple[float, float])
assert_type(report.share_since(report), float)
waits.reset()
for pause in report.pauses:
    assert_type(pause, Pause)
    assert_type(pause.seconds, float)
    assert_type((pause.epoch, pause.index, pause.where), tuple[int, int, str])

with dataset.trace(capacity=1000) as trace:
    for span in trace.spans:
        assert_type(span, Span)
        assert_type((span.stage, span.column), tuple[str, str])
        assert_type((span.thread, span.index, span.bytes), tuple[int, int, int])
        assert_type((span.start_ns, span.end_ns), tuple[int, int])
assert_type(trace.threads, dict[int, str])
assert_type(trace.dropped, int)
assert_type(trace.to_json(), dict[str, Any])

assert_type(mix([dataset, dataset]).sources, tuple[str, ...])
mixed = mix({"a": dataset})
assert_type(mixed.files, dict[str, tuple[str, ...]])
mixed.set_epoch(1)
mixed.close()

assert_same_batches([], [])
quality = shuffle_quality(dataset)
assert_type(quality, ShuffleQuality)
assert_type((quality.rows, quality.batch_rows), tuple[int, int])
assert_type((quality.score, quality.effective_rows), tuple[float, float])
