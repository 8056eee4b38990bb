"""How users pack tokens, read tables, and take rows by number; never run."""

import torch
from torch.utils.data import DataLoader, Subset
from typing_extensions import assert_type

import fastload.testing
from fastload import Batch, Delta, FastParquetDataset, Iceberg, Pack, TokenBudget
from fastload.dataset.lookup import RowsByIndex
from fastload.engine.stats import Documents

pack = Pack(
    "input_ids",
    8192,
    along=["labels"],
    fit="split",
    long="truncate",
    pad={"input_ids": 0, "labels": -100},
)
assert_type(pack.output, str)
assert_type(pack.outputs, tuple[str, ...])
assert_type(pack.pad_of("labels"), bool | int | float)
print(pack.column, pack.length, pack.along, pack.fit, pack.long, pack.pad)
packed = FastParquetDataset("tokens", pack=pack, global_batch_size=64, canonical_ranks=16)
for batch in packed:
    assert_type(batch, Batch)
documents = packed.stats().documents
assert_type(documents, Documents)
assert_type((documents.split, documents.truncated, documents.dropped), tuple[int, int, int])
memory = packed.stats().memory
assert_type((memory.kept, memory.kept_limit, memory.kept_chunks), tuple[int, int, int])
numbers = packed.stats()
assert_type((memory.spare, numbers.threads), tuple[int, int])

budget = TokenBudget("input_ids", 65536, padded=True, max_rows=256, long="alone")
print(budget.column, budget.tokens, budget.padded, budget.max_rows, budget.long)
by_tokens = FastParquetDataset("tokens", batch_size=budget, offset=5)
for batch in by_tokens:
    assert_type(batch, Batch)

weighted = FastParquetDataset("tokens", weights="weight", shuffle=True)
weighted.set_weights([1.0, 2.0])

delta = Delta("s3://bucket/clicks", version=12)
print(delta.uri, delta.version)
iceberg = Iceberg("books.sales", snapshot_id=3, catalog="default")
print(iceberg.table, iceberg.snapshot_id, iceberg.catalog)
for table in (delta, iceberg):
    clicks = FastParquetDataset(table, columns=["f1"], filters=[("day", ">=", "2024-01-31")])
    assert_type(clicks, FastParquetDataset)

assert_type(clicks.take([3, 1, 2]), Batch)
assert_type(clicks.take(torch.tensor([0])), Batch)
view = clicks.by_index()
assert_type(view, RowsByIndex)
assert_type(len(view), int)
rows = view[0]
of_view: list[Batch] = list(DataLoader(Subset(view, [1, 2]), batch_size=2))
fastload.testing.assert_same_steps(lambda rank, world: clicks, [1, 2])
