"""The files that the pages of the documentation read."""

from __future__ import annotations

import io
import wave
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from fastload.tools.bench import sample

_ROWS = 2_000  # of a file
_GROUP_ROWS = 500
_COUNTRIES = ["DE", "FR", "US", "BR", "JP"]


def write_page_files(directory: Path) -> None:
    """Write the directories and files that pages read.

    They are sales (a Delta table of two versions), catalog.db (of Iceberg, with shop.events), and
    train, valid, web, books (two files of each), events, tokens, texts, embeddings, images,
    sensors.parquet, chats.parquet, speech.parquet, molecules.parquet, and clicks.parquet, which is
    like the sample of fastload-bench.
    """
    sample.make(directory / "clicks.parquet", row_groups=1, rows=_ROWS)
    for number, name in enumerate(("train", "valid", "web", "books")):
        for part in range(2):
            _write(directory / name / f"part-{part:03}.parquet", _clicks(2 * number + part))
    for year in (2022, 2023, 2024):
        path = directory / "events" / f"year={year}" / "part-0.parquet"
        _write(path, _clicks(year))
    _write(directory / "tokens" / "part-000.parquet", _tokens())
    texts = [f"Text number {n}. " * (n % 9) for n in range(_ROWS)]
    _write(directory / "texts" / "part-000.parquet", pa.table({"text": texts}))
    _write(directory / "embeddings" / "part-000.parquet", _embeddings())
    _write(directory / "images" / "part-000.parquet", _images())
    _write(directory / "sensors.parquet", _sensors())
    _write(directory / "chats.parquet", _chats())
    _write(directory / "speech.parquet", _speech())
    _write(directory / "molecules.parquet", _molecules())
    _write_tables(directory)


def _write_tables(directory: Path) -> None:
    import deltalake
    from pyiceberg.catalog.sql import SqlCatalog

    for day in (3, 4):
        rows = _clicks(day).select(["item", "price"]).append_column("day", pa.array([day] * _ROWS))
        deltalake.write_deltalake(directory / "sales", rows, mode="append", partition_by=["day"])
    catalog = SqlCatalog(
        "default", uri=f"sqlite:///{directory}/catalog.db", warehouse=f"file://{directory}/shop"
    )
    catalog.create_namespace("shop")
    rows = _clicks(5).select(["item", "price"])
    catalog.create_table("shop.events", rows.schema).append(rows)


def _write(path: Path, table: pa.Table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=_GROUP_ROWS)


def _clicks(seed: int) -> pa.Table:
    """A row for each time something was shown to somebody."""
    random = np.random.default_rng(seed)
    numbers = random.random((_ROWS, 3)).astype(np.float32)
    users = [f"u{n}" for n in random.integers(0, 200, _ROWS)]
    tags = [[f"t{n}" for n in random.integers(0, 50, length)] for length in _lengths(random, 5)]
    user = {
        "id": users,
        "name": [f"name of {user}" for user in users],
        "country": [("de", "fr", "us")[n % 3] for n in range(_ROWS)],
    }
    return pa.table(
        {
            "label": (random.random(_ROWS) < 0.3).astype(np.float32),
            "click": (random.random(_ROWS) < 0.3).astype(np.int8),
            "price": pa.array(random.random(_ROWS) * 100, mask=random.random(_ROWS) < 0.1),
            "quantity": random.integers(1, 9, _ROWS).astype(np.int32),
            "age": random.integers(1, 99, _ROWS).astype(np.int32),
            "clicks": random.integers(0, 9, _ROWS),
            "views": random.integers(0, 99, _ROWS),
            "day": np.sort(random.integers(0, 30, _ROWS)).astype(np.int32),
            "item": random.integers(0, 1 << 40, _ROWS),
            **{f"f{place + 1}": numbers[:, place] for place in range(3)},
            "features": pa.FixedSizeListArray.from_arrays(pa.array(numbers.reshape(-1)), 3),
            "country": [_COUNTRIES[n % 5] for n in range(_ROWS)],
            "user": pa.StructArray.from_arrays(
                [pa.array(values) for values in user.values()], names=list(user)
            ),
            "tokens": [random.integers(1, 999, n).tolist() for n in _lengths(random, 40)],
            "tags": tags,
            "history": [random.integers(1, 999, n).tolist() for n in _lengths(random, 12)],
        }
    )


def _lengths(random: np.random.Generator, most: int) -> list[int]:
    return random.integers(0, most + 1, _ROWS).tolist()


def _tokens() -> pa.Table:
    random = np.random.default_rng(1)
    ids = [random.integers(1, 999, n + 1).astype(np.int32) for n in _lengths(random, 60)]
    return pa.table({"input_ids": pa.array(ids, pa.list_(pa.int32())), "source": ["web"] * _ROWS})


def _embeddings() -> pa.Table:
    random = np.random.default_rng(2)
    values = pa.array(random.random(_ROWS * 64, dtype=np.float32))
    return pa.table(
        {
            "id": np.arange(_ROWS),
            "embedding": pa.FixedSizeListArray.from_arrays(values, 64),
            "title": [f"title {n}" for n in range(_ROWS)],
        }
    )


def _images() -> pa.Table:
    """JPEGs of several sizes, as Hugging Face stores them."""
    random = np.random.default_rng(3)
    images = []
    for number in range(100):
        pixels = random.integers(0, 256, (40 + number % 7, 50, 3), np.uint8)
        encoded = io.BytesIO()
        Image.fromarray(pixels).save(encoded, "JPEG")
        images.append({"bytes": encoded.getvalue(), "path": f"{number}.jpg"})
    return pa.table(
        {
            "image": images,
            "label": np.arange(100) % 10,
            "height": 40 + np.arange(100) % 7,
            "captions": [[f"caption {n}", f"image {n}"] for n in range(100)],
        }
    )


def _sensors() -> pa.Table:
    random = np.random.default_rng(4)
    return pa.table(
        {
            "sensor": np.repeat(np.arange(5), 200),
            "hour": np.tile(np.arange(200), 5),
            "value": random.random(1000, dtype=np.float32),
        }
    )


def _chats() -> pa.Table:
    return pa.table(
        {
            "roles": [["user", "assistant"], ["system", "user", "assistant"]] * 50,
            "texts": [["Hello?", "Hi."], ["Be brief.", "What is 2 + 2?", "4."]] * 50,
        }
    )


def _speech() -> pa.Table:
    """WAV files of several lengths, as Hugging Face stores them."""
    random = np.random.default_rng(5)
    recordings = []
    for number in range(64):
        encoded = io.BytesIO()
        with wave.open(encoded, "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes(random.integers(-999, 999, 800 + 10 * number, np.int16).tobytes())
        recordings.append({"bytes": encoded.getvalue(), "path": f"{number}.wav"})
    return pa.table({"audio": recordings, "label": np.arange(64) % 10})


def _molecules() -> pa.Table:
    """Graphs of three nodes and two to four edges, as PyTorch Geometric lays them out."""
    edges = [[[0, 1, 1, 2][: 2 + n % 3], [1, 0, 2, 1][: 2 + n % 3]] for n in range(64)]
    nodes = [[[1.0, 0.0]] * 3] * 64
    return pa.table(
        {
            "x": pa.array(nodes, pa.list_(pa.list_(pa.float32(), 2))),
            "edge_index": pa.array(edges, pa.list_(pa.list_(pa.int64()), 2)),
            "y": np.arange(64, dtype=np.float32),
        }
    )
