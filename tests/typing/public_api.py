"""What users write, checked by mypy and pyright; never run."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.distributed.device_mesh import DeviceMesh
from torch.utils.data import DataLoader
from typing_extensions import assert_type

from fastload import (
    Batch,
    Cache,
    Codes,
    Column,
    DataWait,
    DevicePrefetcher,
    FastParquetDataset,
    Fixed,
    Hash,
    Image,
    MixedDataset,
    Pad,
    Ragged,
    Stack,
    kernel,
    mix,
    per_block,
    per_row,
    prepare,
    skip,
    vocabulary,
)
from fastload.dataset.trace import Trace
from fastload.images import Box, center_box, crop_box, decode, decode_on, flips, sizes
from fastload.testing import (
    assert_ranks_agree,
    assert_resumes_exactly,
    assert_same_rows,
    assert_same_steps,
)

dataset = FastParquetDataset(
    ["a.parquet", "b.parquet"],
    columns={
        "label": "click",
        "price": Column("price", dtype=torch.float32, fill=0.0, valid=True),
        "features": Stack(["x", "y"], dtype=torch.float32),
        "tokens": Pad("tokens", 128),
        "tags": Pad(Hash("tags", 1000, seed=1, fill=""), 8, value=-1),
        "country": Codes("country", ["DE", "FR"], unknown=2),
    },
    batch_size=4096,
    shuffle=True,
    memory_budget="2GB",
    on_error="skip",
    cache=Cache("cache", max_bytes="10GB"),
)
dataset.warm_cache(progress=lambda done, total: None)
assert_type(len(dataset), int)
assert_type(dataset.files, tuple[str, ...])
assert_type(dataset.skipped, tuple[tuple[str, int, str], ...])
assert_type(dataset.schema["price"].dtype, torch.dtype)
assert_type(dataset.stats().bottleneck, str)

for one in dataset:
    assert_type(one, Batch)
    total: torch.Tensor = one["features"].sum()
    offsets: torch.Tensor = one["lists"].offsets
    assert_type(one.rows, int)
assert_type(dataset.head(3), Batch)
assert_type(dataset.num_rows, int)
assert_type(dataset.epoch_bytes, int)
assert_type(dataset.rows_of(range(3), rank=0, num_workers=2), dict[str, NDArray[Any]])
part = FastParquetDataset("a.parquet", offset=5, limit=10)


def train(data: FastParquetDataset) -> None:
    for batch in data:
        assert_type(batch, Batch)


train(dataset)
for row in dataset.head(3).iter_rows():
    assert_type(row, dict[str, Any])
opened_by_one_word = FastParquetDataset(
    "a.parquet",
    columns={"y": torch.int64, "z": np.float32, "x": ["a", "b"], "v": Fixed("v", size=3), "*": ...},
    exclude=["raw"],
    nulls="mask",
)
words = vocabulary("a.parquet", "country", min_count=2, max_size=100, filters=[("x", ">", 0)])
codes = Codes("country", [None, *words], unknown=0)
photo = Image("image", (224, 192), crop="random", flip=True, mode="L", layout="hwc", scale=(0.5, 1))
assert_type(photo.shape, tuple[int, int, int])
assert_type(photo.sides, tuple[int, int])
photos = FastParquetDataset("images", columns={"photo": photo, "mask": Image("mask", 8, crop=None)})
history = Pad("items", 50, side="left", keep="last", mask=True, dtype="int64")

loader = DataLoader(dataset, batch_size=None)
for batch in loader:
    assert isinstance(batch, Batch)
    moved = batch.to("cpu", non_blocking=True)
    assert_type(moved, Batch)
    state = dataset.state_dict(after=batch)
    dataset.load_state_dict(skip(state, 3))
    assert_type(prepare(dataset, "prepared", jobs=2, progress=False), str)
    dataset.set_epoch(1)

text = Ragged(torch.zeros(3, dtype=torch.uint8), torch.tensor([0, 1, 3]), "str")
assert_type(text.to("cpu"), Ragged)
assert_type(decode_on("cuda", text, 224, seeds=[1, 2], crop="random", flip=True), torch.Tensor)
pair = decode_on(torch.device("cuda"), text, (224, 192), mode="L", broken="mask")
assert_type(pair, tuple[torch.Tensor, torch.Tensor])

assert_type(text.to_padded(0, [None, 4]), torch.Tensor)

with FastParquetDataset("a.parquet") as opened:
    assert_same_rows(opened, object(), ordered=False)
    opened.close()

mixed = mix(
    {"a": dataset, "b": FastParquetDataset("b.parquet")},
    [1, 0.5],
    stop="repeat",
)
assert_type(mixed, MixedDataset)
assert_type(len(mixed), int)
assert_type(mixed.schema["a"]["price"].dtype, torch.dtype)
assert_type(mixed.stats()["b"].bottleneck, str)
for batch in mixed:
    assert_type(batch, Batch)
    assert_type(batch.source, str | None)
    mixed.load_state_dict(mixed.state_dict(after=batch))
with mix({"a": dataset}, {"a": 1.0}, seed=3) as opened_mix:
    assert_type(opened_mix.sources, tuple[str, ...])
    assert_type(opened_mix.rows_of(0), dict[str, NDArray[Any]])


def scaled(block: dict[str, Any]) -> dict[str, NDArray[np.float32]]:
    return {"price": block["price"] / np.float32(100)}


def jittered(batch: Batch, seeds: NDArray[np.uint64]) -> Batch:
    batch["price"] += torch.from_numpy((seeds >> np.uint64(11)) * 2.0**-53)
    return batch


encoded = per_row(str.encode, inputs="text", outputs={"bytes": "ragged"}, threads=2)
drawn = per_row(lambda price, seed: price * (seed % 2), "price", "price", seeds=True)


@kernel(inputs=("price", "quantity"), outputs={"revenue": "float32", "wide": (torch.int8, 3)})
def revenue(price: NDArray[np.float64], quantity: NDArray[np.int64], out: Any, wide: Any) -> None:
    out[:] = price * quantity


machine_code = kernel.from_address(1, inputs="price", outputs={"tax": "float32"}, version="1")
noise = kernel("price", {"price": np.float32}, random=True, version="1")(lambda *arrays: None)
assert_type(sizes(bytearray()), tuple[int, int])
assert_type(crop_box(300, 400, seed=1, scale=(0.5, 1.0), ratio=(1.0, 1.0)), Box)
assert_type(
    decode(b"", size=224, flip=flips(1), out=np.empty((224, 224, 3), "uint8")), NDArray[np.uint8]
)
decode(b"", mode="L", box=lambda height, width: center_box(height, width, (1, 1)), size=(3, 4))
FastParquetDataset("a.parquet", preprocess=[revenue, encoded], augment=[noise, jittered, drawn])
FastParquetDataset("a.parquet", preprocess=revenue, augment=noise)
FastParquetDataset("a.parquet", preprocess=[scaled, encoded], augment=jittered)
FastParquetDataset("a.parquet", preprocess=[per_block(scaled, threads=4), encoded])
FastParquetDataset("a.parquet", preprocess=scaled, augment=[jittered, jittered])
assert_type(dataset.stats().steps_s, float)

prefetcher = DevicePrefetcher(loader, "cuda", depth=3)
assert_type(len(prefetcher), int)
for moved in prefetcher:
    assert isinstance(moved, Batch)
    prefetcher.load_state_dict(prefetcher.state_dict())
    prefetcher.set_epoch(2)
for batch in DevicePrefetcher(mixed, torch.device("cuda", 0)):
    assert_type(batch, Batch)
prefetcher.close()

waits = DataWait(DevicePrefetcher(loader, "cpu"))
for waited in waits:
    assert isinstance(waited, Batch)
assert_type(waits.report().share, float)
with dataset.trace() as trace:
    assert_type(trace, Trace)
trace.write("trace.json")
assert_type(dataset.stats().to_prometheus({"rank": "0"}), str)

assert_resumes_exactly(lambda: FastParquetDataset("a.parquet"), after=[1, 2], num_workers=2)
assert_ranks_agree(
    lambda rank, world_size: FastParquetDataset("a.parquet", rank=rank, world_size=world_size),
    world_sizes=(2, 8),
    uneven="wrap",
)
assert_same_steps(
    lambda rank, world_size: FastParquetDataset("a.parquet", rank=rank, world_size=world_size),
    (1, 2),
    steps=3,
)


def on_mesh(mesh: DeviceMesh) -> list[FastParquetDataset]:
    names = FastParquetDataset("a.parquet", mesh=(mesh, ["dp", "ep"]))
    return [FastParquetDataset("a.parquet", mesh=mesh), names]
